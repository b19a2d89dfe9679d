"""A matrix as a picture: means on a scale whose middle is zero, or largest magnitudes; what is not finite is marked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from ckpt_gui.plots.base import Palette, Plot, titled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import PathCollection
    from matplotlib.text import Text

    from ckpt_gui.core.stats import HeatMap

Layer = Literal["mean", "abs_max"]
_TITLES = {"mean": "Mean of blocks", "abs_max": "Largest |x| of blocks"}


MOST_DOWN, MOST_ACROSS = 24, 8  # elements whose values have room
BAD = "#ffd400"  # of what is not finite: neither scale has it
OUTLINE = "#1a1f26"  # around it: yellow alone is hard to see on white
MOST_RINGS = 50  # blocks that are pointed at; where there are more, they are seen by themselves
SMALL = 32  # a picture of fewer blocks each way has blocks large enough to be seen


def odd_text(found: HeatMap) -> str:
    """Return how many elements are not finite, to be put behind a title; empty if there is none."""
    bad = int(found.bad.sum())
    return f"; {bad:,} not finite" if bad else ""


class HeatPlot(Plot):
    """One layer of a heat map. Axes count rows and columns of the tensor, so that a zoom can ask for that part.

    A block is yellow as soon as one of its elements is not finite; a few such among many blocks get a ring around them.
    """

    def _build(self) -> None:
        self.axes = self.figure.subplots()
        self.image = self.axes.imshow(np.zeros((1, 1)), aspect="auto", interpolation="nearest")
        self.bar = self.figure.colorbar(self.image, ax=self.axes, pad=0.02)
        self.axes.set_xlabel("column")
        self.axes.set_ylabel("row")
        self.rings: PathCollection | None = None
        self.layer: Layer = "mean"

    def show(self, found: HeatMap, layer: Layer = "mean") -> None:
        """Show a heat map, or its other layer."""
        self.draw(found, layer)
        titled(self.axes, f"{self.what(found)}{odd_text(found)}")

    def what(self, found: HeatMap) -> str:
        """Return what is shown, for a title."""
        exact = "Values" if found.true_values and self.layer == "mean" else _TITLES[self.layer]
        return exact if found.true_values else f"{exact} of {found.row_step} × {found.column_step}"

    def draw(self, found: HeatMap, layer: Layer) -> None:
        """Show a heat map without a title."""
        self.layer = layer
        values = found.mean if layer == "mean" else found.abs_max
        self.image.set_data(np.ma.masked_where((found.bad > 0) | np.isnan(values), values))
        (top, bottom), (left, right) = found.rows, found.columns
        self.image.set_extent((left - 0.5, right - 0.5, bottom - 0.5, top - 0.5))
        largest = float(np.nanmax(np.abs(values), initial=0.0)) or 1.0
        self.image.set_clim(-largest if layer == "mean" else 0.0, largest)
        self._ring(found)
        self._colour()

    def _ring(self, found: HeatMap) -> None:
        """Point at the few blocks that are not finite: one of 65,536 is no more than a dot."""
        from matplotlib import patheffects

        if self.rings is not None:
            self.rings.remove()
            self.rings = None
        down, across = np.nonzero(found.bad)
        if not 0 < down.size <= MOST_RINGS or max(found.bad.shape) <= SMALL:
            return
        rows, columns = (
            np.minimum(part[0] + (place + 0.5) * step, part[1]) - 0.5
            for part, place, step in ((found.rows, down, found.row_step), (found.columns, across, found.column_step))
        )
        self.rings = self.axes.scatter(columns, rows, s=90, facecolors="none", edgecolors=BAD, linewidths=1.6)
        self.rings.set_path_effects([patheffects.withStroke(linewidth=3.6, foreground=OUTLINE)])
        self.rings.set_in_layout(False)

    def _colour(self) -> None:
        import matplotlib

        name = "RdBu_r" if self.layer == "mean" else "magma" if self.palette.dark else "magma_r"
        self.image.set_cmap(matplotlib.colormaps[name].with_extremes(bad=BAD))
        self.bar.ax.tick_params(colors=self.palette.border, labelcolor=self.palette.muted, labelsize=self.size)
        self.bar.outline.set_edgecolor(self.palette.border)


class HeatPairPlot(Plot):
    """Both layers of a heat map side by side, over axes that move together; few enough elements show their values."""

    def _build(self) -> None:
        left, right = self.figure.subfigures(1, 2, squeeze=False)[0]
        self.mean = HeatPlot(left, self.palette, self.size)
        self.largest = HeatPlot(right, self.palette, self.size)
        self.largest.axes.sharex(self.mean.axes)
        self.largest.axes.sharey(self.mean.axes)
        self.largest.axes.set_ylabel("")
        self.values: list[Text] = []
        self.found: HeatMap | None = None

    def movable(self) -> tuple[Axes, ...]:
        """Return the axes of both layers, without their scales of colour."""
        return self.mean.axes, self.largest.axes

    def show(self, found: HeatMap) -> None:
        """Show a heat map, or a part of one."""
        self.found = found
        self.mean.draw(found, "mean")
        self.largest.draw(found, "abs_max")
        titled(self.mean.axes, self.mean.what(found))
        titled(self.largest.axes, f"Largest |x|{odd_text(found)}")  # short: each has half of the width
        self._write_values(found)

    def recolour(self, palette: Palette, size: float | None = None) -> None:
        """Take other colours."""
        for plot in (self.mean, self.largest):
            plot.recolour(palette, size)
        super().recolour(palette, size)

    def _colour(self) -> None:
        for text in self.values:
            text.set_fontsize(0.82 * self.size)

    def _write_values(self, found: HeatMap) -> None:
        """Write the values into the elements where they have room."""
        for text in self.values:
            text.remove()
        self.values = []
        if not found.true_values or found.mean.shape[0] > MOST_DOWN or found.mean.shape[1] > MOST_ACROSS:
            return
        largest = float(np.nanmax(np.abs(found.mean), initial=0.0)) or 1.0
        for (row, column), value in np.ndenumerate(found.mean):
            strong = abs(value) > 0.55 * largest
            made = self.mean.axes.text(
                found.columns[0] + column, found.rows[0] + row, "" if np.isnan(value) else f"{value:.2g}",
                ha="center", va="center", clip_on=True, color="#ffffff" if strong else "#1a1f26",
            )  # fmt: skip
            made.set_in_layout(False)
            self.values.append(made)
        self._colour()
