"""The values of a tensor as a table of any size: what is looked at is read in a job, tile by tile, and remembered."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QModelIndex, QObject, Qt, QTimer, Signal

from ckpt_gui.core.errors import Cancelled
from ckpt_gui.core.source import Source
from ckpt_gui.core.tokens import Vocabulary
from ckpt_gui.gui.jobs import Job, JobManager
from ckpt_gui.gui.models.cells import Index, Table
from ckpt_gui.gui.models.values_grid import TILE, Grid, value_text
from ckpt_gui.gui.theme import Theme

KEPT = 256  # tiles that are remembered
AT_ONCE = 24  # tiles that one job reads
MOST_ROWS, MOST_COLUMNS = 20_000_000, 1_000_000  # lines that Qt can place; an index leads to the others
Place = tuple[int, int]


class ValuesModel(Table):
    """A grid of values.

    Signals:
        noted(text): How the values were decoded.
        failed(error): Values could not be read.
    """

    noted = Signal(str)
    failed = Signal(object)

    def __init__(self, jobs: JobManager, theme: Theme, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._jobs, self._theme = jobs, theme
        self.grid: Grid | None = None
        self.vocabulary: Vocabulary | None = None
        self._source: Source | None = None
        self._tiles: OrderedDict[Place, NDArray[Any]] = OrderedDict()
        self._wanted: OrderedDict[Place, None] = OrderedDict()
        self._job: Job | None = None
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setInterval(10)  # Qt asks for one cell after the other
        self._timer.timeout.connect(self._read)

    def show_grid(self, source: Source | None, grid: Grid | None) -> None:
        """Show another tensor, or another part of it; None for nothing."""
        self.beginResetModel()
        self.stop()
        self._tiles.clear()
        self._source, self.grid, self.vocabulary = source, grid, None
        self.endResetModel()

    def name_rows(self, vocabulary: Vocabulary | None) -> None:
        """Name the rows by the tokens that they stand for."""
        self.vocabulary = vocabulary
        if self.rowCount():
            self.headerDataChanged.emit(Qt.Orientation.Vertical, 0, self.rowCount() - 1)

    def stop(self) -> None:
        """Stop reading."""
        self._timer.stop()
        self._wanted.clear()
        self._jobs.cancel(self._job, silently=True)
        self._job = None

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008 - Qt's signature
        """Return the number of rows."""
        return min(self.grid.rows, MOST_ROWS) if self.grid and not parent.isValid() else 0

    def columnCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008 - Qt's signature
        """Return the number of columns."""
        return min(self.grid.columns, MOST_COLUMNS) if self.grid and not parent.isValid() else 0

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """Return a value, or a mark while it is being read."""
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
        roles = (
            Qt.ItemDataRole.DisplayRole,
            Qt.ItemDataRole.ForegroundRole,
            Qt.ItemDataRole.AccessibleTextRole,
            Qt.ItemDataRole.ToolTipRole,
        )
        if role not in roles or not index.isValid():
            return None
        value = self._value(index.row(), index.column())
        if value is None:
            return "…" if role == Qt.ItemDataRole.DisplayRole else None
        if role == Qt.ItemDataRole.ForegroundRole:
            return self._colour(value)
        if role == Qt.ItemDataRole.DisplayRole:
            return value_text(value)
        return f"{self._where(index.row(), index.column())} = {value!r}"

    def headerData(self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """Return the position of a row or column, and the token of a row of the vocabulary."""
        if role != Qt.ItemDataRole.DisplayRole or self.grid is None:
            return None
        if orientation == Qt.Orientation.Horizontal:
            return self.grid.column_name(section)
        name = self.grid.row_name(section)
        position = self.grid.row_position(section)
        token = self.vocabulary.name(position) if self.vocabulary and position is not None else None
        return f"{name}  {token}" if token is not None else name

    def _where(self, row: int, column: int) -> str:
        assert self.grid is not None
        names = (self.grid.row_name(row), self.grid.column_name(column))
        return f"[{', '.join(filter(None, names))}]"

    def _colour(self, value: Any) -> Any:
        if isinstance(value, np.floating) and not np.isfinite(value):
            return self._theme.color("red")
        return self._theme.color("muted") if value == 0 else None

    # ------------------------------------------------------------------------------------------------------ reading

    def _value(self, row: int, column: int) -> Any:
        """Return a value that has been read; else None, and see to it that it is."""
        place = (row // TILE[0], column // TILE[1])
        tile = self._tiles.get(place)
        if tile is None:
            if self.grid is not None:
                self._wanted[place] = None
                self._wanted.move_to_end(place)
                if self._job is None and not self._timer.isActive():
                    self._timer.start()
            return None
        return tile[row % TILE[0], column % TILE[1]]

    def _read(self) -> None:
        """Read the tiles asked for last: those that have scrolled out of sight are asked for again if they return."""
        source, grid = self._source, self.grid
        places = list(self._wanted)[-AT_ONCE:]
        self._wanted.clear()
        if source is None or grid is None or not places:
            return

        def work(job: Job) -> tuple[dict[Place, NDArray[Any]], str]:
            found, note = {}, ""
            for place in places:
                if job.cancelled():
                    raise Cancelled
                found[place], note = grid.read(source, *_area(grid, place))
            return found, note

        self._job = self._jobs.start(self.tr("Reading values"), work, self._take, self._give_up, quiet=True)

    def _take(self, result: tuple[dict[Place, NDArray[Any]], str]) -> None:
        self._job = None
        found, note = result
        self.noted.emit(note)
        for place, tile in found.items():
            self._tiles[place] = tile
            first = self.index(place[0] * TILE[0], place[1] * TILE[1])
            last = self.index(first.row() + tile.shape[0] - 1, first.column() + tile.shape[1] - 1)
            self.dataChanged.emit(first, last)
        while len(self._tiles) > KEPT:
            self._tiles.popitem(last=False)
        if self._wanted:
            self._timer.start()

    def _give_up(self, error: BaseException) -> None:
        self._job = None
        self._wanted.clear()
        if not isinstance(error, Cancelled):
            self.failed.emit(error)


def _area(grid: Grid, place: Place) -> tuple[range, range]:
    """Return the rows and columns of a tile."""
    rows, columns = (
        range(number * step, min((number + 1) * step, size))
        for number, step, size in zip(place, TILE, (grid.rows, grid.columns), strict=True)
    )
    return rows, columns
