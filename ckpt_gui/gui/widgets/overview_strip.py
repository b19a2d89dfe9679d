"""A thin strip beside a list: where in all of it the lines of each colour lie. A click goes there."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QMouseEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from ckpt_gui.gui.theme import Theme
from ckpt_gui.gui.widgets.units import em

LEAST = 2.0  # pixels of a mark


class OverviewStrip(QWidget):
    """Marks from top to bottom.

    Signals:
        chosen(place): The number of the line that was clicked.
    """

    chosen = Signal(int)

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._marks: tuple[str, ...] = ()
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Expanding)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setToolTip(self.tr("Where the differences lie; a click goes there"))
        theme.changed.connect(self.update)

    def sizeHint(self) -> QSize:
        """Return a narrow strip."""
        return QSize(em(self, 0.7), em(self, 6))

    def show_marks(self, roles: Sequence[str]) -> None:
        """Show other lines.

        Args:
            roles: Colour role of each line; empty for a line without a mark.
        """
        self._marks = tuple(roles)
        number = sum(1 for role in roles if role)
        self.setAccessibleName(self.tr("{n} of {all} lines are marked").format(n=number, all=len(roles)))
        self.update()

    def paintEvent(self, _event: QPaintEvent) -> None:
        """Draw the marks."""
        painter = QPainter(self)
        painter.fillRect(self.rect(), self._theme.color("raised"))
        count, height = len(self._marks), max(1, self.height())
        thick = max(height // max(1, count), int(LEAST))
        for place in range(min(count, height)):  # at most one mark a pixel, however many lines there are
            lines = range(*_part(place, count, height))
            number = next((line for line in lines if self._marks[line]), None)
            if number is not None:
                top = number * height // count
                painter.fillRect(0, top, self.width(), thick, self._theme.color(self._marks[number]))

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        """Go to a line."""
        if self._marks:
            place = int(event.position().y() * len(self._marks) / max(1, self.height()))
            self.chosen.emit(max(0, min(place, len(self._marks) - 1)))


def _part(place: int, count: int, height: int) -> tuple[int, int]:
    """Return the lines that one mark stands for."""
    parts = min(count, height)
    return place * count // parts, (place + 1) * count // parts
