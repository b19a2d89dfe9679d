"""One or two histograms over common bins, counts on a log axis; what no bin can show stands beside them as bars."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ckpt_gui.dataclasses import dataclass
from ckpt_gui.plots.base import FLOOR, Plot, colour_legend, headroom, lifted, open_frame, plain, titled

if TYPE_CHECKING:
    from ckpt_gui.core.stats import PairStats, TensorStats

ODD = ("zero", "NaN", "+∞", "−∞")  # in the order of the bars
_WIDTH = 0.36


@dataclass(frozen=True, slots=True)
class HistogramSide:
    """One of the tensors shown.

    Attributes:
        name: What it is called.
        edges: Borders of the bins; the same for both sides.
        counts: Elements a bin.
        odd: Zeros, NaN, +∞ and −∞.
    """

    name: str
    edges: tuple[float, ...]
    counts: tuple[int, ...]
    odd: tuple[int, int, int, int]

    @staticmethod
    def of(name: str, stats: TensorStats) -> HistogramSide:
        """Return the side of a tensor whose histogram was asked for."""
        edges, counts = (stats.histogram.edges, stats.histogram.counts) if stats.histogram else ((), ())
        return HistogramSide(name, edges, counts, odd_of(stats))

    @staticmethod
    def of_pair(pair: PairStats, names: tuple[str, str]) -> tuple[HistogramSide, HistogramSide]:
        """Return both sides of a pair."""
        return (
            HistogramSide(names[0], pair.edges, pair.hist_a, odd_of(pair.a)),
            HistogramSide(names[1], pair.edges, pair.hist_b, odd_of(pair.b)),
        )


def odd_of(stats: TensorStats) -> tuple[int, int, int, int]:
    """Return the counts that stand beside a histogram."""
    return stats.zeros, stats.nan, stats.pos_inf, stats.neg_inf


class HistogramPlot(Plot):
    """Histograms of one or two tensors."""

    def _build(self) -> None:
        self.axes, self.odd_axes = self.figure.subplots(1, 2, width_ratios=(4, 1), sharey=True)
        self._draw(self.axes, self.odd_axes)

    def _draw(self, axes: Any, odd_axes: Any) -> None:
        self.axes, self.odd_axes = axes, odd_axes
        axes.set_yscale("log")
        self.fill = axes.stairs([FLOOR], [0, 1], baseline=FLOOR, fill=True, lw=0)
        self.lines = (
            axes.stairs([FLOOR], [0, 1], baseline=FLOOR, lw=1.1),
            axes.stairs([FLOOR], [0, 1], baseline=FLOOR, lw=1.3, ls=(0, (4, 1.5))),
        )
        self.bars = tuple(odd_axes.stairs([FLOOR], [0, 1], baseline=FLOOR, fill=True, lw=1) for _ in range(2))
        axes.set_ylabel("elements")
        axes.set_xlabel("value")
        odd_axes.set_xticks(range(len(ODD)), ODD)
        odd_axes.patch.set_visible(False)  # a long legend reaches over it
        odd_axes.set_xlim(-0.6, len(ODD) - 0.4)
        odd_axes.tick_params(axis="y", which="both", left=False, labelleft=False)
        odd_axes.tick_params(axis="x", rotation=90)  # fits into a narrow panel too
        self.note = axes.text(0.5, 0.5, "", ha="center", va="center", transform=axes.transAxes)
        self.legend = axes.legend(
            self.lines, ("", ""), loc="upper left", ncols=2, frameon=False, borderaxespad=0.1, handlelength=1.4,
            columnspacing=1.2,
        )  # fmt: skip
        self.legend.set_in_layout(False)  # the axes shall not shrink for it
        for each in (axes, odd_axes):
            open_frame(each)

    def show(self, sides: tuple[HistogramSide, ...], title: str = "") -> None:
        """Show one or two tensors; none empties the plot."""
        given = sides[:2]
        edges = next((side.edges for side in given if side.edges), (0.0, 1.0))
        top = 3.0
        for number, (line, bar) in enumerate(zip(self.lines, self.bars, strict=True)):
            side = given[number] if number < len(given) else None
            counts = lifted(side.counts) if side and side.counts else [FLOOR] * (len(edges) - 1)
            line.set_data(counts, edges, FLOOR)
            line.set_visible(side is not None)
            if number == 0:
                self.fill.set_data(counts, edges, FLOOR)
            bar.set_data(*_bars(side.odd if side else (0, 0, 0, 0), number, len(given)), FLOOR)
            bar.set_visible(side is not None)
            top = max(top, *counts, *(side.odd if side else ()))
            plain(self.legend.get_texts()[number], side.name if side else "")
            self.legend.legend_handles[number].set_visible(side is not None)
        self.axes.set_xlim(edges[0], edges[-1])
        self.axes.set_ylim(FLOOR, headroom(top))
        titled(self.axes, title)
        plain(self.note, "" if any(side.counts for side in given) or not given else "There is no finite element.")

    def _colour(self) -> None:
        palette = self.palette
        for line, bar, colour in zip(self.lines, self.bars, (palette.blue, palette.orange), strict=True):
            line.set_edgecolor(colour)
            bar.set_facecolor((colour, 0.55))
            bar.set_edgecolor(colour)
        self.fill.set_facecolor((palette.blue, 0.28))
        for handle, colour in zip(self.legend.legend_handles, (palette.blue, palette.orange), strict=True):
            handle.set_color(colour)
        colour_legend(self.legend, palette, self.size)
        self.note.set_color(palette.muted)
        self.note.set_fontsize(self.size)


def _bars(odd: tuple[int, int, int, int], number: int, sides: int) -> tuple[list[float], list[float]]:
    """Return heights and borders of the bars of one side, with gaps between them."""
    width = _WIDTH if sides > 1 else 2 * _WIDTH
    heights, borders = [], []
    for at, count in enumerate(lifted(odd)):
        left = at - _WIDTH + number * width
        heights += [count, FLOOR]
        borders += [left, left + width]
    return heights[:-1], borders
