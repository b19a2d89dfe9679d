"""The page of the export dialog that asks for one Enter: what a plan without guesses does, and where to."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QHBoxLayout, QVBoxLayout, QWidget

from ckpt_gui.core.after import after_summary
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.text import plural
from ckpt_gui.gui.models.plan_rows import sentence
from ckpt_gui.gui.panels.export_check import Check, summary
from ckpt_gui.gui.panels.parts import Card, button, clear
from ckpt_gui.gui.snapshot import Snapshot
from ckpt_gui.gui.theme import Theme
from ckpt_gui.gui.widgets.banner import Banner
from ckpt_gui.gui.widgets.scroll_body import ScrollBody, scroll_area
from ckpt_gui.gui.widgets.units import GRID, breakable, heading, plain_label, quoted


class ExportSummary(QWidget):
    """Every step in a line, what it comes to, and the folder.

    Signals:
        change_requested(): The user would rather choose.
    """

    change_requested = Signal()

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.banner = Banner(theme)
        self.change_button = button(self.tr("Change…"), tip=self.tr("Choose another form or another folder"))
        self.change_button.clicked.connect(self.change_requested)
        self.place, self.amount = plain_label(), plain_label(muted=True)
        self.steps = Card()
        self._lines = QVBoxLayout()
        self.steps.body.addWidget(heading(self.tr("What is done")))
        self.steps.body.addLayout(self._lines)
        target = Card()
        head = QHBoxLayout()
        head.addWidget(heading(self.tr("Where to")), 1)
        head.addWidget(self.change_button)
        target.body.addLayout(head)
        target.body.addWidget(self.place)
        target.body.addWidget(self.amount)
        body = ScrollBody()
        column = QVBoxLayout(body)
        column.setContentsMargins(2 * GRID, 2 * GRID, 2 * GRID, GRID)
        column.setSpacing(12)
        for widget in (self.banner, self.steps, target):
            column.addWidget(widget)
        column.addStretch(1)
        box = QVBoxLayout(self)
        box.setContentsMargins(0, 0, 0, 0)
        box.addWidget(scroll_area(body))

    def show_snapshot(self, snapshot: Snapshot) -> None:
        """Show what an export does."""
        export = snapshot.export
        after = self.tr("After the plan: {summary}").format(summary=after_summary(export, snapshot.diff))
        if export.certain:
            self.banner.show_text("teal", "✓", self.tr("Every step is certain."), after)
        else:
            self.banner.show_text("orange", "⚠", self.tr("Not every step is certain: see the plan."), after)
        clear(self._lines)
        for step in export.steps:
            count = f" ({plural(step.count, 'tensor')})" if step.keys else ""
            text = f"{quoted(step.title)}{count}. {sentence(quoted(step.evidence))}"
            self._lines.addWidget(plain_label(breakable(text)))
        if not export.steps:
            self._lines.addWidget(plain_label(self.tr("Nothing changes; the files are written anew.")))

    def show_place(self, snapshot: Snapshot, folder: str, check: Check | None) -> None:
        """Show where to, and how much that is."""
        self.place.setText(breakable(safe_text(folder, 400)))
        self.amount.setText(summary(snapshot, check))
