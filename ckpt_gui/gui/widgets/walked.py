"""What pictures drawn by hand have in common that the mouse and the arrow keys walk over."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QFocusEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from ckpt_gui.gui.theme import Theme


class Walked(QWidget):
    """A picture of places in a row, one of which is the current one; it takes the keyboard and shows that it has it.

    Attributes:
        current: Number of the place under the mouse or the cursor.
    """

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self.current = 0
        self.setMouseTracking(True)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)

    def focusInEvent(self, event: QFocusEvent) -> None:
        """Show the focus."""
        super().focusInEvent(event)
        self.update()

    def focusOutEvent(self, event: QFocusEvent) -> None:
        """Take the focus off."""
        super().focusOutEvent(event)
        self.update()
