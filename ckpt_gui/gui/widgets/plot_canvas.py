"""A matplotlib figure in the window: imported in a job when it is first seen, built once, its artists updated after.

matplotlib takes 1.5 to 3 s to import and up to 2 s to rebuild a figure of bars, but about 0.1 s to draw artists whose
data were replaced. So a subclass makes its axes once, in `build`, and gives them new data in `refresh`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QColor, QIcon, QPainter, QPixmap, QShowEvent
from PySide6.QtWidgets import QVBoxLayout, QWidget

from ckpt_gui.gui.jobs import Job, JobManager
from ckpt_gui.gui.theme import Theme
from ckpt_gui.gui.widgets.trouble_line import TroubleLine
from ckpt_gui.gui.widgets.units import em

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def load_matplotlib(_job: Job | None = None) -> None:
    """Import what a plot needs: on a worker thread, since it takes seconds."""
    import matplotlib.backends.backend_qtagg
    import matplotlib.figure  # noqa: F401


class PlotCanvas(QWidget):
    """A figure with a compact toolbar (whole view, pan, zoom, save as PNG, SVG or PDF)."""

    def __init__(
        self, jobs: JobManager, theme: Theme, parent: QWidget | None = None, *, ground: str = "window"
    ) -> None:
        super().__init__(parent)
        self._jobs, self._theme, self.ground = jobs, theme, ground
        self._asked = False
        self.figure: Figure | None = None
        self._canvas: Any = None
        self._toolbar: Any = None
        self._box = QVBoxLayout(self)
        self._box.setContentsMargins(0, 0, 0, 0)
        self._box.setSpacing(0)
        self._waiting = TroubleLine(jobs)
        self._waiting.say(self.tr("Preparing the plots…"))
        self._box.addWidget(self._waiting, 1)
        theme.changed.connect(self._on_theme)

    @property
    def ready(self) -> bool:
        """True once the figure exists."""
        return self.figure is not None

    def showEvent(self, event: QShowEvent) -> None:
        """Start what is wanted, now that it is seen."""
        super().showEvent(event)
        if not self._asked:
            self._asked = True
            title = self.tr("Preparing the plots")
            self._jobs.start(title, load_matplotlib, self._loaded, self._waiting.say_error, quiet=True)

    def build(self, figure: Figure) -> None:
        """Make axes and artists, without data. Called once."""
        raise NotImplementedError

    def refresh(self) -> None:
        """Give the artists the data that are to be shown. Called after `build`, and by `redraw`."""
        raise NotImplementedError

    def colour(self) -> None:
        """Give the artists the theme's colours."""
        raise NotImplementedError

    def redraw(self) -> None:
        """Show new data, once there is a figure."""
        if self.figure is not None:
            self.refresh()
            self._toolbar.update()  # so that Home is the new whole view
            self._canvas.draw_idle()

    def _loaded(self, _: object) -> None:
        from matplotlib.backends.backend_qtagg import FigureCanvasQTAgg
        from matplotlib.figure import Figure

        figure = Figure(layout="constrained")
        self._canvas = FigureCanvasQTAgg(figure)  # type: ignore[no-untyped-call]
        self._canvas.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self._canvas.setAccessibleName(self.accessibleName() or self.tr("Plot"))
        self._toolbar = _make_toolbar(self._canvas, self)
        self._box.removeWidget(self._waiting)
        self._waiting.hide()
        self._box.addWidget(self._canvas, 1)
        self._box.addWidget(self._toolbar)
        self.build(figure)
        self.figure = figure
        self._on_theme()
        self.redraw()

    def _on_theme(self) -> None:
        if self.figure is None:
            return
        self.figure.set_facecolor(self._theme.color(self.ground).name())
        for axes in self.figure.axes:
            self._colour_axes(axes)
        self.colour()
        _tint_icons(self._toolbar, self._theme.color("text"))
        self._canvas.draw_idle()

    def _colour_axes(self, axes: Axes) -> None:
        text, muted, border = (self._theme.color(role).name() for role in ("text", "muted", "border"))
        axes.set_facecolor(self._theme.color(self.ground).name())
        axes.tick_params(which="both", colors=border, labelcolor=muted, labelsize=self.points(0.86))
        for spine in axes.spines.values():
            spine.set_color(border)
        for label in (axes.xaxis.label, axes.yaxis.label, axes.yaxis.get_offset_text(), axes.xaxis.get_offset_text()):
            label.set_color(muted)
            label.set_fontsize(self.points(0.86))
        for title in (axes.title, axes._left_title):  # type: ignore[attr-defined]  # has no public name
            title.set_color(text)
            title.set_fontsize(self.points(0.95))

    def points(self, share: float) -> float:
        """Return a font size for matplotlib as a share of the window's font size."""
        return max(6.0, self.font().pointSizeF() * share)


def _make_toolbar(canvas: Any, parent: PlotCanvas) -> Any:
    """Return matplotlib's own toolbar, reduced to what is used, small, and named for screen readers."""
    from matplotlib.backends.backend_qt import NavigationToolbar2QT

    class Toolbar(NavigationToolbar2QT):
        pass

    Toolbar.toolitems = [item for item in NavigationToolbar2QT.toolitems if item[0] in ("Home", "Pan", "Zoom", "Save")]
    toolbar: Any = Toolbar(canvas, parent, coordinates=False)  # type: ignore[no-untyped-call]
    size = em(parent, 1.05)
    toolbar.setIconSize(QSize(size, size))
    toolbar.setStyleSheet("QToolBar { border: none; padding: 0; spacing: 2px; background: transparent; }")
    toolbar.setAccessibleName(parent.tr("Plot tools"))
    for action in toolbar.actions():
        button = toolbar.widgetForAction(action)
        if button is not None and action.text():
            button.setProperty("kind", "quiet")
            button.setAccessibleName(action.toolTip() or action.text())
    return toolbar


def _tint_icons(toolbar: Any, colour: QColor) -> None:
    """Draw the toolbar's icons in a colour of the theme: matplotlib tints them once only, and by a palette we style."""
    from matplotlib import get_data_path

    for text, _tip, image, name in toolbar.toolitems:
        action = toolbar._actions.get(name) if text else None
        if action is None:
            continue
        picture = QPixmap(str(Path(get_data_path(), "images", f"{image}_large.png")))
        painter = QPainter(picture)
        painter.setCompositionMode(QPainter.CompositionMode.CompositionMode_SourceIn)
        painter.fillRect(picture.rect(), colour)
        painter.end()
        action.setIcon(QIcon(picture))
