"""The checkpoint card and the findings: what this is, whether it is safe, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QComboBox, QFrame, QHBoxLayout, QScrollArea, QVBoxLayout, QWidget

from ckpt_gui.core.errors import Finding
from ckpt_gui.core.text import plural
from ckpt_gui.gui.language import said
from ckpt_gui.gui.looks import SEVERITY_STYLES
from ckpt_gui.gui.models.card import CheckpointCard
from ckpt_gui.gui.models.field_rows import fields_of
from ckpt_gui.gui.models.finding_actions import actions_for
from ckpt_gui.gui.panels.adapter_card import AdapterCard
from ckpt_gui.gui.panels.checks_list import ChecksList
from ckpt_gui.gui.panels.finding_card import FindingCard, coloured
from ckpt_gui.gui.panels.parts import clear, label
from ckpt_gui.gui.panels.what_card import WhatCard
from ckpt_gui.gui.session import Session
from ckpt_gui.gui.snapshot import Snapshot
from ckpt_gui.gui.theme import Theme
from ckpt_gui.gui.widgets.scroll_body import ScrollBody
from ckpt_gui.gui.widgets.units import GRID

FIELDS_OFFERED = 2  # of a finding that names more


class CheckpointPanel(QScrollArea):
    """Shows the card of the session's snapshot; made when it is seen, which is a turn after the tree.

    Signals:
        finding_chosen(finding): The user wants to see the tensors of a finding.
        action_wanted(id): A button of a finding was pressed; see `models.finding_actions`.
        field_wanted(name): The user wants to change a field of the config that a finding names.
    """

    finding_chosen = Signal(object)
    action_wanted = Signal(str)
    field_wanted = Signal(str)

    def __init__(self, session: Session, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._session, self._theme = session, theme
        self._unfolded = False
        self.card: CheckpointCard | None = None
        self.finding_cards: list[FindingCard] = []
        self.adapter_card: AdapterCard | None = None
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
        session.scanned.connect(self._restyle)
        theme.changed.connect(self._restyle)

    def show_snapshot(self, snapshot: Snapshot) -> None:
        """Show what a snapshot is about."""
        self.card = snapshot.card
        self._empty()
        if self.isVisible():
            self._fill(self.card)

    def showEvent(self, event: QShowEvent) -> None:
        """Fill it, if nobody has seen this snapshot yet."""
        super().showEvent(event)
        if self._layout.count() == 0:
            self._restyle()
            for made in self._body.findChildren(QWidget, options=Qt.FindChildOption.FindDirectChildrenOnly):
                made.show()  # at once: a layout would do it later

    def _fill(self, card: CheckpointCard) -> None:
        self._empty()
        what = WhatCard(card, self._section(), self._theme)
        what.section_chosen.connect(lambda section: self._session.change_policy(section=section))
        self._layout.addWidget(what)
        if card.adapter:
            self.adapter_card = AdapterCard(card.adapter, self._theme)
            self.adapter_card.action_wanted.connect(self.action_wanted)
            self._layout.addWidget(self.adapter_card)
        self._layout.addSpacing(GRID)
        findings = (*card.findings, *self._session.scan_findings)
        self._layout.addWidget(self._heading(findings))
        for finding in findings:
            made = FindingCard(finding, self._theme)
            made.chosen.connect(self.finding_chosen)
            self.finding_cards.append(made)
            self._layout.addWidget(made)
            for action in actions_for(finding.code):
                press = made.add_action(action.text).clicked
                press.connect(lambda _=False, name=action.id: self.action_wanted.emit(name))
            self._add_fields(made)
        if not findings:
            self._layout.addWidget(label(self.tr("Nothing to report."), muted=True))
        if card.passed:
            checks = ChecksList(card.passed, self._theme, unfolded=self._unfolded)
            checks.folded.connect(self._on_folded)
            self._layout.addWidget(checks)
        self._layout.addStretch()
        self._set_tab_order()

    def focus_first(self) -> None:
        """Go to what can be chosen here: the section where it has to be, else the first finding."""
        focusable = [it for it in self._body.findChildren(QWidget) if it.focusPolicy() & Qt.FocusPolicy.TabFocus]
        first = self.finding_cards[:1] if self.finding_cards else focusable[:1]
        chooser = [it for it in focusable if isinstance(it, QComboBox)]
        for it in (chooser or first)[:1]:
            it.setFocus(Qt.FocusReason.ShortcutFocusReason)
            self.ensureWidgetVisible(it)

    def _add_fields(self, card: FindingCard) -> None:
        """Offer the editor for the fields of the config that a finding names."""
        snapshot = self._session.snapshot
        names = fields_of(snapshot.export, card.finding.message) if snapshot is not None else ()
        for name in names[:FIELDS_OFFERED]:
            press = card.add_action(self.tr("Edit {field}…").format(field=name)).clicked
            press.connect(lambda _=False, name=name: self.field_wanted.emit(name))

    def _set_tab_order(self) -> None:
        """Put what was just made where it stands: Qt puts what is made last at the end of the window."""
        last: QWidget = self
        for each in self._body.findChildren(QWidget):
            if each.focusPolicy() & Qt.FocusPolicy.TabFocus and each.window() is self.window():
                self.setTabOrder(last, each)
                last = each

    def _empty(self) -> None:
        self.finding_cards, self.adapter_card = [], None
        clear(self._layout)

    def _restyle(self) -> None:
        if self.card is not None and self._session.snapshot is not None:
            self._fill(self.card)

    def _section(self) -> tuple[str, ...] | None:
        """Return the section that the user has chosen; None where the choice has still to be made."""
        return self._session.decisions.policy.section

    def _on_folded(self, unfolded: bool) -> None:
        self._unfolded = unfolded

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
                made = coloured(f"{glyph} {count}", severity, self._theme)
                made.setAccessibleName(said(plural(count, word.lower())))
                made.setToolTip(said(plural(count, word.lower())))
                line.addWidget(made)
        return box
