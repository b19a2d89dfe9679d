"""A progress bar that stands still while it waits, where nothing may move by itself."""

from __future__ import annotations

from PySide6.QtCore import QRect
from PySide6.QtGui import QPaintEvent, QPalette
from PySide6.QtWidgets import QApplication, QProgressBar

from ckpt_gui.gui.theme import STILL
from ckpt_gui.gui.widgets.painting import painting


class ProgressBar(QProgressBar):
    """Shows how far work is; without a known end it runs to and fro, or shows a pattern where nothing may move."""

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint a pattern in place of the animation, which the style would start with the first painting."""
        app = QApplication.instance()
        if app is None or not app.property(STILL) or self.maximum() > self.minimum():
            super().paintEvent(event)
            return
        with painting(self) as painter:
            colours = self.palette()
            painter.fillRect(self.rect(), colours.color(QPalette.ColorRole.Midlight))
            side = max(4, self.height())
            for left in range(0, self.width(), 3 * side):
                painter.fillRect(QRect(left, 0, side, self.height()), colours.brush(QPalette.ColorRole.Accent))
