"""The key tree for Qt: a thin adapter over `CheckpointIndex` that makes nothing before it is looked at."""

from __future__ import annotations

from typing import Any

from PySide6.QtCore import QObject, Qt
from PySide6.QtGui import QBrush, QFont

from ckpt_gui.core.row_tree import Node
from ckpt_gui.gui.language import said
from ckpt_gui.gui.looks import STATE_STYLES
from ckpt_gui.gui.models.lazy_rows import Index, LazyRows
from ckpt_gui.gui.models.tree_cells import group_cells, row_cells, spoken, tip
from ckpt_gui.gui.models.tree_columns import Column
from ckpt_gui.gui.theme import Theme

KEY, AFTER = "Key in file", "Key as it will be written"  # titles of that column
EXPECTED = "Expected key"  # title of that column; another one beside a reference
STATES_ROLE = Qt.ItemDataRole.UserRole + 1  # of column STATE: ((state, count), …); count 0 for a single row


class TreeModel(LazyRows):
    """The rows of a diff as a tree, or some of them as a flat list, with what their cells say."""

    def __init__(self, theme: Theme, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self.expected_title, self.key_title = EXPECTED, KEY
        self._cells: dict[int, tuple[str, ...]] = {}
        self._fonts: dict[str, QFont] = {}
        self._brushes: dict[str, QBrush] = {}
        self._key_font = theme.fixed_font()
        self.modelAboutToBeReset.connect(self._cells.clear)
        self.restyle()

    def restyle(self) -> None:
        """Take colours and fonts from the theme."""
        self._key_font = self._theme.fixed_font()
        self._fonts = {name: self._theme.state_font(name) for name in STATE_STYLES}
        self._brushes = {name: QBrush(self._theme.color(f"state.{name}")) for name in STATE_STYLES}
        self._brushes["muted"] = QBrush(self._theme.color("muted"))

    def headerData(self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """Return the titles of the columns."""
        if orientation != Qt.Orientation.Horizontal or not 0 <= section < len(Column):
            return None
        if role == Qt.ItemDataRole.DisplayRole:
            titles = ("State", self.key_title, self.expected_title, "Shape", "Type", "Size")
            return said(titles[section])
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
