"""The key tree for Qt: a thin adapter over `CheckpointIndex` that makes nothing before it is looked at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from PySide6.QtCore import QAbstractItemModel, QModelIndex, QObject, QPersistentModelIndex, Qt
from PySide6.QtGui import QBrush, QFont

from ckpt_gui.core.diff import Row
from ckpt_gui.core.tree import CheckpointIndex, Node
from ckpt_gui.gui.looks import STATE_STYLES
from ckpt_gui.gui.models.tree_cells import group_cells, row_cells, spoken, tip
from ckpt_gui.gui.models.tree_columns import Column
from ckpt_gui.gui.theme import Theme

Index = QModelIndex | QPersistentModelIndex
STATES_ROLE = Qt.ItemDataRole.UserRole + 1  # of column STATE: ((state, count), …); count 0 for a single row
BLOCK = 2_000  # rows of the flat list that are shown at once


class TreeModel(QAbstractItemModel):
    """The rows of a diff as a tree, or some of them as a flat list."""

    def __init__(self, theme: Theme, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._index = CheckpointIndex(())
        self._flat: Sequence[int] | None = None
        self._top: list[Node] = []
        self._shown: dict[int, int] = {}  # id of a node → children that Qt knows of
        self._cells: dict[int, tuple[str, ...]] = {}
        self._fonts: dict[str, QFont] = {}
        self._brushes: dict[str, QBrush] = {}
        self._key_font = theme.fixed_font()
        self.restyle()

    @property
    def tree(self) -> CheckpointIndex:
        """What is shown."""
        return self._index

    @property
    def flat(self) -> bool:
        """Whether it is a list."""
        return self._flat is not None

    def show_rows(self, index: CheckpointIndex, rows: Sequence[int] | None = None) -> None:
        """Show a tree, or some of its rows as a list."""
        self.beginResetModel()
        self._index, self._flat = index, rows
        self._shown.clear()
        self._cells.clear()
        self._top = [] if rows is not None else list(index.children(index.root))
        if rows is not None:
            self._top = [self._row_node(number, place) for place, number in enumerate(rows[:BLOCK])]
        self.endResetModel()

    def restyle(self) -> None:
        """Take colours and fonts from the theme."""
        self._key_font = self._theme.fixed_font()
        self._fonts = {name: self._theme.state_font(name) for name in STATE_STYLES}
        self._brushes = {name: QBrush(self._theme.color(f"state.{name}")) for name in STATE_STYLES}
        self._brushes["muted"] = QBrush(self._theme.color("muted"))

    def node(self, index: Index) -> Node | None:
        """Return the node of a model index."""
        return index.internalPointer() if index.isValid() else None

    def row(self, index: Index) -> Row | None:
        """Return the row of a model index; None for a group."""
        node = self.node(index)
        return self._index.row(node) if node is not None and node.is_row else None

    def index_of(self, node: Node) -> QModelIndex:
        """Return the model index of a node, loading what is above it."""
        if self._flat is not None:
            return self._flat_index(self._index.number(node)) if node.is_row else QModelIndex()
        parent = QModelIndex()
        for ancestor in node.ancestors():
            while ancestor.place >= self.rowCount(parent) and self.canFetchMore(parent):
                self.fetchMore(parent)
            parent = self.index(ancestor.place, 0, parent)
        return parent

    # ------------------------------------------------------------------------------------------------ Qt's interface

    def columnCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008 - Qt's default
        """Return the number of columns."""
        return len(Column)

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008 - Qt's default
        """Return the children that were fetched."""
        if parent.column() > 0:
            return 0
        return self._shown.get(id(self.node(parent)), 0) if parent.isValid() else len(self._top)

    def hasChildren(self, parent: Index = QModelIndex()) -> bool:  # noqa: B008 - Qt's default
        """Return True for groups, fetched or not."""
        if not parent.isValid():
            return bool(self._top)
        node = self.node(parent)
        return parent.column() == 0 and node is not None and not node.is_row

    def canFetchMore(self, parent: Index) -> bool:
        """Return True if there is more below than Qt knows of."""
        if not parent.isValid():
            return self._flat is not None and len(self._top) < len(self._flat)
        node = self.node(parent)
        return parent.column() == 0 and node is not None and not node.is_row and id(node) not in self._shown

    def fetchMore(self, parent: Index) -> None:
        """Tell Qt of the children of a group, or of the next rows of the list."""
        if not self.canFetchMore(parent):
            return
        if not parent.isValid():
            self._fetch_rows()
            return
        node = self.node(parent)
        assert node is not None
        children = self._index.children(node)
        self.beginInsertRows(self.createIndex(parent.row(), 0, node), 0, len(children) - 1)
        self._shown[id(node)] = len(children)
        self.endInsertRows()

    def index(self, row: int, column: int, parent: Index = QModelIndex()) -> QModelIndex:  # noqa: B008 - Qt's default
        """Return the index of a child."""
        if not self.hasIndex(row, column, parent):
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
        flags = super().flags(index)
        node = self.node(index)
        return flags | Qt.ItemFlag.ItemNeverHasChildren if node is not None and node.is_row else flags

    def headerData(self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """Return the titles of the columns."""
        if orientation != Qt.Orientation.Horizontal or not 0 <= section < len(Column):
            return None
        if role == Qt.ItemDataRole.DisplayRole:
            titles = ("State", "Key in file", "Expected key", "Shape", "Type", "Size")
            return self.tr(titles[section])
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return int(Qt.AlignmentFlag.AlignVCenter | _side(section))
        return None

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """Return what a cell shows."""
        node = self.node(index)
        if node is None:
            return None
        column = index.column()
        if role == Qt.ItemDataRole.DisplayRole:
            return self._cell(node)[column]
        if role == Qt.ItemDataRole.FontRole:
            return self._font(node, column)
        if role == Qt.ItemDataRole.ForegroundRole:
            return self._brush(node, column)
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return int(Qt.AlignmentFlag.AlignVCenter | _side(column))
        if role == Qt.ItemDataRole.ToolTipRole:
            return tip(self._index, node, column)
        if role == Qt.ItemDataRole.AccessibleTextRole:
            return spoken(self._index, node, self._cell(node), column)
        if role == STATES_ROLE and column == Column.STATE:
            return self._states(node)
        return None

    # -------------------------------------------------------------------------------------------------------- details

    def _row_node(self, number: int, place: int) -> Node:
        """Return a node of the list: its key in full, without a parent."""
        row = self._index.rows[number]
        node = Node(row.path, self._index.position(number), self._index.position(number) + 1, 0, None, True)
        node.place = place
        return node

    def _fetch_rows(self) -> None:
        assert self._flat is not None
        first = len(self._top)
        more = [self._row_node(n, first + i) for i, n in enumerate(self._flat[first : first + BLOCK])]
        self.beginInsertRows(QModelIndex(), first, first + len(more) - 1)
        self._top.extend(more)
        self.endInsertRows()

    def _flat_index(self, number: int) -> QModelIndex:
        assert self._flat is not None
        if number not in self._flat:
            return QModelIndex()
        place = self._flat.index(number)
        while place >= len(self._top):
            self.fetchMore(QModelIndex())
        return self.index(place, 0)

    def _cell(self, node: Node) -> tuple[str, ...]:
        cells = self._cells.get(id(node))
        if cells is None:
            cells = (
                row_cells(self._index.row(node), node.name, flat=self.flat)
                if node.is_row
                else group_cells(self._index, node)
            )
            self._cells[id(node)] = cells
        return cells

    def _states(self, node: Node) -> tuple[tuple[str, int], ...]:
        if node.is_row:
            return ((self._index.row(node).state, 0),)
        return tuple(self._index.counts(node).items())

    def _font(self, node: Node, column: int) -> QFont | None:
        if column not in (Column.KEY, Column.EXPECTED):
            return None
        return self._fonts[self._index.row(node).state] if self._carries_state(node, column) else self._key_font

    def _brush(self, node: Node, column: int) -> QBrush | None:
        if self._carries_state(node, column):
            state = self._index.row(node).state
            return self._brushes[state] if state in ("missing", "error", "aside") else None
        is_key = column == Column.EXPECTED or (column == Column.KEY and not (node.is_row and self._flat is not None))
        return None if is_key else self._brushes["muted"]

    def _carries_state(self, node: Node, column: int) -> bool:
        """Return True for the name in the state's font: in a list, a missing row has only the expected one."""
        if not node.is_row:
            return False
        by_expected = self._flat is not None and self._index.row(node).ref is None
        return column == (Column.EXPECTED if by_expected else Column.KEY)


def _side(column: int) -> Qt.AlignmentFlag:
    return Qt.AlignmentFlag.AlignRight if column == Column.SIZE else Qt.AlignmentFlag.AlignLeft
