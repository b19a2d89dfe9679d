"""A tensor before and after a cast, by magnitude: what vanishes at the left end and overflows at the right is seen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ckpt_gui.plots.base import FLOOR
from ckpt_gui.plots.histograms import HistogramPlot, HistogramSide

if TYPE_CHECKING:
    from ckpt_gui.core.stats import CastStats


class CastPlot(HistogramPlot):
    """Magnitudes in powers of two, before and after a cast."""

    def show_cast(self, found: CastStats) -> None:
        """Show a cast."""
        edges = tuple(float(n) for n in found.exponents) if found.before else (0.0, 1.0)
        sides = [
            HistogramSide(name, edges, counts, (found.zeros[n], found.nan, found.infinite[n], 0))
            for n, (name, counts) in enumerate(((found.dtype, found.before), (found.target, found.after)))
        ]
        self.show(tuple(sides), _sentence(found))
        self.axes.set_xlabel("power of two of |x|")
        self.odd_axes.set_xticks(range(3), ("zero", "NaN", "∞"))
        self.odd_axes.set_xlim(-0.6, 2.6)
        self.axes.set_ylim(bottom=FLOOR)


def _sentence(found: CastStats) -> str:
    parts = [f"{found.changed:,} of {found.count:,} change"]
    if found.vanished:
        parts.append(f"{found.vanished:,} become zero")
    if found.overflow:
        parts.append(f"{found.overflow:,} become infinite")
    return ", ".join(parts)
