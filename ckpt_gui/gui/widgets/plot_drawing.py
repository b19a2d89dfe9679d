"""Draws a plot into a picture on a worker's thread: matplotlib takes seconds to import, and tenths of one to draw.

A plot belongs to who draws it: the thread of the window says what it wants as a value, and gets a picture back with all
that it needs to zoom in it. matplotlib keeps caches that threads share, so one plot is drawn at a time.
"""

from __future__ import annotations

import io
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

from PySide6.QtGui import QImage

from ckpt_gui import dataclasses
from ckpt_gui.dataclasses import dataclass
from ckpt_gui.plots import Palette, Plot, save_figure
from ckpt_gui.plots.view import AxesView, Limits, views_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

P = TypeVar("P", bound=Plot)
Make = Callable[["Figure", Palette, float], P]
DPI = 100  # of a picture whose pixels are the screen's
DPI_OF_COPIES = 150
_DRAWING = threading.RLock()


@dataclass(frozen=True, slots=True)
class Data(Generic[P]):
    """What a plot shows.

    Attributes:
        number: Counts up; later data have a higher one.
        show: Gives the plot its data.
        new_view: Whether the view on them is a new one, to which Home leads back.
    """

    number: int
    show: Callable[[P], None]
    new_view: bool


@dataclass(frozen=True, slots=True)
class Wish(Generic[P]):
    """What a picture is to look like.

    Attributes:
        data: What it shows; None for a plot that is only made.
        palette: Its colours.
        points: The size of its letters.
        size: Its width and height, in pixels of the window.
        ratio: Pixels of the screen for each of them.
        limits: Which part each of the movable axes shows: from left to right, and from the bottom to the top; None for
            what the data want.
    """

    data: Data[P] | None
    palette: Palette
    points: float
    size: tuple[int, int]
    ratio: float
    limits: tuple[tuple[Limits, Limits], ...] | None = None


@dataclass(frozen=True, slots=True)
class Drawn(Generic[P]):
    """A picture that was drawn.

    Attributes:
        wish: What it is, with the limits that it has.
        image: The picture; empty without data.
        views: What its movable axes show.
        home: What they showed when the data were new.
    """

    wish: Wish[P]
    image: QImage
    views: tuple[AxesView, ...] = ()
    home: tuple[tuple[Limits, Limits], ...] = ()


class Drawer(Generic[P]):
    """Has a plot, and draws it; all methods are for a worker's thread.

    Attributes:
        plot: The plot, once it was made.
    """

    def __init__(self, make: Make[P]) -> None:
        self._make = make
        self.plot: P | None = None
        self._data: Data[P] | None = None
        self._look: object = None  # what the places of the axes were found for
        self._home: tuple[tuple[Limits, Limits], ...] = ()

    def draw(self, wish: Wish[P]) -> Drawn[P]:
        """Return a picture as it is wished for."""
        with _DRAWING:
            plot = self._made(wish)
            if wish.data is None:
                return Drawn(wish, QImage())
            self._show(plot, wish.data)
            self._arrange(plot, wish)
            for axes, (x, y) in zip(plot.movable(), wish.limits or (), strict=False):
                axes.set_xlim(x)
                axes.set_ylim(y)
            image = _image(plot)
            views = views_of(plot, wish.ratio)
            limits = tuple((view.x.limits, view.y.limits) for view in views)
            if wish.limits is None:
                self._home = limits
            return Drawn(dataclasses.replace(wish, limits=limits), image, views, self._home)

    def copy(self) -> QImage:
        """Return the picture as large as it is wanted elsewhere; there is a plot."""
        with _DRAWING:
            assert self.plot is not None
            out = io.BytesIO()
            self.plot.figure.savefig(out, format="png", dpi=DPI_OF_COPIES)
        return QImage.fromData(out.getvalue())

    def save(self, path: str) -> None:
        """Write the picture, in the format that the name asks for; there is a plot.

        Raises:
            CheckpointError: There is no such format, or it can not be written.
        """
        with _DRAWING:
            assert self.plot is not None
            save_figure(self.plot.figure, Path(path))

    def _made(self, wish: Wish[P]) -> P:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        if self.plot is None:
            figure = Figure(layout="constrained")
            FigureCanvasAgg(figure)
            self.plot = self._make(figure, wish.palette, wish.points)
        return self.plot

    def _show(self, plot: P, data: Data[P]) -> None:
        if self._data is None or data.number != self._data.number:
            if data.new_view:
                for axes in plot.movable():  # a part that was zoomed into is none of what is new
                    axes.set_autoscale_on(True)
            data.show(plot)
            self._data = data

    def _arrange(self, plot: P, wish: Wish[P]) -> None:
        """Find the room for all texts where data, colours or room are others: half of the time that drawing takes."""
        assert wish.data is not None
        if (wish.palette, wish.points) != (plot.palette, plot.size):
            plot.recolour(wish.palette, wish.points)
        figure = plot.figure
        figure.set_dpi(DPI * wish.ratio)
        figure.set_size_inches(wish.size[0] / DPI, wish.size[1] / DPI)
        number = wish.data.number if wish.limits is None else None
        look = (wish.palette, wish.points, wish.size, wish.ratio)
        if number is not None or look != self._look:
            self._look = look
            figure.set_layout_engine("constrained")


def _image(plot: Plot) -> QImage:
    """Draw a plot; the places of its axes stay until they are to be found anew."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas = plot.figure.canvas
    assert isinstance(canvas, FigureCanvasAgg)
    canvas.draw()  # type: ignore[no-untyped-call]
    plot.figure.set_layout_engine("none")
    width, height = canvas.get_width_height(physical=True)
    made = QImage(canvas.buffer_rgba(), width, height, 4 * width, QImage.Format.Format_RGBA8888)  # type: ignore[no-untyped-call]
    return made.convertToFormat(QImage.Format.Format_RGB32)  # quick to paint; and its own, not the canvas's buffer
