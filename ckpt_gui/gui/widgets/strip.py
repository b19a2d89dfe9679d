"""A strip of columns, one a layer or expert: what is out of line is seen at a glance. Arrow keys walk over it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from PySide6.QtCore import QRectF, QSize, Qt, Signal
from PySide6.QtGui import QKeyEvent, QMouseEvent, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QWidget

from ckpt_gui.core.keys import safe_text
from ckpt_gui.gui.language import said
from ckpt_gui.gui.models.shares import Bar, number_in
from ckpt_gui.gui.theme import Theme
from ckpt_gui.gui.widgets.painting import painting
from ckpt_gui.gui.widgets.units import em
from ckpt_gui.gui.widgets.walked import Walked

GAP = 0.22  # share of a column's place that stays free
_STEPS = {Qt.Key.Key_Left: -1, Qt.Key.Key_Right: 1}


class Strip(Walked):
    """Columns side by side, and a line that says what the one under the mouse or the cursor is.

    Signals:
        chosen(name): A column was clicked, or Enter was pressed on it.
    """

    chosen = Signal(str)

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(theme, parent)
        self._bars: tuple[Bar, ...] = ()
        self._numbers: tuple[int | None, ...] = ()  # of the layers or experts that they are
        self._title = ""
        theme.changed.connect(self.update)

    def sizeHint(self) -> QSize:
        """Return the usual size."""
        return QSize(em(self, 16), em(self, 7))

    def show_bars(self, title: str, bars: Sequence[Bar]) -> None:
        """Show other columns.

        Args:
            title: What they show, for screen readers.
            bars: The columns from left to right.
        """
        self._title, self._bars = title, tuple(bars)
        self._numbers = tuple(number_in(bar.name) for bar in bars)
        self._go(0)

    def text(self) -> str:
        """Return what is said of the current column."""
        if not self._bars:
            return ""
        bar = self._bars[self.current]
        return f"{safe_text(bar.name, 80)}: {bar.text}"

    def paintEvent(self, _event: QPaintEvent) -> None:
        """Draw the columns, and the line below."""
        with painting(self, smooth=True) as painter:
            line = self.fontMetrics().height()
            area = QRectF(1, 2, self.width() - 2, self.height() - 2 * line - 12)
            self._paint_columns(painter, area)
            painter.setPen(QPen(self._theme.color("border"), 1))
            painter.drawLine(area.bottomLeft(), area.bottomRight())
            painter.setPen(self._theme.color("muted"))
            self._paint_names(painter, QRectF(area.left(), area.bottom() + 2, area.width(), line))
            painter.setPen(self._theme.color("text"))
            painter.drawText(
                QRectF(0, self.height() - line - 4, self.width(), line),
                Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter,
                said(self.text()),
            )
            if self.hasFocus():
                painter.setBrush(Qt.BrushStyle.NoBrush)
                painter.setPen(QPen(self._theme.color("focus"), 2))
                painter.drawRoundedRect(QRectF(self.rect()).adjusted(1, 1, -1, -1), 4, 4)

    def _paint_columns(self, painter: QPainter, area: QRectF) -> None:
        top = max((bar.size for bar in self._bars), default=0.0) or 1.0
        painter.setPen(Qt.PenStyle.NoPen)
        for place, (bar, number) in enumerate(zip(self._bars, self._numbers, strict=True)):
            room = self._room(place, area)
            height = max(area.height() * bar.size / top, 1.0 if bar.size > 0 else 0.0)
            colour = "blue" if number is not None else "grey"  # what is no layer
            painter.setBrush(self._theme.tint(colour, 1.0 if place == self.current else 0.55))
            free = room.width() * GAP
            wide = max(room.width() - free, 0.6)
            painter.drawRect(QRectF(room.left() + free / 2, area.bottom() - height, wide, height))

    def _paint_names(self, painter: QPainter, area: QRectF) -> None:
        """Write below the columns which they are, as many as there is room for."""
        width = self.fontMetrics().horizontalAdvance
        longest = max((width(str(number)) for number in self._numbers if number is not None), default=0)
        every = math.ceil((longest + em(self, 0.5)) / self._room(0, area).width())
        for place, (bar, number) in enumerate(zip(self._bars, self._numbers, strict=True)):
            room, name = self._room(place, area), said(bar.name)
            if number is not None and place % every == 0:  # it may be wider than its column
                middle = QRectF(room.center().x() - longest, room.top(), 2 * longest, room.height())
                painter.drawText(middle, Qt.AlignmentFlag.AlignCenter, str(number))
            elif number is None and width(name) <= room.width():
                painter.drawText(room, Qt.AlignmentFlag.AlignCenter, name)

    def _room(self, place: int, area: QRectF) -> QRectF:
        """Return the part of an area that belongs to a column."""
        width = area.width() / max(1, len(self._bars))
        return QRectF(area.left() + place * width, area.top(), width, area.height())

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Say what is under the mouse."""
        self._go(self._at(event.position().x()))

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        """Choose the column."""
        if event.button() == Qt.MouseButton.LeftButton and self._bars:
            self._go(self._at(event.position().x()))
            self.chosen.emit(self._bars[self.current].name)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Walk with the arrow keys; Enter and Space choose."""
        key = Qt.Key(event.key())
        if key in _STEPS:
            self._go(self.current + _STEPS[key])
        elif key in (Qt.Key.Key_Home, Qt.Key.Key_End):
            self._go(0 if key == Qt.Key.Key_Home else len(self._bars) - 1)
        elif key in (Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Space) and self._bars:
            self.chosen.emit(self._bars[self.current].name)
        else:
            super().keyPressEvent(event)

    def _at(self, x: float) -> int:
        return int((x - 1) * len(self._bars) / max(self.width() - 2, 1))

    def _go(self, number: int) -> None:
        self.current = max(0, min(number, len(self._bars) - 1))
        self.setAccessibleName(f"{self._title}. {said(self.text())}")
        self.update()
