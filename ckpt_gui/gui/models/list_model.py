"""Keys as a flat list for Qt: every row is known at once, because a table lays out only those in sight."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Any

from PySide6.QtCore import QModelIndex, QObject, Qt

from ckpt_gui.core.diff import Row
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.rows import path_of
from ckpt_gui.core.tree import CheckpointIndex, Hits
from ckpt_gui.gui.models.cells import DISPLAY, Index, Table
from ckpt_gui.gui.models.key_looks import KeyLooks
from ckpt_gui.gui.models.lazy_rows import ROW_FLAGS
from ckpt_gui.gui.models.tree_columns import Column


class ListModel(Table):
    """Some rows of a `CheckpointIndex`, by their numbers, in their order."""

    flat = True

    def __init__(self, looks: KeyLooks, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._looks = looks
        self._index = CheckpointIndex(())
        self._listed: Sequence[int] = ()
        self.codes = b""  # of the states of the rows, in their order

    @property
    def tree(self) -> CheckpointIndex:
        """All rows, shown or not."""
        return self._index

    @property
    def listed(self) -> Sequence[int]:
        """The numbers of the rows that are shown."""
        return self._listed

    def show_rows(self, index: CheckpointIndex, hits: Hits) -> None:
        """Show the rows that a filter found."""
        self.beginResetModel()
        self._index, self._listed, self.codes = index, hits.rows, hits.codes
        self.endResetModel()

    def number(self, index: Index) -> int | None:
        """Return the number of the row of a model index."""
        return self._listed[index.row()] if index.isValid() else None

    def row(self, index: Index) -> Row | None:
        """Return the row of a model index."""
        return self._index.rows[self._listed[index.row()]] if index.isValid() else None

    def place(self, number: int) -> int | None:
        """Return where a row, by its number, stands in the list."""
        place = bisect_left(self._listed, number)
        return place if place < len(self._listed) and self._listed[place] == number else None

    def holds(self, number: int) -> bool:
        """Return True if a row, by its number, is in the list."""
        return self.place(number) is not None

    # ------------------------------------------------------------------------------------------------ Qt's interface

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008 - Qt's default
        """Return the number of rows."""
        return 0 if parent.isValid() else len(self._listed)

    def columnCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008 - Qt's default
        """Return the number of columns."""
        return 0 if parent.isValid() else len(Column)

    def flags(self, index: Index) -> Qt.ItemFlag:
        """Return that every row can be selected and dragged."""
        return ROW_FLAGS if index.isValid() else Qt.ItemFlag.NoItemFlags

    def headerData(self, section: int, orientation: Qt.Orientation, role: int = DISPLAY) -> Any:
        """Return what the head of a column says."""
        return self._looks.head(section, role) if orientation == Qt.Orientation.Horizontal else None

    def data(self, index: Index, role: int = DISPLAY) -> Any:
        """Return what a cell shows."""
        if not index.isValid():
            return None
        return self._looks.row(self._index, self._listed[index.row()], index.column(), role, None)

    def match(self, start: Index, role: int, value: Any, hits: int = 1, flags: Any = None) -> list[QModelIndex]:
        """Return the next row whose key begins with what is typed; Qt's own way asks for the text of every cell."""
        rows, typed, count = self._index.rows, str(value).lower(), len(self._listed)
        for away in range(count):
            place = (start.row() + away) % count
            if safe_text(path_of(rows, self._listed[place])[:80]).lower().startswith(typed):
                return [self.index(place, start.column())]
        return []
