"""The checkpoint card and the findings: what this is, whether it is safe, and what is wrong with it."""

from __future__ import annotations

import html
from collections.abc import Sequence

from PySide6.QtCore import QEvent, Qt, Signal
from PySide6.QtGui import QEnterEvent, QKeyEvent, QMouseEvent, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import (
    QComboBox,
    QFrame,
    QGridLayout,
    QHBoxLayout,
    QLabel,
    QPushButton,
    QScrollArea,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)  # fmt: skip

from ckpt_gui.core.errors import Finding
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.passes.section import shown
from ckpt_gui.core.text import plural
from ckpt_gui.gui.models.card import CONFIG_HELPS, CheckpointCard, fix_words
from ckpt_gui.gui.panels.parts import GRID, Card, FlowLayout, button, clear, label, tip_text
from ckpt_gui.gui.session import Session, Snapshot
from ckpt_gui.gui.theme import SEVERITY_STYLES, Theme
from ckpt_gui.gui.widgets.scroll_body import ScrollBody
from ckpt_gui.gui.widgets.units import breakable, quoted


class CheckpointPanel(QScrollArea):
    """Shows the card of the session's snapshot.

    Signals:
        finding_chosen(finding): The user wants to see the tensors of a finding.
        config_wanted(): The user wants to name a config file.
        counts_wanted(): The user wants to give head counts, which the export dialog takes.
    """

    finding_chosen = Signal(object)
    config_wanted = Signal()
    counts_wanted = Signal()

    def __init__(self, session: Session, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._session, self._theme = session, theme
        self._unfolded = False
        self.card: CheckpointCard | None = None
        self.finding_cards: list[FindingCard] = []
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setWidgetResizable(True)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setAccessibleName(self.tr("Checkpoint and findings"))
        self._body = inner = ScrollBody()
        self._layout = QVBoxLayout(inner)
        self._layout.setContentsMargins(GRID, GRID, GRID, GRID)
        self._layout.setSpacing(GRID)
        self.setWidget(inner)
        session.changed.connect(self.show_snapshot)
        session.closed.connect(self._empty)
        theme.changed.connect(self._restyle)

    def show_snapshot(self, snapshot: Snapshot) -> None:
        """Show what a snapshot is about."""
        self.card = snapshot.card
        self._fill(self.card)

    def _fill(self, card: CheckpointCard) -> None:
        self._empty()
        self._layout.addWidget(self._what(card))
        self._layout.addSpacing(GRID)
        self._layout.addWidget(self._heading(card.findings))
        for finding in card.findings:
            made = FindingCard(finding, self._theme)
            made.chosen.connect(self.finding_chosen)
            self.finding_cards.append(made)
            self._layout.addWidget(made)
            if finding.code in CONFIG_HELPS:
                made.add_action(self.tr("Choose a config…")).clicked.connect(self.config_wanted)
            if finding.code == "heads-unknown":
                made.add_action(self.tr("Give the head counts…")).clicked.connect(self.counts_wanted)
        if not card.findings:
            self._layout.addWidget(label(self.tr("Nothing to report."), muted=True))
        self._layout.addWidget(self._passed(card.passed))
        self._layout.addStretch()
        self._set_tab_order()

    def _set_tab_order(self) -> None:
        """Put what was just made where it stands: Qt puts what is made last at the end of the window."""
        last: QWidget = self
        for each in self._body.findChildren(QWidget):
            if each.focusPolicy() & Qt.FocusPolicy.TabFocus and each.window() is self.window():
                self.setTabOrder(last, each)
                last = each

    def _empty(self) -> None:
        self.finding_cards = []
        clear(self._layout)

    def _restyle(self) -> None:
        if self.card is not None and self._session.snapshot is not None:
            self._fill(self.card)

    def _what(self, card: CheckpointCard) -> QWidget:
        box = Card()
        evidence = "<br>".join(html.escape(safe_text(s, 400)) for s in card.evidence)
        title = label(card.title, size=1.25, bold=True, wrap=True)
        title.setToolTip(evidence)
        title.setMinimumWidth(8 * self.fontMetrics().height())
        box.body.addWidget(title)
        if card.nesting:
            tags = QWidget()
            flow = FlowLayout(tags, spacing=GRID // 2)
            for text in card.nesting:
                flow.addWidget(_Tag(text, self._theme))
            tags.setToolTip(evidence)
            box.body.addWidget(tags)
        box.body.addSpacing(GRID // 2)
        box.body.addLayout(self._facts(card))
        if card.sections:
            box.body.addLayout(self._chooser(card.sections))
        box.body.addSpacing(GRID // 2)
        box.body.addLayout(self._safety(card))
        return box

    def _facts(self, card: CheckpointCard) -> QGridLayout:
        grid = QGridLayout()
        grid.setHorizontalSpacing(int(1.5 * GRID))
        grid.setVerticalSpacing(GRID // 2 + 2)
        grid.setColumnStretch(1, 1)
        for line, fact in enumerate(card.facts):
            name, value = label(fact.label, muted=True), label(breakable(fact.value), wrap=True)
            for each in (name, value):
                each.setToolTip(tip_text(fact.evidence))
            value.setMinimumWidth(3 * self.fontMetrics().height())
            value.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
            grid.addWidget(name, line, 0, Qt.AlignmentFlag.AlignTop)
            grid.addWidget(value, line, 1, Qt.AlignmentFlag.AlignTop)
        return grid

    def _chooser(self, sections: Sequence[tuple[str, ...]]) -> QVBoxLayout:
        combo = QComboBox()
        combo.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        combo.setAccessibleName(self.tr("Section with the weights"))
        for section in sections:
            combo.addItem(shown(section) or self.tr("the top level"), section)
        assert self._session.snapshot is not None
        chosen = self._session.snapshot.plan.section
        combo.setCurrentIndex(next((n for n, s in enumerate(sections) if s == chosen), 0))
        combo.activated.connect(lambda place: self._session.change_policy(section=sections[place]))
        name = label(self.tr("Take the weights from"), muted=True)
        name.setBuddy(combo)
        box = QVBoxLayout()
        box.setSpacing(GRID // 2)
        box.addWidget(name)
        box.addWidget(combo)
        return box

    def _safety(self, card: CheckpointCard) -> QHBoxLayout:
        kind = "ok" if card.safe else "error"
        line = QHBoxLayout()
        line.setSpacing(GRID)
        line.addWidget(_coloured(SEVERITY_STYLES[kind][0], kind, self._theme), 0, Qt.AlignmentFlag.AlignTop)
        line.addWidget(label(card.safety, wrap=True), 1)
        return line

    def _heading(self, findings: Sequence[Finding]) -> QWidget:
        box = QWidget()
        line = QHBoxLayout(box)
        line.setContentsMargins(GRID // 2, 0, GRID // 2, 0)
        line.setSpacing(GRID)
        line.addWidget(label(self.tr("Findings"), bold=True))
        line.addStretch()
        for severity in ("error", "warning", "info"):
            count = sum(f.severity == severity for f in findings)
            if count:
                glyph, word, _ = SEVERITY_STYLES[severity]
                made = _coloured(f"{glyph} {count}", severity, self._theme)
                made.setAccessibleName(plural(count, word.lower()))
                made.setToolTip(plural(count, word.lower()))
                line.addWidget(made)
        return box

    def _passed(self, passed: Sequence[str]) -> QWidget:
        box = QWidget()
        layout = QVBoxLayout(box)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(GRID // 2)
        fold = button("", kind="quiet")
        inner = QWidget()
        lines = QVBoxLayout(inner)
        lines.setContentsMargins(2 * GRID, 0, GRID, 0)
        lines.setSpacing(GRID // 2)
        for text in passed:
            line = QHBoxLayout()
            line.setSpacing(GRID)
            line.addWidget(_coloured(SEVERITY_STYLES["ok"][0], "ok", self._theme), 0, Qt.AlignmentFlag.AlignTop)
            line.addWidget(label(text, wrap=True), 1)
            lines.addLayout(line)

        def show(unfolded: bool) -> None:
            self._unfolded = unfolded
            inner.setVisible(unfolded)
            fold.setText(f"{'▾' if unfolded else '▸'}  {plural(len(passed), 'check')} passed")
            fold.setAccessibleName(f"{plural(len(passed), 'check')} passed, {'shown' if unfolded else 'folded'}")

        show(self._unfolded)
        fold.clicked.connect(lambda: show(not self._unfolded))
        layout.addWidget(fold, 0, Qt.AlignmentFlag.AlignLeft)
        layout.addWidget(inner)
        box.setVisible(bool(passed))
        return box


class FindingCard(QFrame):
    """One finding: how bad, what, and what is done about it. A click shows its tensors.

    Signals:
        chosen(finding): It was clicked, or Enter or Space was pressed on it.
    """

    chosen = Signal(object)

    def __init__(self, finding: Finding, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.finding = finding
        self._theme = theme
        glyph, word, _ = SEVERITY_STYLES[finding.severity]
        if finding.blocking:
            word = self.tr("Blocks the export")
        self._layout = QVBoxLayout(self)
        self._layout.setContentsMargins(2 * GRID, int(1.25 * GRID), int(1.5 * GRID), int(1.25 * GRID))
        self._layout.setSpacing(GRID // 2)
        head = QHBoxLayout()
        title = _coloured(f"{glyph}  {word}", finding.severity, theme)
        title.setWordWrap(True)
        title.setMinimumWidth(5 * title.fontMetrics().height())
        head.addWidget(title, 1)
        if finding.keys:
            head.addWidget(label(plural(len(finding.keys), "tensor"), muted=True))
            self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
            self.setCursor(Qt.CursorShape.PointingHandCursor)
            self.setToolTip(self.tr("Show these tensors in the tree"))
        self._layout.addLayout(head)
        self._layout.addWidget(label(_spaced(finding.message), wrap=True))
        fix = fix_words(finding)
        if fix:
            self._layout.addWidget(label(_spaced(fix), muted=True, wrap=True))
        self.setAccessibleName(f"{word}: {quoted(finding.message)}")
        self.setAccessibleDescription(quoted(fix))

    def add_action(self, text: str) -> QPushButton:
        """Add a button that does something about it."""
        made = button(text)
        self._layout.addSpacing(GRID // 2)
        self._layout.addWidget(made, 0, Qt.AlignmentFlag.AlignLeft)
        return made

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        """Choose it."""
        if event.button() == Qt.MouseButton.LeftButton and self.rect().contains(event.position().toPoint()):
            self._choose()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Choose it with Enter or Space."""
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Space):
            self._choose()
        else:
            super().keyPressEvent(event)

    def enterEvent(self, event: QEnterEvent) -> None:
        """Repaint for the hover."""
        self.update()

    def leaveEvent(self, event: QEvent) -> None:
        """Repaint without the hover."""
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint a surface with a bar in the severity's colour at its left."""
        theme, painter = self._theme, QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        live = bool(self.finding.keys) and self.underMouse()
        edge = theme.color("focus" if self.hasFocus() else "border")
        painter.setPen(QPen(edge, 2 if self.hasFocus() else 1))
        painter.setBrush(theme.color("hover" if live else "surface"))
        painter.drawRoundedRect(self.rect().adjusted(1, 1, -1, -1), GRID, GRID)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(theme.color(f"severity.{self.finding.severity}"))
        painter.drawRoundedRect(GRID // 2 + 1, GRID + 2, 3, self.height() - 2 * GRID - 4, 1.5, 1.5)

    def _choose(self) -> None:
        if self.finding.keys:
            self.chosen.emit(self.finding)


class _Tag(QLabel):
    """A short word with a tinted ground."""

    def __init__(self, text: str, theme: Theme) -> None:
        super().__init__(text)
        self._theme = theme
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setContentsMargins(GRID, 2, GRID, 2)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint the ground, then the text."""
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(self._theme.tint("blue", 0.12))
        painter.drawRoundedRect(self.rect(), GRID // 2, GRID // 2)
        painter.end()
        super().paintEvent(event)


def _coloured(text: str, severity: str, theme: Theme) -> QLabel:
    made = label(text, bold=True)
    palette = made.palette()
    palette.setColor(made.foregroundRole(), theme.color(f"severity.{severity}"))
    made.setPalette(palette)
    return made


def _spaced(text: str) -> str:
    """Return a sentence in which long keys may be broken after their dots."""
    shown = breakable(quoted(text, 1000))
    return f"Fix{shown[3:]}" if shown.startswith("fix ") else shown  # the command is a button here
