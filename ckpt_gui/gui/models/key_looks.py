"""What the cells of the key tree and of the list show, by role; worked out once for each row that comes into sight.

Qt asks about nine roles of every cell, again at every paint. So an answer is a look into a table, and nothing is
formatted twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtGui import QBrush, QFont, QFontMetrics

from ckpt_gui.core.diff import Row
from ckpt_gui.core.row_tree import Node, RowTree
from ckpt_gui.gui.language import said
from ckpt_gui.gui.looks import STATE_STYLES
from ckpt_gui.gui.models.cells import ALIGNMENT, DISPLAY, FONT, FOREGROUND, LEFT, RIGHT, SPOKEN, TIP
from ckpt_gui.gui.models.tree_cells import group_cells, group_tip, row_cells, row_tip, spoken_group, spoken_row
from ckpt_gui.gui.models.tree_columns import COLUMNS, Column
from ckpt_gui.gui.theme import Theme
from ckpt_gui.gui.wording import figure_text

KEY, AFTER = "Key in file", "Key as it will be written"  # titles of that column
EXPECTED, BESIDE = "Expected key", "Key in the reference"  # titles of that column
STATES_ROLE = int(Qt.ItemDataRole.UserRole) + 1  # of column STATE: ((state, count), …); count 0 for a single row
_SIDES = tuple(RIGHT if COLUMNS[column].right else LEFT for column in Column)
_OWN_COLOUR = ("missing", "error", "aside")  # states in whose colour the key is written


class KeyLooks(QObject):
    """What cells show, for the tree and the list alike.

    Signals:
        changed(): They look different now.
    """

    changed = Signal()

    def __init__(self, theme: Theme, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self.expected_title, self.key_title = EXPECTED, KEY
        self.figures: dict[int, str] = {}  # number of a row → its standard deviation, where it is known
        self._cells: dict[tuple[int, bool], tuple[str, ...]] = {}
        self._groups: dict[Node, tuple[str, ...]] = {}
        self._counts: dict[Node, tuple[tuple[str, int], ...]] = {}  # of a group's states: counted at each paint else
        self.restyle()

    def restyle(self) -> None:
        """Take colours and fonts from the theme."""
        self._key_font = self._theme.fixed_font()
        self._fonts: Mapping[str, QFont] = {name: self._theme.state_font(name) for name in STATE_STYLES}
        self._brushes = {name: QBrush(self._theme.color(f"state.{name}")) for name in _OWN_COLOUR}
        self._muted = QBrush(self._theme.color("muted"))
        self.changed.emit()

    def key_metrics(self) -> QFontMetrics:
        """Return the measures of the font in which keys are written."""
        return QFontMetrics(self._key_font)

    def forget(self, *, figures: bool = False) -> None:
        """Forget what was said of other rows."""
        self._cells.clear()
        self._groups.clear()
        self._counts.clear()
        if figures:
            self.figures.clear()

    def show_figures(self, figures: Mapping[int, float | None]) -> None:
        """Show standard deviations, by the numbers of rows."""
        self.figures.update({number: "" if std is None else figure_text(std) for number, std in figures.items()})
        self.changed.emit()

    def head(self, section: int, role: int) -> Any:
        """Return what the head of a column says."""
        if not 0 <= section < len(Column):
            return None
        if role == DISPLAY:
            own = {Column.KEY: self.key_title, Column.EXPECTED: self.expected_title}
            return said(own.get(Column(section), COLUMNS[Column(section)].title))
        if role == ALIGNMENT:
            return _SIDES[section]
        return said(COLUMNS[Column(section)].tip) if role == TIP else None

    def row(self, tree: RowTree, number: int, column: int, role: int, name: str | None) -> Any:
        """Return what a cell of a row says.

        Args:
            tree: What is shown.
            number: The number of the row.
            column: The column.
            role: What Qt asks for.
            name: What the row is called here; None in a list, which shows whole keys.
        """
        row = tree.rows[number]
        if role == DISPLAY:
            return self.figures.get(number, "") if column == Column.STD else self._row_cells(row, number, name)[column]
        if role == FOREGROUND:
            return self._row_brush(row, column, name is None)
        if role == FONT:
            return self._row_font(row, column, name is None)
        if role == ALIGNMENT:
            return _SIDES[column]
        if role == STATES_ROLE:
            return ((row.state, 0),) if column == Column.STATE else None
        if role == TIP:
            return row_tip(row, column)
        return spoken_row(row, self._row_cells(row, number, name), column) if role == SPOKEN else None

    def group(self, tree: RowTree, node: Node, column: int, role: int) -> Any:
        """Return what a cell of a group or a family says."""
        if role == DISPLAY:
            return self._group_cells(tree, node)[column]
        if role == FOREGROUND:
            return None if column in (Column.KEY, Column.EXPECTED) else self._muted
        if role == FONT:
            return self._key_font if column in (Column.KEY, Column.EXPECTED) else None
        if role == ALIGNMENT:
            return _SIDES[column]
        if role == STATES_ROLE:
            return self._group_counts(tree, node) if column == Column.STATE else None
        if role == TIP:
            return group_tip(tree, node, column)
        return spoken_group(tree, node, self._group_cells(tree, node), column) if role == SPOKEN else None

    # -------------------------------------------------------------------------------------------------------- details

    def _row_cells(self, row: Row, number: int, name: str | None) -> tuple[str, ...]:
        cells = self._cells.get((number, name is None))
        if cells is None:
            cells = self._cells[number, name is None] = row_cells(row, name)
        return cells

    def _group_cells(self, tree: RowTree, node: Node) -> tuple[str, ...]:
        cells = self._groups.get(node)
        if cells is None:
            cells = self._groups[node] = group_cells(tree, node)
        return cells

    def _group_counts(self, tree: RowTree, node: Node) -> tuple[tuple[str, int], ...]:
        counts = self._counts.get(node)
        if counts is None:
            counts = self._counts[node] = tuple(tree.counts(node).items())
        return counts

    def _row_font(self, row: Row, column: int, flat: bool) -> QFont | None:
        if column not in (Column.KEY, Column.EXPECTED):
            return None
        return self._fonts[row.state] if column == _stated(row, flat) else self._key_font

    def _row_brush(self, row: Row, column: int, flat: bool) -> QBrush | None:
        if column == _stated(row, flat):
            return self._brushes.get(row.state)
        return None if column == Column.EXPECTED else self._muted


def _stated(row: Row, flat: bool) -> Column:
    """Return the column of the name in the state's font: in a list, a missing row has only the expected one."""
    return Column.EXPECTED if flat and not row.is_stored else Column.KEY
