"""Two plots of a pair of tensors: both histograms over common bins, and the difference row by row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from PySide6.QtWidgets import QWidget

from ckpt_gui.core.stats import PairStats
from ckpt_gui.gui.jobs import JobManager
from ckpt_gui.gui.theme import Theme
from ckpt_gui.gui.widgets.plot_canvas import PlotCanvas

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FLOOR = 0.7  # the foot of the log axis: a bin with one element is still seen
HEADROOM = 0.24  # share of the log axis that is kept free for the legend


class PairPlot(PlotCanvas):
    """Shows a `PairStats`.

    Args:
        jobs: Runs the import of matplotlib.
        theme: Colours.
        names: What the two sides are called.
        parent: The widget around it.
    """

    def __init__(self, jobs: JobManager, theme: Theme, names: tuple[str, str], parent: QWidget | None = None) -> None:
        super().__init__(jobs, theme, parent)
        self._names = names
        self._pair: PairStats | None = None
        self.artists: dict[str, Any] = {}
        self.setAccessibleName(self.tr("Histograms of both tensors, and their difference by row"))

    def show_pair(self, pair: PairStats | None) -> None:
        """Show a pair; None empties the plots."""
        self._pair = pair
        self.redraw()

    def build(self, figure: Figure) -> None:
        """Make both axes."""
        hist, rows = figure.subplots(2, 1, height_ratios=(3, 2))
        self._hist, self._rows = hist, rows
        a, b = self._names
        self.artists = {
            "fill": hist.stairs([FLOOR], [0, 1], baseline=FLOOR, fill=True, lw=0, label=a),
            "a": hist.stairs([FLOOR], [0, 1], baseline=FLOOR, lw=1.1),
            "b": hist.stairs([FLOOR], [0, 1], baseline=FLOOR, lw=1.4, ls=(0, (4, 1.5)), label=b),
            "rows": rows.plot([], [], lw=1.0)[0],
            "none": rows.text(0.5, 0.5, "", ha="center", va="center", transform=rows.transAxes),
        }
        hist.set_yscale("log")
        hist.set_title(self.tr("Values (counts on a log scale)"), loc="left")
        rows.set_title(self.tr("Difference by row, mean |Δ|"), loc="left")
        rows.set_xlabel(self.tr("row"))
        rows.ticklabel_format(axis="y", style="sci", scilimits=(-2, 3))
        self._legend = hist.legend(
            loc="upper left", ncols=2, frameon=False, handlelength=1.5, borderaxespad=0.1, columnspacing=1.2
        )
        self._legend.set_in_layout(False)  # the axes shall not shrink for it
        for axes in (hist, rows):
            axes.spines[["top", "right"]].set_visible(False)
            axes.locator_params(axis="x", nbins=5)
        rows.locator_params(axis="y", nbins=3)

    def refresh(self) -> None:
        """Fill both plots."""
        pair = self._pair
        if pair is None or not pair.edges:
            edges: tuple[float, ...] = (0.0, 1.0)
            sides: tuple[tuple[int, ...], ...] = ((0,), (0,))
        else:
            edges, sides = pair.edges, (pair.hist_a, pair.hist_b)
        left, right = ([max(count, FLOOR) for count in side] for side in sides)
        for name, counts in (("fill", left), ("a", left), ("b", right)):
            self.artists[name].set_data(counts, edges, FLOOR)
        self._hist.set_xlim(edges[0], edges[-1])
        top = max(*left, *right, 3)
        self._hist.set_ylim(FLOOR, top * (top / FLOOR) ** HEADROOM)
        self._refresh_rows(pair)

    def _refresh_rows(self, pair: PairStats | None) -> None:
        rows, values = (pair.rows.rows, pair.rows.values) if pair else ((), ())
        top = max(values, default=0.0)
        differ = top > 0
        self.artists["rows"].set_data(rows if differ else (), values if differ else ())
        self.artists["none"].set_text("" if differ or pair is None else self.tr("No row differs."))
        self._rows.set_xlim(0, max(pair.a.shape[0] if pair and pair.a.shape else 1, 1))
        self._rows.set_ylim(0, top * 1.12 if differ else 1.0)
        self._rows.yaxis.set_visible(differ)

    def colour(self) -> None:
        """Take the theme's colours."""
        first, second = (self._theme.color(role).name() for role in ("blue", "orange"))
        self.artists["fill"].set_facecolor(self._theme.tint("blue", 0.30, self.ground).name())
        self.artists["a"].set_edgecolor(first)
        self.artists["b"].set_edgecolor(second)
        self.artists["rows"].set_color(self._theme.color("violet").name())
        self.artists["none"].set_color(self._theme.color("muted").name())
        self.artists["none"].set_fontsize(self.points(0.9))
        fill, line = self._legend.legend_handles
        fill.set_facecolor(self.artists["fill"].get_facecolor())
        fill.set_edgecolor(first)
        fill.set_linewidth(1.1)
        line.set_color(second)
        for text in self._legend.get_texts():
            text.set_color(self._theme.color("text").name())
            text.set_fontsize(self.points(0.82))
