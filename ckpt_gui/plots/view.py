"""Where a drawn plot shows which values: all that a zoom needs to know, beside a picture that is only pixels."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ckpt_gui import dataclasses
from ckpt_gui.dataclasses import dataclass

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ckpt_gui.plots.base import Plot

Limits = tuple[float, float]  # values at the two ends of an axis, as it runs


@dataclass(frozen=True, slots=True)
class Scale:
    """One axis of a picture.

    Attributes:
        limits: The values at its ends: left and right, or bottom and top.
        ends: Where these lie in the picture, in pixels from the left or from the top.
        is_log: Whether equal ratios are equally far apart.
    """

    limits: Limits
    ends: tuple[float, float]
    is_log: bool = False

    def value(self, place: float) -> float:
        """Return the value at a place in the picture."""
        low, high = map(self._flat, self.limits)
        share = (place - self.ends[0]) / (self.ends[1] - self.ends[0] or 1.0)
        at = low + share * (high - low)
        return math.exp(min(at, 700.0)) if self.is_log else at

    def place(self, value: float) -> float:
        """Return where a value lies in the picture."""
        low, high = map(self._flat, self.limits)
        share = (self._flat(value) - low) / (high - low or 1.0)
        return self.ends[0] + share * (self.ends[1] - self.ends[0])

    def _flat(self, value: float) -> float:
        return math.log(max(value, 1e-300)) if self.is_log else value


@dataclass(frozen=True, slots=True)
class AxesView:
    """Axes of a picture, and which part of the values they show.

    Attributes:
        x: From left to right.
        y: From the bottom to the top.
        x_with: The numbers of all axes that show the same part from left to right; its own is among them.
        y_with: The same from the bottom to the top.
    """

    x: Scale
    y: Scale
    x_with: frozenset[int] = frozenset()
    y_with: frozenset[int] = frozenset()

    @property
    def box(self) -> tuple[float, float, float, float]:
        """Return the left, the top, the width and the height of the axes, in pixels."""
        (left, right), (bottom, top) = self.x.ends, self.y.ends
        return left, top, right - left, bottom - top

    def with_limits(self, x: Limits, y: Limits) -> AxesView:
        """Return the same axes as they will show another part."""
        return dataclasses.replace(
            self, x=dataclasses.replace(self.x, limits=x), y=dataclasses.replace(self.y, limits=y)
        )

    def holds(self, x: float, y: float) -> bool:
        """Return whether a place in the picture lies in these axes."""
        left, top, width, height = self.box
        return left <= x <= left + width and top <= y <= top + height


def views_of(plot: Plot, ratio: float) -> tuple[AxesView, ...]:
    """Return what the movable axes of a plot show; the plot has been drawn.

    Args:
        plot: The plot.
        ratio: Pixels of the figure for each of the picture's.
    """
    movable, height = plot.movable(), plot.figure.bbox.height

    def view(axes: Axes) -> AxesView:
        box = axes.get_window_extent()
        across, up = axes.get_shared_x_axes(), axes.get_shared_y_axes()
        (left, right), (bottom, top) = (tuple(map(float, limits)) for limits in (axes.get_xlim(), axes.get_ylim()))
        sides, levels = (box.x0 / ratio, box.x1 / ratio), ((height - box.y0) / ratio, (height - box.y1) / ratio)
        return AxesView(
            Scale((left, right), sides, axes.get_xscale() == "log"),
            Scale((bottom, top), levels, axes.get_yscale() == "log"),
            frozenset(n for n, other in enumerate(movable) if other is axes or across.joined(axes, other)),
            frozenset(n for n, other in enumerate(movable) if other is axes or up.joined(axes, other)),
        )

    return tuple(map(view, movable))
