"""A small histogram with counts on a log scale, painted directly: it costs nothing to show or to update."""

from __future__ import annotations

import math
from collections.abc import Sequence

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QPainter, QPaintEvent, QPen, QPolygonF
from PySide6.QtWidgets import QSizePolicy, QWidget

from ckpt_gui.gui.theme import Theme
from ckpt_gui.gui.widgets.painting import painting
from ckpt_gui.gui.widgets.units import em


class MiniHistogram(QWidget):
    """Shows counts over a range, with the range's ends below."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._counts: tuple[int, ...] = ()
        self._ends = ("", "")
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        theme.changed.connect(self.update)

    def sizeHint(self) -> QSize:
        """Return the usual size."""
        return QSize(em(self, 16), em(self, 7))

    def show_counts(self, counts: Sequence[int], low: str, high: str) -> None:
        """Show a histogram; without counts nothing is drawn."""
        self._counts, self._ends = tuple(counts), (low, high)
        text = self.tr("Histogram of {n} bins from {low} to {high}, counts on a log scale")
        self.setAccessibleName(text.format(n=len(counts), low=low, high=high))
        self.setToolTip(self.accessibleName())
        self.update()

    def paintEvent(self, _event: QPaintEvent) -> None:
        """Draw it."""
        if not self._counts:
            return
        with painting(self, smooth=True) as painter:
            foot = self.fontMetrics().height() + 4
            area = QRectF(0.5, 4, self.width() - 1, self.height() - foot - 4)
            self._draw_steps(painter, area)
            painter.setPen(QPen(self._theme.color("border"), 1))
            painter.drawLine(area.bottomLeft(), area.bottomRight())
            painter.setPen(self._theme.color("muted"))
            line = QRectF(0, area.bottom() + 2, self.width(), foot)
            painter.drawText(line, Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter, self._ends[0])
            painter.drawText(line, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter, self._ends[1])

    def _draw_steps(self, painter: QPainter, area: QRectF) -> None:
        top = math.log1p(max(self._counts)) or 1.0
        width = area.width() / len(self._counts)
        outline = QPolygonF([area.bottomLeft()])
        for number, count in enumerate(self._counts):
            y = area.bottom() - area.height() * math.log1p(count) / top
            outline.append(QPointF(area.left() + number * width, y))
            outline.append(QPointF(area.left() + (number + 1) * width, y))
        outline.append(area.bottomRight())
        painter.setPen(QPen(self._theme.color("blue"), 1.2))
        painter.setBrush(self._theme.tint("blue", 0.28))
        painter.drawPolygon(outline)
