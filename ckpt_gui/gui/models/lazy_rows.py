"""The shape of the key tree for Qt: groups and rows of a `RowTree`.

Qt is told of children in blocks, when it asks for more: a view lays out every child that it knows of, on the GUI
thread, so a group of 50,000 would stop everything for seconds.
"""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QAbstractItemModel, QModelIndex, QObject, Qt

from ckpt_gui.core.diff import Row
from ckpt_gui.core.row_tree import Node, RowTree
from ckpt_gui.core.tree import CheckpointIndex
from ckpt_gui.gui.models.cells import Index
from ckpt_gui.gui.models.tree_columns import Column

BLOCK = 2_000  # children that are shown at once
_TOP = 0  # stands for no node among the ids of nodes
_GROUP = Qt.ItemFlag.ItemIsSelectable | Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemIsDragEnabled
ROW_FLAGS = _GROUP | Qt.ItemFlag.ItemNeverHasChildren


class LazyRows(QAbstractItemModel):
    """Knows what lies where, and nothing of what cells say."""

    flat = False

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._tree: RowTree = CheckpointIndex(())
        self._top: tuple[Node, ...] = ()
        self._known: dict[int, int] = {}  # id of a node → children that Qt knows of

    @property
    def tree(self) -> RowTree:
        """What is shown."""
        return self._tree

    def show_tree(self, tree: RowTree) -> None:
        """Show a tree."""
        self.beginResetModel()
        before = self._tree  # its nodes stay until Qt has forgotten them
        self._tree, self._top = tree, tree.children(tree.root)
        self._known = {_TOP: min(BLOCK, len(self._top))}
        self.endResetModel()
        del before

    def node(self, index: Index) -> Node | None:
        """Return the node of a model index."""
        return index.internalPointer() if index.isValid() else None

    def number(self, index: Index) -> int | None:
        """Return the number of the row of a model index; None for a group."""
        node = self.node(index)
        return self._tree.number(node) if node is not None and node.is_row else None

    def row(self, index: Index) -> Row | None:
        """Return the row of a model index; None for a group."""
        number = self.number(index)
        return self._tree.rows[number] if number is not None else None

    def holds(self, number: int) -> bool:
        """Return True if a row, by its number, is in the tree."""
        return self._tree.holds(number)

    def known_below(self, node: Node | None) -> Sequence[Node]:
        """Return the children of a node that Qt was told of; of everything for None."""
        children = self._top if node is None else self._tree.children(node)
        return children[: self._known.get(_name(node), 0)]

    def index_of(self, node: Node) -> QModelIndex:
        """Return the model index of a node, telling Qt of what is before and above it."""
        parent = QModelIndex()
        for ancestor in node.ancestors():
            self._grow(parent, ancestor.place + 1)
            parent = self.index(ancestor.place, 0, parent)
        return parent

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
        if not (0 <= column < len(Column) and 0 <= row < self.rowCount(parent)):
            return QModelIndex()
        node = self.node(parent)
        child = self._top[row] if node is None else self._tree.children(node)[row]
        return self.createIndex(row, column, child)

    def parent(self, index: Index) -> QModelIndex:  # type: ignore[override]
        """Return the index of the group above."""
        node = self.node(index)
        above = node.parent if node is not None else None
        if above is None or above.parent is None:
            return QModelIndex()
        return self.createIndex(above.place, 0, above)

    def flags(self, index: Index) -> Qt.ItemFlag:
        """Return that everything can be selected and dragged, and that rows have nothing below."""
        if not index.isValid():
            return Qt.ItemFlag.NoItemFlags
        return ROW_FLAGS if index.internalPointer().is_row else _GROUP

    # -------------------------------------------------------------------------------------------------------- details

    def _count(self, node: Node | None) -> int:
        """Return how many children there are in all."""
        return len(self._top if node is None else self._tree.children(node))

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
        self._known[_name(node)] = wanted
        self.endInsertRows()


def _name(node: Node | None) -> int:
    return _TOP if node is None else id(node)
