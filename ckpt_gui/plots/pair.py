"""A pair of tensors: both histograms, and under them the difference row by row."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ckpt_gui.plots.base import open_frame, plain, titled
from ckpt_gui.plots.histograms import HistogramPlot, HistogramSide

if TYPE_CHECKING:
    from ckpt_gui.core.stats import PairStats


class PairPlot(HistogramPlot):
    """Both histograms of a pair, and the mean |Δ| of its rows."""

    def _build(self) -> None:
        grid = self.figure.add_gridspec(2, 2, width_ratios=(4, 1), height_ratios=(3, 2))
        axes = self.figure.add_subplot(grid[0, 0])
        self._draw(axes, self.figure.add_subplot(grid[0, 1], sharey=axes))
        self.row_axes = self.figure.add_subplot(grid[1, :])
        self.row_line = self.row_axes.plot([], [], lw=1.0)[0]
        self.row_note = self.row_axes.text(0.5, 0.5, "", ha="center", va="center", transform=self.row_axes.transAxes)
        self.row_axes.set_xlabel("row")
        self.row_axes.set_ylabel("mean |Δ|")
        self.row_axes.ticklabel_format(axis="y", style="sci", scilimits=(-2, 3))
        open_frame(self.row_axes)

    def show_pair(self, pair: PairStats, names: tuple[str, str]) -> None:
        """Show a pair under the names of its sides."""
        self.show(HistogramSide.of_pair(pair, names), "Values")
        rows, values = pair.rows.rows, pair.rows.values
        top = max(values, default=0.0)
        self.row_line.set_data(rows if top else (), values if top else ())
        plain(self.row_note, "" if top else "No row differs.")
        more = f", the largest of every {pair.rows.step}" if pair.rows.step > 1 else ""
        titled(self.row_axes, f"Difference by row{more}")
        self.row_axes.set_xlim(0, max(pair.a.shape[0] if pair.a.shape else 1, 1))
        self.row_axes.set_ylim(0, 1.12 * top if top else 1.0)
        self.row_axes.yaxis.set_visible(top > 0)

    def _colour(self) -> None:
        super()._colour()
        self.row_line.set_color(self.palette.violet)
        self.row_note.set_color(self.palette.muted)
        self.row_note.set_fontsize(self.size)
