"""The shape of the key tree for Qt: groups and rows of a `CheckpointIndex`, or some of its rows as a flat list.

Qt is told of children in blocks, when it asks for more: a view lays out every child that it knows of, on the GUI
thread, so a group of 50,000 would stop everything for seconds.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from PySide6.QtCore import QAbstractItemModel, QModelIndex, QObject, QPersistentModelIndex, Qt

from ckpt_gui.core.diff import Row
from ckpt_gui.core.row_tree import Node
from ckpt_gui.core.tree import CheckpointIndex
from ckpt_gui.gui.models.tree_columns import Column

Index = QModelIndex | QPersistentModelIndex
BLOCK = 2_000  # children that are shown at once
NEAR = 10_000  # rows of a list that a view lays out in 50 ms
_TOP = 0  # stands for no node among the ids of nodes
_GROUP = Qt.ItemFlag.ItemIsSelectable | Qt.ItemFlag.ItemIsEnabled
_ROW = _GROUP | Qt.ItemFlag.ItemNeverHasChildren


class LazyRows(QAbstractItemModel):
    """Knows what lies where, and nothing of what cells say."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._index = CheckpointIndex(())
        self._flat: Sequence[int] | None = None
        self._top: list[Node] = []
        self._known: dict[int, int] = {}  # id of a node → children that Qt knows of

    @property
    def tree(self) -> CheckpointIndex:
        """What is shown."""
        return self._index

    @property
    def flat(self) -> bool:
        """Whether it is a list."""
        return self._flat is not None

    @property
    def listed(self) -> Sequence[int]:
        """The numbers of the rows of the list, shown yet or not; empty for a tree."""
        return self._flat if self._flat is not None else ()

    def show_rows(self, index: CheckpointIndex, rows: Sequence[int] | None = None) -> None:
        """Show a tree, or some of its rows as a list."""
        self.beginResetModel()
        self._index, self._flat = index, rows
        self._top = list(index.children(index.root)) if rows is None else []
        self._known = {_TOP: min(BLOCK, self._count(None))}
        self._list_rows(self._known[_TOP])
        self.endResetModel()

    def node(self, index: Index) -> Node | None:
        """Return the node of a model index."""
        return index.internalPointer() if index.isValid() else None

    def row(self, index: Index) -> Row | None:
        """Return the row of a model index; None for a group."""
        node = self.node(index)
        return self._index.row(node) if node is not None and node.is_row else None

    def index_of(self, node: Node) -> QModelIndex:
        """Return the model index of a node, telling Qt of what is before and above it."""
        if self._flat is not None:
            return self._listed_index(self._index.number(node)) if node.is_row else QModelIndex()
        parent = QModelIndex()
        for ancestor in node.ancestors():
            self._grow(parent, ancestor.place + 1)
            parent = self.index(ancestor.place, 0, parent)
        return parent

    def is_shown(self, number: int) -> bool:
        """Return True if a row, by its number, is in the tree or in the list."""
        return self._flat is None or self._place(number) is not None

    def is_near(self, number: int) -> bool:
        """Return True if a row can be gone to without a wait: in a list all before it have to be known."""
        return self._flat is None or (self._place(number) or 0) < max(NEAR, self._known[_TOP])

    # ------------------------------------------------------------------------------------------------ Qt's interface

    def columnCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008 - Qt's default
        """Return the number of columns."""
        return len(Column)

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008 - Qt's default
        """Return the children that Qt was told of."""
        return 0 if parent.column() > 0 else self._known.get(_name(self.node(parent)), 0)

    def hasChildren(self, parent: Index = QModelIndex()) -> bool:  # noqa: B008 - Qt's default
        """Return True for groups, told of or not."""
        node = self.node(parent)
        if node is None:
            return bool(self._top)
        return parent.column() == 0 and not node.is_row

    def canFetchMore(self, parent: Index) -> bool:
        """Return True if there is more below than Qt knows of."""
        node = self.node(parent)
        if parent.column() > 0 or (node is not None and node.is_row):
            return False
        known = self._known.get(_name(node))
        return known is None or known < self._count(node)

    def fetchMore(self, parent: Index) -> None:
        """Tell Qt of the next block of children."""
        self._grow(parent, self.rowCount(parent) + BLOCK)

    def index(self, row: int, column: int, parent: Index = QModelIndex()) -> QModelIndex:  # noqa: B008 - Qt's default
        """Return the index of a child."""
        if self._flat is not None and not parent.isValid():  # Qt asks for each row of a list again and again
            known = 0 <= column < len(Column) and 0 <= row < self._known[_TOP]
            return self.createIndex(row, column, self._top[row]) if known else QModelIndex()
        if not (0 <= column < len(Column) and 0 <= row < self.rowCount(parent)):
            return QModelIndex()
        node = self.node(parent)
        child = self._top[row] if node is None else self._index.children(node)[row]
        return self.createIndex(row, column, child)

    def parent(self, index: Index) -> QModelIndex:  # type: ignore[override]
        """Return the index of the group above."""
        node = self.node(index)
        above = node.parent if node is not None and self._flat is None else None
        if above is None or above.parent is None:
            return QModelIndex()
        return self.createIndex(above.place, 0, above)

    def flags(self, index: Index) -> Qt.ItemFlag:
        """Return that everything can be selected, and that rows have nothing below."""
        if not index.isValid():
            return Qt.ItemFlag.NoItemFlags
        return _ROW if self._flat is not None or index.internalPointer().is_row else _GROUP

    # -------------------------------------------------------------------------------------------------------- details

    def _count(self, node: Node | None) -> int:
        """Return how many children there are in all."""
        if node is not None:
            return len(self._index.children(node))
        return len(self._top) if self._flat is None else len(self._flat)

    def _grow(self, parent: Index, wanted: int) -> None:
        """Tell Qt of children up to a number, in one go."""
        node = self.node(parent)
        if node is not None and node.is_row:
            return
        known, wanted = self.rowCount(parent), min(wanted, self._count(node))
        if wanted <= known:
            return
        self.beginInsertRows(
            QModelIndex() if node is None else self.createIndex(node.place, 0, node), known, wanted - 1
        )
        if node is None:
            self._list_rows(wanted)
        self._known[_name(node)] = wanted
        self.endInsertRows()

    def _list_rows(self, wanted: int) -> None:
        """Make the nodes of the list up to a number: each with its key in full, and without a parent."""
        if self._flat is None:
            return
        for place in range(len(self._top), wanted):
            number = self._flat[place]
            at = self._index.position(number)
            node = Node(self._index.rows[number].path, at, at + 1, 0, None, True)
            node.place = place
            self._top.append(node)

    def _place(self, number: int) -> int | None:
        """Return the place of a row in the list, which is in the order of the rows."""
        place = bisect_left(self.listed, number)
        return place if place < len(self.listed) and self.listed[place] == number else None

    def _listed_index(self, number: int) -> QModelIndex:
        place = self._place(number)
        if place is None:
            return QModelIndex()
        self._grow(QModelIndex(), place + 1)
        return self.index(place, 0)


def _name(node: Node | None) -> int:
    return _TOP if node is None else id(node)
