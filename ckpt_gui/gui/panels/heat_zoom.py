"""Zooming in a heat map: the part in sight is read anew, finer, down to single elements; the mouse names values."""

from __future__ import annotations

import math
from typing import Any

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
        self._part: tuple[Part, Part] | None = None
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setInterval(WAIT)
        self._timer.timeout.connect(self._ask)
        canvas.built.connect(self._listen)

    def begin(self, ref: TensorRef, found: HeatMap) -> None:
        """Start with the whole of a tensor."""
        self._ref, self._part = ref, (found.rows, found.columns)

    def show_part(self, found: HeatMap) -> None:
        """Show what was read of the part in sight, without moving."""
        plot = self._canvas.plot
        if plot is None:
            return
        axes = plot.mean.axes
        limits = axes.get_xlim(), axes.get_ylim()
        self._part = (found.rows, found.columns)
        self._canvas.show_data(lambda shown: shown.show(found), new_view=False)
        axes.set_xlim(limits[0])
        axes.set_ylim(limits[1])

    def _listen(self) -> None:
        plot, canvas = self._canvas.plot, self._canvas.canvas
        assert plot is not None
        plot.mean.axes.callbacks.connect("xlim_changed", lambda _: self._timer.start())
        plot.mean.axes.callbacks.connect("ylim_changed", lambda _: self._timer.start())
        canvas.mpl_connect("motion_notify_event", self._on_move)
        canvas.mpl_connect("scroll_event", self._on_wheel)

    def _ask(self) -> None:
        """Ask for the part in sight, if another is shown."""
        plot, ref = self._canvas.plot, self._ref
        if plot is None or ref is None or plot.found is None:
            return
        sizes = matrix_shape(ref.shape)
        axes = plot.mean.axes
        part = _within(axes.get_ylim(), sizes[0]), _within(axes.get_xlim(), sizes[1])
        if part != self._part and all(low < high for low, high in part):
            self._part = part
            self.wanted.emit(*part)

    def _on_wheel(self, event: Any) -> None:
        """Zoom around the mouse."""
        if event.inaxes is None or self._ref is None:
            return
        share = 1 / STEP if event.button == "up" else STEP
        plot = self._canvas.plot
        assert plot is not None
        if event.inaxes not in (plot.mean.axes, plot.largest.axes):
            return
        rows, columns = matrix_shape(self._ref.shape)
        event.inaxes.set_xlim(_zoomed(event.inaxes.get_xlim(), event.xdata, share, columns))
        event.inaxes.set_ylim(_zoomed(event.inaxes.get_ylim(), event.ydata, share, rows))
        self._canvas.canvas.draw_idle()

    def _on_move(self, event: Any) -> None:
        plot = self._canvas.plot
        found = plot.found if plot is not None else None
        if found is None or event.inaxes is None or event.xdata is None:
            self.named.emit("")
            return
        self.named.emit(block_text(found, math.floor(event.ydata + 0.5), math.floor(event.xdata + 0.5)))


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
