"""The buttons below a plot: the whole again, what a pressed mouse does, and the picture as a file."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QColor, QIcon, QPainter, QPixmap
from PySide6.QtWidgets import QHBoxLayout, QToolButton, QWidget

from ckpt_gui.gui.widgets.painting import painting
from ckpt_gui.gui.widgets.plot_picture import Hand, PlotPicture
from ckpt_gui.gui.widgets.units import GRID, em


class PlotTools(QWidget):
    """Small, and named for screen readers.

    Signals:
        save_wanted(): The picture is wanted as a file.
    """

    save_wanted = Signal()

    def __init__(self, picture: PlotPicture, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._picture = picture
        self.setAccessibleName(self.tr("Plot tools"))
        self.home = _tool(self.tr("Show the whole again"))
        self.move_hand = _tool(self.tr("Move what is shown with the mouse"))
        self.zoom_hand = _tool(self.tr("Show what lies in a rectangle that the mouse draws"))
        self.save = _tool(self.tr("Save the picture as PNG, SVG or PDF"))
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(GRID // 2)
        for each in (self.home, self.move_hand, self.zoom_hand, self.save):
            row.addWidget(each)
        row.addStretch()
        self.home.clicked.connect(picture.show_home)
        self.save.clicked.connect(self.save_wanted)
        for name, each in self._hands():
            each.setCheckable(True)
            each.toggled.connect(lambda on, name=name: self._use(name, on))

    def tint(self, colour: QColor) -> None:
        """Show what the buttons stand for, in a colour; matplotlib has been imported."""
        names = "home", "move", "zoom_to_rect", "filesave"
        for each, name in zip((self.home, self.move_hand, self.zoom_hand, self.save), names, strict=True):
            each.setIcon(_tinted(name, colour))

    def _hands(self) -> tuple[tuple[Hand, QToolButton], ...]:
        return ("move", self.move_hand), ("zoom", self.zoom_hand)

    def _use(self, hand: Hand, on: bool) -> None:
        """Let one of them be checked, or none."""
        if on:
            for name, each in self._hands():
                each.setChecked(name == hand)
            self._picture.use(hand)
        elif self._picture.hand == hand:
            self._picture.use("")


def _tool(tip: str) -> QToolButton:
    made = QToolButton()
    made.setToolTip(tip)
    made.setAccessibleName(tip)
    made.setProperty("kind", "quiet")
    made.setFocusPolicy(Qt.FocusPolicy.TabFocus)
    size = em(made, 1.05)
    made.setIconSize(QSize(size, size))
    return made


def _tinted(name: str, colour: QColor) -> QIcon:
    """Return one of matplotlib's own pictures of its tools in a colour."""
    from matplotlib import get_data_path

    picture = QPixmap(str(Path(get_data_path(), "images", f"{name}_large.png")))
    with painting(picture) as painter:
        painter.setCompositionMode(QPainter.CompositionMode.CompositionMode_SourceIn)
        painter.fillRect(picture.rect(), colour)
    return QIcon(picture)
