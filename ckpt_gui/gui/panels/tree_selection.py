"""Says what is selected among the keys, and finds it again when other rows are shown, or the same ones otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from PySide6.QtCore import QItemSelection, QModelIndex, QObject, Signal

from ckpt_gui.core.diff import Row
from ckpt_gui.core.filtering import Query
from ckpt_gui.core.tree import CheckpointIndex
from ckpt_gui.gui.panels.tree_views import KeyViews

Place = tuple[Sequence[Row], int]  # rows, and the number of one
MOST_KEPT = 1_000  # selected rows that are found again; of more only the current one is


class TreeSelection(QObject):
    """The selection of the views, kept by key over snapshots, filters and modes.

    Attributes:
        index: All rows, shown or not.

    Signals:
        row_chosen(row): The current row, or None.
        group_chosen(node): The current group, or None if nothing is current.
        counted(count, nbytes): Tensors selected, groups counted with all that is in them.
    """

    row_chosen = Signal(object)
    group_chosen = Signal(object)
    counted = Signal(int, object)

    def __init__(self, views: KeyViews) -> None:
        super().__init__(views)
        self._key: str | None = None  # of the current row
        self._group = ""  # name of the current group
        self._others: tuple[str, ...] = ()  # keys of all rows that are selected
        self._row: Row | None = None
        self._place: Place | None = None  # of the current row
        self.index = CheckpointIndex(())
        self._restoring = False
        for view in views.both:
            view.selectionModel().currentChanged.connect(self._on_current)
            view.selectionModel().selectionChanged.connect(self._on_selection)

    @property
    def _views(self) -> KeyViews:
        return cast(KeyViews, self.parent())

    def keys(self) -> frozenset[str]:
        """Return the full keys of the selected tensors, those of selected groups included."""
        views = self._views
        tree = views.tree.keys.tree
        rows = views.selected_rows() if views.flat else (r for n in views.selected_nodes() for r in tree.rows_of(n))
        return frozenset(row.ref.full_key for row in rows if row.ref is not None)

    def hold(self) -> None:
        """Take no note of what the views say until `restore`: they make a row current when the focus comes."""
        self._restoring = True

    def restore(self, index: CheckpointIndex) -> None:
        """Select what was selected before, as far as it is shown; the rest is kept for when it is shown again."""
        self.index, views = index, self._views
        self._restoring = True
        number = index.find(self._key) if self._key is not None else None
        if number is None and self._row is not None and self._row.ref is not None:  # under another name: a preview
            number = next(iter(index.select(Query(), {self._row.ref.full_key}).rows), None)
        found = [n for n in map(index.find, self._others) if n is not None]
        if number is not None:
            views.go_to(number)
        if len(found) > 1 or found != [number]:
            views.select(found)
        if self._group and not views.flat and (node := views.tree.group_named(self._group)) is not None:
            views.tree.go_to(node)
        self._restoring = False
        self._tell(number if number is not None and views.keys.holds(number) else None)
        self._count(views.selected_numbers())  # a model that is reset says nothing of it

    def forget(self) -> None:
        """Select nothing, and look for nothing in the next tree."""
        self._key, self._group, self._others = None, "", ()
        self._tell(None)

    def _tell(self, number: int | None) -> None:
        """Tell of the current row, by its number; one of other rows is another one."""
        place = (self.index.rows, number) if number is not None else None
        if not _is_same(place, self._place):
            self._place = place
            self._row = self.index.rows[number] if number is not None else None
            self.row_chosen.emit(self._row)

    def _on_current(self, _current: QModelIndex, _previous: QModelIndex) -> None:
        if not self._restoring:
            self._note_current()

    def _note_current(self) -> None:
        """Tell of the current row or group once it is selected: keys select it before, a click after it is current."""
        views = self._views
        number, group = views.current_number(), views.current_group()
        if number is None and group is None and views.current.selectionModel().hasSelection():
            return
        if number is not None:
            self._key, self._group = self.index.place(number), ""
        elif group is not None:
            self._group = views.tree.keys.tree.prefix(group)
        self._tell(number)
        if number is None:
            self.group_chosen.emit(group)

    def _on_selection(self, _on: QItemSelection, _off: QItemSelection) -> None:
        if not self._restoring:
            numbers = self._views.selected_numbers()
            kept = numbers if len(numbers) <= MOST_KEPT else ()
            self._others = tuple(self.index.place(number) for number in kept)
            self._count(numbers)
            self._note_current()

    def _count(self, numbers: Sequence[int]) -> None:
        """Tell how much is selected: these rows, and in a tree all that is in the selected groups."""
        tree, rows = self._views.tree.keys.tree, self.index.rows
        if not self._views.flat:
            found = self._views.selected_nodes()
            self.counted.emit(sum(n.size for n in found), sum(tree.nbytes(n) for n in found))
        elif len(numbers) == len(rows):
            self.counted.emit(len(rows), self.index.nbytes(self.index.root))
        else:
            self.counted.emit(len(numbers), sum([rows[number].nbytes for number in numbers]))


def _is_same(one: Place | None, other: Place | None) -> bool:
    return one is other or (one is not None and other is not None and one[0] is other[0] and one[1] == other[1])
