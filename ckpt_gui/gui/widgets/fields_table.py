"""A table of fields with what each was and what it shall be; changed ones are marked, by a glyph and in bold."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QSignalBlocker, Qt, Signal
from PySide6.QtGui import QBrush, QKeyEvent
from PySide6.QtWidgets import QAbstractItemView, QHeaderView, QTableWidget, QTableWidgetItem, QWidget

from ckpt_gui.core.keys import safe_text
from ckpt_gui.gui.models.field_rows import FieldRow
from ckpt_gui.gui.theme import Theme

NAME, BEFORE, AFTER = range(3)
_FIXED = Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemIsSelectable
_FREE = _FIXED | Qt.ItemFlag.ItemIsEditable


class FieldsTable(QTableWidget):
    """Edits values; names only of rows that are new.

    Signals:
        changed(): Another value is wanted.
    """

    changed = Signal()

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(0, 3, parent)
        self._colours = theme
        self._before: list[str | None] = []
        self._out: set[int] = set()  # rows of fields that shall not be written
        self.setHorizontalHeaderLabels([self.tr("Field"), self.tr("In the file"), self.tr("Shall be")])
        self.horizontalHeader().setDefaultAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)
        self.verticalHeader().hide()
        self.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        modes = QHeaderView.ResizeMode
        for column in (NAME, BEFORE, AFTER):
            self.horizontalHeader().setSectionResizeMode(column, modes.Stretch)
        self.setTabKeyNavigation(False)
        self.itemChanged.connect(self._on_changed)

    def show_rows(self, rows: Sequence[FieldRow]) -> None:
        """Show fields."""
        with QSignalBlocker(self):
            self.setRowCount(0)
            self._before, self._out = [], set()
            for row in rows:
                self._append(row.name, row.before, row.after, told=row.told)

    def edits(self) -> dict[str, str | None]:
        """Return what is changed: name → value as typed, None for what is taken out."""
        found: dict[str, str | None] = {}
        for place, before in enumerate(self._before):
            name, after = self._text(place, NAME).strip(), self._text(place, AFTER)
            if place in self._out:
                found |= {name: None} if before is not None else {}
            elif name and after != before and not (before is None and not after):
                found[name] = after
        return found

    def add_row(self) -> None:
        """Add a field, and let the user name it."""
        self._append("", None, None)
        place = self.rowCount() - 1
        self.setCurrentCell(place, NAME)
        self.editItem(self._cell(place, NAME))

    def take_out(self) -> None:
        """Write the selected field no more."""
        place = self.currentRow()
        if place >= 0:
            self._out.add(place)
            self._mark(place)
            self.changed.emit()

    def take_back(self) -> None:
        """Let the selected field be what it was."""
        place = self.currentRow()
        if place >= 0:
            self._out.discard(place)
            self._cell(place, AFTER).setText(self._before[place] or "")
            self._mark(place)
            self.changed.emit()

    def go_to(self, name: str) -> None:
        """Select a field's value, to be typed over."""
        for place in range(self.rowCount()):
            if self._text(place, NAME) == name:
                self.setCurrentCell(place, AFTER)
                self.scrollToItem(self._cell(place, AFTER))

    def show_only(self, text: str) -> None:
        """Show only fields whose names hold a text."""
        for place in range(self.rowCount()):
            self.setRowHidden(place, text.lower() not in self._text(place, NAME).lower())

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Take a field out with Delete."""
        if event.key() == Qt.Key.Key_Delete:
            self.take_out()
        else:
            super().keyPressEvent(event)

    # -------------------------------------------------------------------------------------------------------- details

    def _append(self, name: str, before: str | None, after: str | None, *, told: bool = False) -> None:
        with QSignalBlocker(self):
            place = self.rowCount()
            self.insertRow(place)
            self._before.append(before)
            if before is not None and after is None:
                self._out.add(place)
            for column, text in ((NAME, name), (BEFORE, before or ""), (AFTER, after or "")):
                item = QTableWidgetItem(text if column != BEFORE else safe_text(text, 2000))
                item.setFont(self._colours.fixed_font())
                free = column == AFTER or (column == NAME and before is None)
                item.setFlags(_FREE if free else _FIXED)
                if column == NAME and told:
                    item.setToolTip(self.tr("A finding speaks of this field"))
                self.setItem(place, column, item)
            self._mark(place)

    def _cell(self, place: int, column: int) -> QTableWidgetItem:
        item = self.item(place, column)
        assert item is not None
        return item

    def _text(self, place: int, column: int) -> str:
        item = self.item(place, column)
        return item.text() if item is not None else ""

    def _on_changed(self, item: QTableWidgetItem) -> None:
        if item.column() == AFTER and item.text():
            self._out.discard(item.row())
        self._mark(item.row())
        self.changed.emit()

    def _mark(self, place: int) -> None:
        """Show whether a field is changed or taken out."""
        out, item = place in self._out, self._cell(place, AFTER)
        changed = out or self._text(place, AFTER) != (self._before[place] or "")
        with QSignalBlocker(self):
            for column in (NAME, AFTER):
                cell = self._cell(place, column)
                font = cell.font()
                font.setBold(changed)
                font.setStrikeOut(out)
                cell.setFont(font)
                cell.setForeground(QBrush(self._colours.color("violet" if changed else "text")))
            item.setData(
                Qt.ItemDataRole.AccessibleTextRole,
                self.tr("taken out") if out else self.tr("changed: {}").format(item.text()) if changed else item.text(),
            )
