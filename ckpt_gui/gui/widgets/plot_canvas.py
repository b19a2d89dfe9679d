"""A plot in the window: matplotlib is imported in a job when first seen, the figure built once, and updated after.

matplotlib takes 1.5 to 3 s to import and up to 2 s to rebuild a figure of bars, but about 0.1 s to draw artists whose
data were replaced. So the plots of `ckpt_gui.plots` make their axes once, and are given new data.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QColor, QGuiApplication, QIcon, QImage, QPainter, QPixmap, QShowEvent
from PySide6.QtWidgets import QVBoxLayout, QWidget

from ckpt_gui.gui.jobs import Job, JobManager
from ckpt_gui.gui.language import said
from ckpt_gui.gui.theme import Theme
from ckpt_gui.gui.widgets.units import em, plain_label
from ckpt_gui.plots import Palette, Plot

if TYPE_CHECKING:
    from matplotlib.figure import Figure

P = TypeVar("P", bound=Plot)
Make = Callable[["Figure", Palette, float], P]


def load_matplotlib(_job: Job | None = None) -> None:
    """Import what a plot needs: on a worker thread, since it takes seconds."""
    import matplotlib.backends.backend_qtagg
    import matplotlib.figure  # noqa: F401


class PlotCanvas(QWidget, Generic[P]):
    """A plot with a compact toolbar (whole view, pan, zoom, save as PNG, SVG or PDF).

    Args:
        jobs: Runs the import of matplotlib.
        theme: Colours.
        make: Makes the plot in a figure; one of the classes of `ckpt_gui.plots`.
        name: What screen readers call it.
        parent: The widget around it.
        ground: Role of the colour behind it.

    Signals:
        built(): The plot exists now.
    """

    built = Signal()

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
        self._jobs, self._theme, self._make, self.ground = jobs, theme, make, ground
        self._asked = False
        self._show: Callable[[P], None] | None = None
        self.plot: P | None = None
        self.canvas: Any = None
        self.toolbar: Any = None
        self.setAccessibleName(name)
        self._box = QVBoxLayout(self)
        self._box.setContentsMargins(0, 0, 0, 0)
        self._box.setSpacing(0)
        self._waiting = plain_label(self.tr("Preparing the plots…"), muted=True)
        self._waiting.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._box.addWidget(self._waiting, 1)
        theme.changed.connect(self._on_theme)

    @property
    def ready(self) -> bool:
        """True once the plot exists."""
        return self.plot is not None

    def showEvent(self, event: QShowEvent) -> None:
        """Start what is wanted, now that it is seen."""
        super().showEvent(event)
        if not self._asked:
            self._asked = True
            title = self.tr("Preparing the plots")
            self._jobs.start(title, load_matplotlib, self._loaded, self._not_loaded, quiet=True)

    def show_data(self, show: Callable[[P], None], *, new_view: bool = True) -> None:
        """Show other data, at once or as soon as there is a plot.

        Args:
            show: Gives the plot its data.
            new_view: Whether the view on them is a new one, to which Home leads back.
        """
        self._show = show
        if self.plot is not None:
            show(self.plot)
            if new_view:
                self.toolbar.update()
                self._arrange()
            self.canvas.draw_idle()

    def _arrange(self) -> None:
        """Let the next drawing find the room for all texts: half of the time that it takes."""
        assert self.plot is not None
        self.plot.figure.set_layout_engine("constrained")

    def _arranged(self, _event: object) -> None:
        """Keep the places of the axes until there are other data or there is other room."""
        assert self.plot is not None
        self.plot.figure.set_layout_engine("none")

    def copy(self) -> None:
        """Put the picture on the clipboard."""
        if self.plot is not None:
            QGuiApplication.clipboard().setImage(self.grab_figure())

    def grab_figure(self) -> QImage:
        """Return the picture, without the toolbar."""
        assert self.plot is not None
        out = io.BytesIO()
        self.plot.figure.savefig(out, format="png", dpi=150)
        return QImage.fromData(out.getvalue())

    def palette_now(self) -> Palette:
        """Return the theme's colours for a plot."""
        roles = ("text", "muted", "border", "blue", "orange", "teal", "violet", "red")
        colours = {role: self._theme.color(role).name() for role in roles}
        return Palette(window=self._theme.color(self.ground).name(), dark=self._theme.dark, **colours)

    def _loaded(self, _: object) -> None:
        from matplotlib.backends.backend_qtagg import FigureCanvasQTAgg
        from matplotlib.figure import Figure

        figure = Figure(layout="constrained")
        self.canvas = FigureCanvasQTAgg(figure)  # type: ignore[no-untyped-call]
        self.canvas.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.canvas.setAccessibleName(self.accessibleName() or self.tr("Plot"))
        self.toolbar = _make_toolbar(self.canvas, self)
        self._box.removeWidget(self._waiting)
        self._waiting.hide()
        self._box.addWidget(self.canvas, 1)
        self._box.addWidget(self.toolbar)
        self.plot = self._make(figure, self.palette_now(), self._points())
        self.canvas.mpl_connect("draw_event", self._arranged)
        self.canvas.mpl_connect("resize_event", lambda _: self._arrange())
        self._on_theme()
        if self._show is not None:
            self.show_data(self._show)
        self.built.emit()

    def _not_loaded(self, error: BaseException) -> None:
        self._waiting.setText(self.tr("The plots are not available: {error}").format(error=error))

    def _on_theme(self) -> None:
        if self.plot is not None:
            self.plot.recolour(self.palette_now(), self._points())
            self._arrange()
            _tint_icons(self.toolbar, self._theme.color("text"))
            self.canvas.draw_idle()

    def _points(self) -> float:
        """Return the size of letters for matplotlib: a little smaller than the window's."""
        return max(6.0, self.font().pointSizeF() * 0.86)


def _make_toolbar(canvas: Any, parent: QWidget) -> Any:
    """Return matplotlib's own toolbar, reduced to what is used, small, and named for screen readers."""
    from matplotlib.backends.backend_qt import NavigationToolbar2QT

    class Toolbar(NavigationToolbar2QT):
        pass

    Toolbar.toolitems = [item for item in NavigationToolbar2QT.toolitems if item[0] in ("Home", "Pan", "Zoom", "Save")]
    toolbar: Any = Toolbar(canvas, parent, coordinates=False)  # type: ignore[no-untyped-call]
    size = em(parent, 1.05)
    toolbar.setIconSize(QSize(size, size))
    toolbar.setStyleSheet("QToolBar { border: none; padding: 0; spacing: 2px; background: transparent; }")
    toolbar.setAccessibleName(said("Plot tools"))
    for action in toolbar.actions():
        button = toolbar.widgetForAction(action)
        if button is not None and action.text():
            button.setProperty("kind", "quiet")
            button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
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
