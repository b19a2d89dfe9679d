"""One finding as a card: how bad, what, what is done about it, and the buttons that do it."""

from __future__ import annotations

from PySide6.QtCore import QEvent, Qt, Signal
from PySide6.QtGui import QEnterEvent, QKeyEvent, QMouseEvent, QPaintEvent, QPen
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from ckpt_gui.core.errors import Finding
from ckpt_gui.core.text import plural
from ckpt_gui.gui.language import said
from ckpt_gui.gui.looks import SEVERITY_STYLES
from ckpt_gui.gui.models.card import fix_words
from ckpt_gui.gui.panels.parts import button, label
from ckpt_gui.gui.theme import Theme
from ckpt_gui.gui.widgets.painting import painting
from ckpt_gui.gui.widgets.units import GRID, breakable, quoted


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
        title = coloured(f"{glyph}  {said(word)}", finding.severity, theme)
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
        self.setAccessibleName(f"{said(word)}: {quoted(finding.message)}")
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
        theme = self._theme
        with painting(self, smooth=True) as painter:
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


def coloured(text: str, severity: str, theme: Theme) -> QLabel:
    """Return a bold label in the colour of a severity."""
    made = label(text, bold=True)
    palette = made.palette()
    palette.setColor(made.foregroundRole(), theme.color(f"severity.{severity}"))
    made.setPalette(palette)
    return made


def _spaced(text: str) -> str:
    """Return a sentence in which long keys may be broken after their dots."""
    shown = breakable(quoted(text, 1000))
    return f"Fix{shown[3:]}" if shown.startswith("fix ") else shown  # the command is a button here
