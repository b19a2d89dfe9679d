"""Holds a page or a panel that is made when it is first seen, so that the window is painted without waiting for it."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QVBoxLayout, QWidget


class MadeLater(QWidget):
    """The place of a widget."""

    def __init__(self, make: Callable[[], QWidget]) -> None:
        super().__init__()
        self._make = make
        self._content: QWidget | None = None
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)

    def made(self) -> QWidget:
        """Return the widget, and make it if nobody has seen it yet."""
        if self._content is None:
            self._content = self._make()
            self._column.addWidget(self._content)
            self._content.show()  # at once: a layout would do it later
            self.setFocusProxy(self._content)
        return self._content

    def showEvent(self, event: QShowEvent) -> None:
        """Make it."""
        super().showEvent(event)
        self.made()
