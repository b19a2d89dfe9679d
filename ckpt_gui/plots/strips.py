"""One role over the layers: deviation, largest magnitude and mean, so that a layer unlike the others is seen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ckpt_gui.plots.base import Plot, open_frame, titled

if TYPE_CHECKING:
    from ckpt_gui.core.scan import Strip

_ROWS = (("std", "deviation"), ("abs_max", "largest |x|"), ("mean", "mean"))


class StripPlot(Plot):
    """Three strips of a role; the layer that stands out most is marked in each."""

    def _build(self) -> None:
        self.strips = tuple(self.figure.subplots(len(_ROWS), 1, sharex=True))
        self.lines = tuple(axes.plot([], [], marker="o", ms=3, lw=1.1)[0] for axes in self.strips)
        self.marks = tuple(axes.plot([], [], marker="o", ms=8, mfc="none", mew=1.4, lw=0)[0] for axes in self.strips)
        self.zero = self.strips[-1].axhline(0.0, lw=0.8)
        for axes, (_, label) in zip(self.strips, _ROWS, strict=True):
            axes.set_ylabel(label)
            open_frame(axes)
        self.strips[-1].set_xlabel("layer")
        self.strips[-1].xaxis.get_major_locator().set_params(integer=True)

    def show(self, strip: Strip) -> None:
        """Show a role."""
        from matplotlib.ticker import NullFormatter

        titled(self.strips[0], strip.role)
        for axes, line, mark, (name, _) in zip(self.strips, self.lines, self.marks, _ROWS, strict=True):
            values = {"std": strip.std, "abs_max": strip.abs_max, "mean": strip.mean}[name]
            line.set_data(strip.layers, values)
            far = _farthest(values)
            mark.set_data(*(((), ()) if far is None else ((strip.layers[far],), (values[far],))))
            wide = _is_wide(values)
            axes.set_yscale("log" if wide else "linear")
            if wide:  # more than a decade: its own ticks are enough
                axes.yaxis.set_minor_formatter(NullFormatter())
            axes.relim()
            axes.autoscale_view()

    def _colour(self) -> None:
        for line, mark in zip(self.lines, self.marks, strict=True):
            line.set_color(self.palette.blue)
            mark.set_markeredgecolor(self.palette.orange)
        self.zero.set_color(self.palette.border)


def _is_wide(values: tuple[float, ...]) -> bool:
    """Return True if values, all above zero, differ so much that only a log axis shows them."""
    return min(values, default=0.0) > 0 and max(values) > 20 * min(values)


def _farthest(values: tuple[float, ...]) -> int | None:
    """Return which value lies farthest from the middle one; None if all are equal."""
    if not values:
        return None
    middle = sorted(values)[len(values) // 2]
    far = max(range(len(values)), key=lambda n: abs(values[n] - middle))
    return far if values[far] != middle else None
