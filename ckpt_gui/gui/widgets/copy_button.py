"""A small button with two overlapping sheets, drawn here: many fonts lack the sign."""

from __future__ import annotations

from PySide6.QtCore import QPointF, QRectF
from PySide6.QtGui import QPaintEvent, QPalette, QPen
from PySide6.QtWidgets import QToolButton, QWidget

from ckpt_gui.gui.widgets.painting import painting
from ckpt_gui.gui.widgets.units import em


class CopyButton(QToolButton):
    """Copies something; give it a tool tip and an accessible name that say what."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("kind", "quiet")
        self.setFixedSize(em(self, 1.5), em(self, 1.3))

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw the sheets over the button."""
        super().paintEvent(event)
        with painting(self, smooth=True) as painter:
            size = self.height() * 0.36
            middle = QRectF(self.rect()).center()
            painter.setPen(QPen(self.palette().color(QPalette.ColorRole.PlaceholderText), max(1.0, size / 7)))
            back = QRectF(middle.x() - size * 0.7, middle.y() - size * 0.75, size, size * 1.1)
            front = back.translated(size * 0.4, size * 0.4)
            painter.drawRoundedRect(front, 1.5, 1.5)
            left, right = QPointF(front.left(), back.bottom()), QPointF(back.right(), front.top())
            painter.drawPolyline([left, back.bottomLeft(), back.topLeft(), back.topRight(), right])
