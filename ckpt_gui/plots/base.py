"""What all plots share: colours by role, axes in those colours, and texts that are shown as they are."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from ckpt_gui.core.keys import safe_text
from ckpt_gui.dataclasses import dataclass

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.text import Text

FLOOR = 0.7  # the foot of a log axis of counts: a bin with one element is still seen


@dataclass(frozen=True, slots=True)
class Palette:
    """Colours by role, as `#rrggbb`; the roles are those of the window's theme.

    Attributes:
        window: The ground.
        text: Titles.
        muted: Labels.
        border: Frames and ticks.
        blue: The first side.
        orange: The second.
        teal: A third.
        violet: Differences.
        red: What is wrong.
        dark: True if the ground is dark.
    """

    window: str
    text: str
    muted: str
    border: str
    blue: str
    orange: str
    teal: str
    violet: str
    red: str
    dark: bool = False


# The same colours as the window's own (gui/theme.py).
LIGHT = Palette("#ffffff", "#1a1f26", "#535d69", "#d8dee6", "#1458a8", "#8f4200", "#00615a", "#6434a3", "#a8071a")
DARK = Palette("#14171b", "#e7eaee", "#a5afba", "#343b44", "#8ec2ff", "#ffb877", "#6fd8c6", "#d0b3ff", "#ffa3a6", True)


class Plot(ABC):
    """A plot in a figure: built once, then shown new data and new colours.

    Args:
        figure: An empty figure.
        palette: Its colours.
        size: Points of its labels.
    """

    def __init__(self, figure: Figure, palette: Palette = LIGHT, size: float = 9.0) -> None:
        self.figure, self.palette, self.size = figure, palette, size
        self._build()
        self.recolour(palette)

    @abstractmethod
    def _build(self) -> None:
        """Make axes and artists, without data."""

    def recolour(self, palette: Palette, size: float | None = None) -> None:
        """Take other colours, and perhaps another size of letters."""
        self.palette = palette
        self.size = self.size if size is None else size
        self.figure.set_facecolor(palette.window)
        for axes in self.figure.axes:
            colour_axes(axes, palette, self.size)
        self._colour()

    def movable(self) -> tuple[Axes, ...]:
        """Return the axes of which a zoom may show a part."""
        return tuple(self.figure.axes)

    @abstractmethod
    def _colour(self) -> None:
        """Give the artists the palette's colours."""


def colour_axes(axes: Axes, palette: Palette, size: float) -> None:
    """Give axes the colours of a palette."""
    axes.set_facecolor(palette.window)
    axes.tick_params(which="both", colors=palette.border, labelcolor=palette.muted, labelsize=size)
    for spine in axes.spines.values():
        spine.set_color(palette.border)
    for label in (axes.xaxis.label, axes.yaxis.label, axes.yaxis.get_offset_text(), axes.xaxis.get_offset_text()):
        label.set_color(palette.muted)
        label.set_fontsize(size)
    for title in (axes.title, axes._left_title):  # type: ignore[attr-defined]  # has no public name
        title.set_color(palette.text)
        title.set_fontsize(1.1 * size)


def plain(text: Text, value: str) -> None:
    """Show a text as it is: dollar signs are no formulas, and control characters are escaped."""
    text.set_parse_math(False)
    text.set_text(safe_text(value, 120))


def titled(axes: Axes, value: str) -> None:
    """Show a title at the left, as it is. `set_title` would give it matplotlib's own size again."""
    plain(axes._left_title, value)  # type: ignore[attr-defined]  # has no public name


def open_frame(axes: Axes) -> None:
    """Take the frame off above and to the right."""
    axes.spines[["top", "right"]].set_visible(False)


def colour_legend(legend: Any, palette: Palette, size: float) -> None:
    """Give a legend's texts the colours of a palette."""
    for text in legend.get_texts():
        text.set_color(palette.text)
        text.set_fontsize(size)


def lifted(counts: tuple[int, ...]) -> list[float]:
    """Return counts for a log axis: none lie on its foot."""
    return [max(float(count), FLOOR) for count in counts]


def headroom(top: float, share: float = 0.2) -> float:
    """Return the upper end of a log axis that leaves a share of it free above."""
    return float(top * (top / FLOOR) ** share)
