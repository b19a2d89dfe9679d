"""Says what is selected in the key tree, and finds it again when the tree is another one."""

from __future__ import annotations

from typing import cast

from PySide6.QtCore import QItemSelection, QModelIndex, QObject, Signal

from ckpt_gui.core.diff import Row
from ckpt_gui.core.filtering import Query
from ckpt_gui.core.tree import CheckpointIndex
from ckpt_gui.gui.panels.tree_view import KeyTreeView


class TreeSelection(QObject):
    """The selection of a view, kept by key over snapshots and filters.

    Signals:
        row_chosen(row): The current row, or None.
        group_chosen(node): The current group, or None if nothing is current.
        counted(count, nbytes): Tensors selected, groups counted with all that is in them.
    """

    row_chosen = Signal(object)
    group_chosen = Signal(object)
    counted = Signal(int, object)

    def __init__(self, view: KeyTreeView) -> None:
        super().__init__(view)
        self._key: str | None = None
        self._row: Row | None = None
        view.selectionModel().currentChanged.connect(self._on_current)
        view.selectionModel().selectionChanged.connect(self._on_selection)

    @property
    def _view(self) -> KeyTreeView:
        return cast(KeyTreeView, self.parent())

    def keys(self) -> frozenset[str]:
        """Return the full keys of the selected tensors, those of selected groups included."""
        keys = self._view.keys
        nodes = (keys.node(index) for index in self._view.selectionModel().selectedRows())
        rows = (row for node in nodes if node is not None for row in keys.tree.rows_of(node))
        return frozenset(row.ref.full_key for row in rows if row.ref is not None)

    def restore(self, index: CheckpointIndex) -> None:
        """Select the row that was selected before, if it is still there.

        Far down in a long list it stays chosen without being gone to: the view would lay out all rows before it.
        """
        number = index.find(self._key) if self._key is not None else None
        if number is None and self._row is not None and self._row.ref is not None:
            number = next(iter(index.select(Query(), {self._row.ref.full_key}).rows), None)
        keys, row = self._view.keys, None
        if number is not None and keys.is_shown(number):
            if keys.is_near(number):
                self._view.go_to(index.locate(number))
            row = index.rows[number]
        self._tell(row)
        self._count()  # a model that is reset says nothing of it

    def forget(self) -> None:
        """Select nothing, and look for nothing in the next tree."""
        self._key = None
        self._tell(None)

    def _tell(self, row: Row | None) -> None:
        if row is not self._row:
            self._row = row
            self.row_chosen.emit(row)

    def _on_current(self, current: QModelIndex, _previous: QModelIndex) -> None:
        keys = self._view.keys
        row, node = keys.row(current), keys.node(current)
        if row is not None and node is not None:
            self._key = keys.tree.place(keys.tree.number(node))
        self._tell(row)
        if row is None:
            selected = self._view.selectionModel().isSelected(current)  # Qt makes a row current when the focus comes
            self.group_chosen.emit(node if selected else None)

    def _on_selection(self, _on: QItemSelection, _off: QItemSelection) -> None:
        self._count()

    def _count(self) -> None:
        keys = self._view.keys
        nodes = [keys.node(index) for index in self._view.selectionModel().selectedRows()]
        found = [node for node in nodes if node is not None]
        self.counted.emit(sum(n.size for n in found), sum(keys.tree.nbytes(n) for n in found))
