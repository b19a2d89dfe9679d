"""The list of the fix plan: a row a step, with a box where it can be left out; what blocks comes first, in red."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import cast

from PySide6.QtCore import QEvent, QSignalBlocker, Qt, Signal
from PySide6.QtGui import QBrush, QKeyEvent, QResizeEvent
from PySide6.QtWidgets import QAbstractItemView, QHeaderView, QTreeWidgetItem, QWidget

from ckpt_gui.core.errors import Finding
from ckpt_gui.core.plan import Step
from ckpt_gui.gui.models.card import fix_words
from ckpt_gui.gui.models.plan_rows import PlanRow, asks_for_tick, can_be_left, row_name, sentence
from ckpt_gui.gui.panels.plan_detail import why
from ckpt_gui.gui.theme import Theme
from ckpt_gui.gui.widgets.check_tree import CheckTree, WrapDelegate
from ckpt_gui.gui.widgets.units import em, quoted, tip_text
from ckpt_gui.gui.wording import count_text

CHECK, STEP, COUNT, VALUES, SURE, EVIDENCE = range(6)
STEP_EMS = 7  # what a step's title gets at least, if need be in place of other columns
EVIDENCE_EMS = 11  # the evidence is shown where at least so much is left for it
_RIGHT = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter


class StepList(CheckTree):
    """The rows.

    Signals:
        ticked(id): The box of a step was clicked.
        chosen(): Another row is selected, or none.
        key_pressed(kind): A key asks for `edit`, `remove`, `up` or `down`.
    """

    ticked = Signal(str)
    chosen = Signal()
    key_pressed = Signal(str)

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(theme, parent)
        self._colours = theme
        self._rows: list[PlanRow] = []
        self.setAccessibleName(self.tr("Steps of the fix plan"))
        tr = self.tr
        self.setHeaderLabels(["", tr("Step"), tr("Tensors"), tr("Values"), tr("Sure"), tr("Evidence")])
        tips = (
            tr("Ticked steps are done"),
            tr("What is changed"),
            tr("How many tensors are concerned"),
            tr("Whether any value changes, or only names and places"),
            tr("Whether anything is guessed"),
            tr("Why this is right"),
        )
        for column, tip in enumerate(tips):
            self.headerItem().setToolTip(column, tip)
        self.setRootIsDecorated(False)
        self.setItemDelegateForColumn(EVIDENCE, WrapDelegate(self))
        self.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.setTextElideMode(Qt.TextElideMode.ElideRight)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        self._set_columns()
        self.itemChanged.connect(self._on_changed)
        self.itemSelectionChanged.connect(self.chosen)

    def _set_columns(self) -> None:
        header = self.header()
        header.setStretchLastSection(False)
        header.setMinimumSectionSize(em(self, 1.6))
        header.setSectionResizeMode(CHECK, QHeaderView.ResizeMode.Fixed)
        header.resizeSection(CHECK, em(self, 2))
        for column in (COUNT, VALUES, SURE):
            header.setSectionResizeMode(column, QHeaderView.ResizeMode.ResizeToContents)
        for column in (STEP, EVIDENCE):
            header.setSectionResizeMode(column, QHeaderView.ResizeMode.Fixed)
        self.headerItem().setTextAlignment(COUNT, _RIGHT)

    def event(self, event: QEvent) -> bool:
        """Keep the keys of the list from being those of the window."""
        if event.type() == QEvent.Type.ShortcutOverride and _kind(cast(QKeyEvent, event)):
            event.accept()
            return True
        return super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Edit, remove and move rules."""
        if kind := _kind(event):
            self.key_pressed.emit(kind)
        else:
            super().keyPressEvent(event)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Divide the room anew."""
        super().resizeEvent(event)
        self.share_room()

    def share_room(self) -> None:
        """Give the steps what they need, and the evidence the rest; none where little is left: it is told beside."""
        header = self.header()
        room = self.viewport().width() - header.sectionSize(CHECK) - max(header.sectionSizeHint(COUNT), em(self, 3))
        for column in (VALUES, SURE):
            need = max(header.sectionSizeHint(column), self.sizeHintForColumn(column))
            hidden = room - need < em(self, STEP_EMS)
            self.setColumnHidden(column, hidden)
            room -= 0 if hidden else need
        step = max(self.sizeHintForColumn(STEP), header.sectionSizeHint(STEP)) + em(self, 0.5)
        evidence = room - min(step, max(room * 3 // 5, em(self, 14)))
        shown = evidence >= em(self, EVIDENCE_EMS)
        self.setColumnHidden(EVIDENCE, not shown)
        header.resizeSection(STEP, max(room - evidence if shown else room, em(self, 4)))
        header.resizeSection(EVIDENCE, evidence)
        self.scheduleDelayedItemsLayout()  # rows are as high as their evidence needs at its new width

    # ------------------------------------------------------------------------------------------------------- showing

    def show_rows(self, rows: Sequence[PlanRow], skipped: Collection[str], unsure: Collection[Step] = ()) -> None:
        """Show rows; the one that was selected stays so if it is still there.

        Args:
            rows: The rows.
            skipped: Ids of steps that are ticked off.
            unsure: Steps that want a tick, as nothing proves them.
        """
        before = self.row()
        name = row_name(before) if before is not None else ""
        with QSignalBlocker(self):
            self.clear()
            self._rows = list(rows)
            for row in rows:
                made = (
                    self._finding(row)
                    if isinstance(row, Finding)
                    else self._step(row, row.id in skipped, row in unsure)
                )
                self.addTopLevelItem(made)
            again = next((n for n, row in enumerate(rows) if row_name(row) == name), None)
            item = self.topLevelItem(again) if again is not None else None
            if item is not None:
                self.setCurrentItem(item)
        self.share_room()

    def row(self) -> PlanRow | None:
        """Return the selected row."""
        items = self.selectedItems()
        index = self.indexOfTopLevelItem(items[0]) if items else -1
        return self._rows[index] if 0 <= index < len(self._rows) else None

    def select_doubt(self) -> None:
        """Select the first row that blocks the export or is not certain."""
        doubts = (n for n, row in enumerate(self._rows) if isinstance(row, Finding) or not row.certain)
        item = self.topLevelItem(next(doubts, -1))
        if item is not None:
            self.setCurrentItem(item)

    def _step(self, step: Step, skipped: bool, unsure: bool) -> QTreeWidgetItem:
        tr = self.tr
        asks = asks_for_tick(step)
        values = tr("change") if step.changes_values else tr("same")
        sure = tr("certain") if step.certain else tr("likely: tick it") if unsure and asks else tr("likely")
        evidence = sentence(quoted(step.evidence))
        item = QTreeWidgetItem(["", quoted(step.title), count_text(step.count), values, sure, evidence])
        item.setCheckState(CHECK, Qt.CheckState.Unchecked if skipped or (unsure and asks) else Qt.CheckState.Checked)
        flags = Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemIsSelectable
        item.setFlags(flags | Qt.ItemFlag.ItemIsUserCheckable if can_be_left(step) or asks else flags)
        item.setToolTip(CHECK, tr("Likely, not certain: tick it once you have looked at it") if asks else why(step))
        item.setToolTip(STEP, tip_text(quoted(step.title)))
        item.setToolTip(EVIDENCE, tip_text(evidence, 600))
        item.setTextAlignment(COUNT, _RIGHT)
        for column, told, role in ((VALUES, step.changes_values, "violet"), (SURE, not step.certain, "orange")):
            item.setForeground(column, QBrush(self._colours.color(role if told else "muted")))
        item.setForeground(EVIDENCE, QBrush(self._colours.color("muted")))
        _name_cells(item, tr("left out") if skipped else tr("wants a tick") if unsure and asks else tr("done"))
        return item

    def _finding(self, finding: Finding) -> QTreeWidgetItem:
        text, fix = quoted(finding.message), quoted(fix_words(finding))
        count = count_text(len(finding.keys)) if finding.keys else ""
        item = QTreeWidgetItem(["✗", text, count, "", self.tr("blocks"), fix])
        item.setFlags(Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemIsSelectable)
        item.setTextAlignment(COUNT, _RIGHT)
        item.setTextAlignment(CHECK, Qt.AlignmentFlag.AlignCenter)
        ground = QBrush(self._colours.tint("red", 0.10))
        for column in range(self.columnCount()):
            item.setForeground(column, QBrush(self._colours.color("red")))
            item.setBackground(column, ground)
            item.setToolTip(column, tip_text(f"{text} {fix}".strip(), 600))
        font = item.font(STEP)
        font.setBold(True)
        item.setFont(STEP, font)
        _name_cells(item, self.tr("blocks the export"))
        return item

    def _on_changed(self, item: QTreeWidgetItem, column: int) -> None:
        row = self._rows[self.indexOfTopLevelItem(item)]
        if column == CHECK and isinstance(row, Step):
            self.ticked.emit(row.id)


def _kind(event: QKeyEvent) -> str:
    """Return what a key asks for; empty for every other key."""
    if event.modifiers() & Qt.KeyboardModifier.ControlModifier:
        return {Qt.Key.Key_Up.value: "up", Qt.Key.Key_Down.value: "down"}.get(event.key(), "")
    return {Qt.Key.Key_Delete.value: "remove", Qt.Key.Key_F2.value: "edit"}.get(event.key(), "")


def _name_cells(item: QTreeWidgetItem, state: str) -> None:
    role = Qt.ItemDataRole.AccessibleTextRole
    item.setData(CHECK, role, state)
    item.setData(STEP, role, f"{item.text(STEP)}, {state}. {item.text(EVIDENCE)}")
