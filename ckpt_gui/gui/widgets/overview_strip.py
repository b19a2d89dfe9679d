"""A thin strip beside a list: where in all of it the lines of each colour lie. A click goes there."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QMouseEvent, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from ckpt_gui.gui.theme import Theme
from ckpt_gui.gui.widgets.painting import painting
from ckpt_gui.gui.widgets.units import em

LEAST = 2.0  # pixels of a mark
_BARE = 255  # code of a line without a mark, once it is drawn


class OverviewStrip(QWidget):
    """Marks from top to bottom.

    Signals:
        chosen(place): The number of the line that was clicked.
    """

    chosen = Signal(int)

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._codes = b""  # one for each line; of many lines in one place the lowest is drawn
        self._roles: Sequence[str] = ()
        self._drawn: tuple[int, list[tuple[int, int]]] = (0, [])  # height; top and code of each mark
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Expanding)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setToolTip(self.tr("Where the differences lie; a click goes there"))
        theme.changed.connect(self.update)

    def sizeHint(self) -> QSize:
        """Return a narrow strip."""
        return QSize(em(self, 0.7), em(self, 6))

    def show_marks(self, roles: Sequence[str]) -> None:
        """Show other lines, of which there are not too many kinds.

        Args:
            roles: Colour role of each line; empty for a line without a mark.
        """
        kinds = [role for role in dict.fromkeys(roles) if role]
        numbers = {role: number for number, role in enumerate(kinds)} | {"": len(kinds)}
        self.show_codes(bytes(map(numbers.__getitem__, roles)), [*kinds, ""])

    def show_codes(self, codes: bytes, roles: Sequence[str]) -> None:
        """Show other lines; 500,000 take a few milliseconds.

        Args:
            codes: One code for each line. Where lines lie closer than pixels, the lowest code is drawn.
            roles: Colour role of each code; empty for a code without a mark.
        """
        marked = bytes([code if role else _BARE for code, role in enumerate(roles)]).ljust(256, bytes([_BARE]))
        self._codes, self._roles, self._drawn = codes.translate(marked), roles, (0, [])
        number = len(codes) - self._codes.count(_BARE)
        self.setAccessibleName(self.tr("{n} of {all} lines are marked").format(n=number, all=len(codes)))
        self.update()

    def paintEvent(self, _event: QPaintEvent) -> None:
        """Draw the marks."""
        with painting(self) as painter:
            painter.fillRect(self.rect(), self._theme.color("raised"))
            count, height = len(self._codes), max(1, self.height())
            if self._drawn[0] != height:
                self._drawn = (height, self._marks(count, height))
            thick = max(height // max(1, count), int(LEAST))
            for top, code in self._drawn[1]:
                painter.fillRect(0, top, self.width(), thick, self._theme.color(self._roles[code]))

    def _marks(self, count: int, height: int) -> list[tuple[int, int]]:
        """Return the marks, at most one a pixel: the top of each, and its code."""
        found = []
        for place in range(min(count, height)):
            first, after = _part(place, count, height)
            code = min(self._codes[first:after])
            if code != _BARE:
                found.append(((first + self._codes[first:after].index(code)) * height // count, code))
        return found

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        """Go to a line: to the next one with a mark where the mouse can not tell them apart."""
        if self._codes:
            count, height = len(self._codes), max(1, self.height())
            place = max(0, min(int(event.position().y() * count / height), count - 1))
            near = self._codes[place : place + max(1, count // height)]
            self.chosen.emit(place + near.index(min(near)))


def _part(place: int, count: int, height: int) -> tuple[int, int]:
    """Return the lines that one mark stands for."""
    parts = min(count, height)
    return place * count // parts, (place + 1) * count // parts
