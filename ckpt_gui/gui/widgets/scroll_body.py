"""The inside of a scroll area whose labels wrap."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt
from PySide6.QtWidgets import QFrame, QScrollArea, QWidget


class ScrollBody(QWidget):
    """Is as high as its layout needs at the width that it gets.

    Qt's own least height is that of labels wrapped at their least widths, so there was something to scroll where all
    was in sight already.
    """

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("plain", "true")

    def minimumSizeHint(self) -> QSize:
        """Return the least width; the height follows from the width."""
        return QSize(super().minimumSizeHint().width(), 0)


def scroll_area(body: QWidget) -> QScrollArea:
    """Return an area without a frame that scrolls a body up and down only."""
    area = QScrollArea()
    area.setWidgetResizable(True)
    area.setFrameShape(QFrame.Shape.NoFrame)
    area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
    area.setWidget(body)
    return area
