"""A matrix as a picture: means on a scale whose middle is zero, or largest magnitudes; what is not finite is marked."""

from __future__ import annotations

from typing import Literal

import numpy as np

from ckpt_gui.core.stats import HeatMap
from ckpt_gui.plots.base import Plot, titled

Layer = Literal["mean", "abs_max"]
_TITLES = {"mean": "Mean of blocks", "abs_max": "Largest |x| of blocks"}


BAD = "#ffd400"  # of what is not finite: neither scale has it


class HeatPlot(Plot):
    """One layer of a heat map. Axes count rows and columns of the tensor, so that a zoom can ask for that part."""

    def _build(self) -> None:
        self.axes = self.figure.subplots()
        self.image = self.axes.imshow(np.zeros((1, 1)), aspect="auto", interpolation="nearest")
        self.bar = self.figure.colorbar(self.image, ax=self.axes, pad=0.02)
        self.axes.set_xlabel("column")
        self.axes.set_ylabel("row")
        self.layer: Layer = "mean"

    def show(self, found: HeatMap, layer: Layer = "mean") -> None:
        """Show a heat map, or its other layer."""
        self.layer = layer
        values = found.mean if layer == "mean" else found.abs_max
        self.image.set_data(np.ma.masked_invalid(values))
        (top, bottom), (left, right) = found.rows, found.columns
        self.image.set_extent((left - 0.5, right - 0.5, bottom - 0.5, top - 0.5))
        largest = float(np.nanmax(np.abs(values), initial=0.0)) or 1.0
        self.image.set_clim(-largest if layer == "mean" else 0.0, largest)
        self._colour()
        exact = "Values" if found.true_values and layer == "mean" else _TITLES[layer]
        step = "" if found.true_values else f" of {found.row_step} × {found.column_step}"
        bad = int(found.bad.sum())
        odd = f"; {bad:,} elements are not finite" if bad else ""
        titled(self.axes, f"{exact}{step}{odd}")

    def _colour(self) -> None:
        import matplotlib

        name = "RdBu_r" if self.layer == "mean" else "magma" if self.palette.dark else "magma_r"
        self.image.set_cmap(matplotlib.colormaps[name].with_extremes(bad=BAD))
        self.bar.ax.tick_params(colors=self.palette.border, labelcolor=self.palette.muted, labelsize=self.size)
        self.bar.outline.set_edgecolor(self.palette.border)
