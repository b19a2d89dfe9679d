"""A plot in the window: a picture that jobs draw (see `plot_drawing`), and the tools below it.

matplotlib takes 1.5 to 3 s to import and 0.1 to 0.5 s to draw. The window waits for neither: while a job draws, what is
shown already stays, moved or zoomed as far as its pixels go. One job draws at a time, always what was wished for last.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic

from PySide6.QtCore import QTimer
from PySide6.QtGui import QColor, QGuiApplication, QShowEvent
from PySide6.QtWidgets import QFileDialog, QVBoxLayout, QWidget

from ckpt_gui.core.errors import Cancelled
from ckpt_gui.gui.jobs import Job, JobManager
from ckpt_gui.gui.theme import Theme
from ckpt_gui.gui.widgets.plot_drawing import Data, Drawer, Drawn, Make, P, Wish
from ckpt_gui.gui.widgets.plot_picture import PlotPicture
from ckpt_gui.gui.widgets.plot_tools import PlotTools
from ckpt_gui.gui.widgets.trouble_line import TroubleLine
from ckpt_gui.plots import Palette

PAUSE_MS = 40  # after the last change: of the room, or by the mouse
LEAST = 40  # pixels each way: there is no room for axes in less


class PlotCanvas(QWidget, Generic[P]):
    """A plot with its tools: whole view, move, zoom, save as PNG, SVG or PDF.

    Args:
        jobs: Draws.
        theme: Colours.
        make: Makes the plot in a figure; one of the classes of `ckpt_gui.plots`.
        name: What screen readers call it.
        parent: The widget around it.
        ground: Role of the colour behind it.
    """

    def __init__(
        self,
        jobs: JobManager,
        theme: Theme,
        make: Make[P],
        name: str,
        parent: QWidget | None = None,
        *,
        ground: str = "window",
    ) -> None:
        super().__init__(parent)
        self._jobs, self._theme, self._ground = jobs, theme, ground
        self._drawer: Drawer[P] = Drawer(make)
        self._data: Data[P] | None = None
        self._job: Job | None = None
        self._tint: QColor | None = None  # of the tools, which are pictures of matplotlib's
        self._refused: Wish[P] | None = None  # what could not be drawn is not tried again
        self.setAccessibleName(name)
        self.picture = PlotPicture(theme, ground)
        self.picture.setAccessibleName(name or self.tr("Plot"))
        self.picture.say(self.tr("Preparing the plots…"))
        self.tools = PlotTools(self.picture)
        self.trouble = TroubleLine(jobs)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        for widget, stretch in ((self.picture, 1), (self.tools, 0), (self.trouble, 0)):
            column.addWidget(widget, stretch)
        self._later = QTimer(self, singleShot=True, interval=PAUSE_MS)
        self._later.timeout.connect(self._draw)
        self.picture.resized.connect(self._later.start)
        self.picture.moved.connect(self._later.start)
        self.tools.save_wanted.connect(self._ask_where)
        theme.changed.connect(self._later.start)

    @property
    def plot(self) -> P | None:
        """The plot, once it was made; to be looked at while nothing is drawn."""
        return self._drawer.plot

    @property
    def ready(self) -> bool:
        """True once what is wanted is drawn."""
        drawn = self.picture.drawn
        return drawn is not None and self._job is None and drawn.wish == self._wish()

    def showEvent(self, event: QShowEvent) -> None:
        """Draw what is wanted, now that it is seen."""
        super().showEvent(event)
        self._later.start()

    def show_data(self, show: Callable[[P], None], *, new_view: bool = True) -> None:
        """Show other data, as soon as they are drawn.

        Args:
            show: Gives the plot its data, on a worker's thread.
            new_view: Whether the view on them is a new one, to which Home leads back.
        """
        is_new = new_view or self.picture.limits is None  # or follows one that is not drawn yet
        self._data = Data(self._data.number + 1 if self._data is not None else 0, show, is_new)
        if is_new:
            self.picture.limits = None
        self._later.start()

    def copy(self) -> None:
        """Put the picture on the clipboard, as soon as a job has drawn it."""
        if self.picture.drawn is not None:
            title = self.tr("Copying the picture")
            copy = QGuiApplication.clipboard().setImage
            self._jobs.start(title, lambda _: self._drawer.copy(), copy, self.trouble.say_error, quiet=True)

    def save(self, path: str) -> None:
        """Save the picture in a job, in the format that the name asks for."""
        self.trouble.say("")
        title = self.tr("Saving the picture")
        self._jobs.start(title, lambda _: self._drawer.save(path), lambda _: None, self.trouble.say_error, quiet=True)

    def palette_now(self) -> Palette:
        """Return the theme's colours for a plot."""
        roles = ("text", "muted", "border", "blue", "orange", "teal", "violet", "red")
        colours = {role: self._theme.color(role).name() for role in roles}
        return Palette(window=self._theme.color(self._ground).name(), dark=self._theme.dark, **colours)

    def _ask_where(self) -> None:
        if self.picture.drawn is not None:
            kinds = "PNG (*.png);;SVG (*.svg);;PDF (*.pdf)"
            path, _ = QFileDialog.getSaveFileName(self, self.tr("Save the picture"), "", kinds)
            if path:
                self.save(path)

    # ------------------------------------------------------------------------------------------------------- drawing

    def _wish(self) -> Wish[P]:
        """Return what is wanted: without data, that there be a plot."""
        size = self.picture.width(), self.picture.height()
        points = max(6.0, self.font().pointSizeF() * 0.86)  # a little smaller than the window's letters
        ratio = self.picture.devicePixelRatioF()
        limits = self.picture.limits if self._data is not None else None
        return Wish(self._data, self.palette_now(), points, size, ratio, limits)

    def _draw(self) -> None:
        """Draw what is wanted, unless it is there or nobody sees it; while a job draws, that waits for its end."""
        wish, drawn = self._wish(), self.picture.drawn
        if self._job is not None or not self.isVisible() or min(wish.size) < LEAST:
            return
        if wish == self._refused or (drawn is not None and drawn.wish == wish):
            return
        if wish.data is None and self._drawer.plot is not None:
            return
        title = self.tr("Preparing the plots") if self._drawer.plot is None else self.tr("Drawing the plot")
        self._job = self._jobs.start(
            title, lambda _: self._drawer.draw(wish), self._drawn, lambda error: self._failed(wish, error), quiet=True
        )

    def _drawn(self, drawn: Drawn[P]) -> None:
        self._job = None
        if self._tint != (tint := self._theme.color("text")):
            self._tint = tint
            self.tools.tint(tint)
        if drawn.wish.data is not None:
            self.trouble.say("")
            self.picture.show_drawn(drawn, is_last=drawn.wish.data == self._data)
        self._draw()

    def _failed(self, wish: Wish[P], error: BaseException) -> None:
        self._job, self._refused = None, wish
        if isinstance(error, ImportError):
            self.picture.say(self.tr("The plots are not available: {error}").format(error=error))
        elif not isinstance(error, Cancelled):
            self.trouble.say_error(error)
        self._draw()
