"""Zooming in a heat map: the part in sight is read anew, finer, down to single elements; the mouse names values."""

from __future__ import annotations

import math

from PySide6.QtCore import QObject, QTimer, Signal

from ckpt_gui.core.stats import HeatMap
from ckpt_gui.core.stats.heat import matrix_shape
from ckpt_gui.core.tensors import TensorRef
from ckpt_gui.gui.widgets.plot_canvas import PlotCanvas
from ckpt_gui.plots.heat import HeatPairPlot

WAIT = 200  # milliseconds after the last movement
STEP = 1.4  # of a turn of the wheel
Part = tuple[int, int]


class HeatZoom(QObject):
    """Follows the mouse over a canvas with a heat map.

    Signals:
        wanted(rows, columns): This part is in sight now, and should be read.
        named(text): What lies under the mouse.
    """

    wanted = Signal(tuple, tuple)
    named = Signal(str)

    def __init__(self, canvas: PlotCanvas[HeatPairPlot]) -> None:
        super().__init__(canvas)
        self._canvas = canvas
        self._ref: TensorRef | None = None
        self._found: HeatMap | None = None
        self._part: tuple[Part, Part] | None = None
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setInterval(WAIT)
        self._timer.timeout.connect(self._ask)
        canvas.picture.moved.connect(self._timer.start)
        canvas.picture.pointed.connect(self._on_pointed)
        canvas.picture.wheeled.connect(self._on_wheeled)

    def begin(self, ref: TensorRef, found: HeatMap) -> None:
        """Start with the whole of a tensor."""
        self._ref, self._found, self._part = ref, found, (found.rows, found.columns)

    def show_part(self, found: HeatMap) -> None:
        """Show what was read of the part in sight, without moving."""
        self._found, self._part = found, (found.rows, found.columns)
        self._canvas.show_data(lambda shown: shown.show(found), new_view=False)

    def _ask(self) -> None:
        """Ask for the part in sight, if another is shown."""
        views, ref = self._canvas.picture.views(), self._ref
        if not views or ref is None:
            return
        sizes = matrix_shape(ref.shape)
        part = _within(views[0].y.limits, sizes[0]), _within(views[0].x.limits, sizes[1])
        if part != self._part and all(low < high for low, high in part):
            self._part = part
            self.wanted.emit(*part)

    def _on_wheeled(self, number: int, x: float, y: float, up: bool) -> None:
        """Zoom around the mouse."""
        if self._ref is None:
            return
        share = 1 / STEP if up else STEP
        rows, columns = matrix_shape(self._ref.shape)
        view = self._canvas.picture.views()[number]
        across, down = _zoomed(view.x.limits, x, share, columns), _zoomed(view.y.limits, y, share, rows)
        self._canvas.picture.show_part(number, across, down)

    def _on_pointed(self, number: int, x: float, y: float) -> None:
        if self._found is None or number < 0:
            self.named.emit("")
        else:
            self.named.emit(block_text(self._found, math.floor(y + 0.5), math.floor(x + 0.5)))


def block_text(found: HeatMap, row: int, column: int) -> str:
    """Return what lies at a row and column; an empty text outside."""
    if not (found.rows[0] <= row < found.rows[1] and found.columns[0] <= column < found.columns[1]):
        return ""
    down, across = (row - found.rows[0]) // found.row_step, (column - found.columns[0]) // found.column_step
    mean, largest, bad = found.mean[down, across], found.abs_max[down, across], int(found.bad[down, across])
    if found.true_values:
        return f"row {row:,}, column {column:,}: " + ("not finite" if bad else f"{mean:.6g}")
    rows = _span(found.rows[0] + down * found.row_step, found.row_step, found.rows[1])
    columns = _span(found.columns[0] + across * found.column_step, found.column_step, found.columns[1])
    odd = f", {bad:,} not finite" if bad else ""
    return f"rows {rows}, columns {columns}: mean {mean:.6g}, largest |x| {largest:.6g}{odd}"


def _span(first: int, step: int, end: int) -> str:
    last = min(first + step, end) - 1
    return f"{first:,}" if last == first else f"{first:,}–{last:,}"


def _within(limits: tuple[float, float], size: int) -> Part:
    """Return the rows or columns that lie between two ends of an axis, whichever way it runs."""
    low, high = sorted(limits)
    return max(0, math.floor(low + 0.5)), min(size, math.ceil(high + 0.5))


def _zoomed(limits: tuple[float, float], at: float, share: float, size: int) -> tuple[float, float]:
    """Return the ends of an axis after a turn of the wheel; never beyond the tensor, never less than an element."""
    first, last = (at + (end - at) * share for end in limits)
    if abs(last - first) < 1:
        return limits
    if first > last:  # rows count downwards
        return min(first, size - 0.5), max(last, -0.5)
    return max(first, -0.5), min(last, size - 0.5)
