"""What stands beside the list of the fix plan: the selected step in full, why it is there, and what it changes."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QFrame, QScrollArea, QVBoxLayout, QWidget

from ckpt_gui.core.errors import Finding
from ckpt_gui.core.export import Export
from ckpt_gui.core.plan import Step
from ckpt_gui.gui.jobs import JobManager
from ckpt_gui.gui.language import said
from ckpt_gui.gui.models.card import fix_words
from ckpt_gui.gui.models.plan_rows import PlanRow, sentence
from ckpt_gui.gui.models.resolutions import Way
from ckpt_gui.gui.models.rule_list import rule_number
from ckpt_gui.gui.panels.parts import FlowLayout, button, clear
from ckpt_gui.gui.panels.plan_changes import ChangesTree
from ckpt_gui.gui.panels.plan_wishes import words
from ckpt_gui.gui.theme import Theme
from ckpt_gui.gui.widgets.scroll_body import ScrollBody
from ckpt_gui.gui.widgets.units import GRID, breakable, em, heading, plain_label, quoted, tip_text

LONGEST = 14  # heights of the font that a button is wide at most: one that names two keys would push the rest aside


class StepDetail(QScrollArea):
    """Tells of one row.

    Signals:
        way_chosen(way): A way out of what blocks was pressed.
    """

    way_chosen = Signal(object)

    def __init__(self, jobs: JobManager, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWidgetResizable(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.title, self.evidence, self.reason = heading("", wrap=True), plain_label(), plain_label(muted=True)
        self.changes = ChangesTree(jobs, theme)
        body = ScrollBody()
        column = QVBoxLayout(body)
        column.setContentsMargins(GRID, 0, 0, 0)
        column.setSpacing(GRID // 2)
        for label in (self.title, self.evidence, self.reason):
            column.addWidget(label)
        self.ways = FlowLayout()
        column.addLayout(self.ways)
        column.addSpacing(GRID // 2)
        column.addWidget(self.changes)
        column.addStretch(1)
        self.setWidget(body)

    def show_row(self, row: PlanRow | None, export: Export | None, ways: tuple[Way, ...] = ()) -> None:
        """Tell of a row of an export; without a row, that nothing has to be changed.

        Args:
            row: The row.
            export: What it is a part of.
            ways: What can be done about it, where it blocks.
        """
        clear(self.ways)
        for way in ways:
            text = words(way)
            short = self.fontMetrics().elidedText(text, Qt.TextElideMode.ElideMiddle, em(self, LONGEST))
            tip = self.tr("A way out of what blocks the export") if short == text else tip_text(text)
            press = button(short.replace("&", "&&"), tip=tip)
            press.setAccessibleName(text)
            press.clicked.connect(lambda _=False, way=way: self.way_chosen.emit(way))
            self.ways.addWidget(press)
        if isinstance(row, Finding):
            self._tell(quoted(row.message), quoted(fix_words(row)), "")
            self.changes.show_keys(row.keys)
        elif row is not None and export is not None:
            self._tell(quoted(row.title), sentence(quoted(row.evidence)), why(row))
            self.changes.show_step(row, export)
        else:
            self._tell(self.tr("Nothing to change"), self.tr("Names, order and types stay as they are."), "")
            self.changes.show_nothing()

    def _tell(self, title: str, evidence: str, reason: str) -> None:
        for label, text in ((self.title, title), (self.evidence, evidence), (self.reason, reason)):
            label.setText(breakable(text))
            label.setVisible(bool(text))


def why(step: Step) -> str:
    """Say why a step can not be left out, or what leaving it out means."""
    known = {
        "section": said("Required: loaders look for the tensors at the top of the file."),
        "unwrap": said("Required: loaders do not know names with wrappers in them."),
        "rename": said("Required: the target's loaders know their own names only."),
        "permute": said("Required: without it the export would load without a word and produce gibberish."),
        "untie": said("Required: a loader that believes the tied flag would throw the trained head away."),
        "config": said("Required: it is what makes a folder of tensors a model."),
        "buffers": said("Optional: ticked off, they are carried along."),
        "cast": said("You asked for this; ticked off, types stay as they are."),
        "assigned": said("You asked for this; ticked off, what the index does not name is taken too."),
        "merge": said("You asked for this; ticked off, the adapter is left out."),
        "fields": said("You asked for this; ticked off, the config says what it said."),
        "metadata": said("You asked for this; ticked off, the metadata say what they said."),
        "drop": said("You asked for this; ticked off, these tensors are written."),
    }
    if rule_number(step.id) is not None:
        return said("You asked for this. Enter changes it, Delete takes it out, Ctrl+Up and Ctrl+Down move it.")
    if step.id == "tie":
        return (
            said("Optional: ticked off, the head is written too.") if step.optional else said("Required by the layout.")
        )
    return known.get(step.id, said("Optional.") if step.optional else said("Required by the target."))
