"""Holds a page or a panel that is made when it is first seen, so that the window is painted without waiting for it."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QTimer
from PySide6.QtGui import QPaintEvent, QShowEvent
from PySide6.QtWidgets import QVBoxLayout, QWidget


class MadeLater(QWidget):
    """The place of a widget.

    Args:
        make: Makes it.
        patient: Whether it is only made once it is painted: docks on top of each other are all shown, and one of them
            is seen.
    """

    def __init__(self, make: Callable[[], QWidget], *, patient: bool = False) -> None:
        super().__init__()
        self._make = make
        self._soon = QTimer(self, singleShot=True, interval=0)
        self._soon.timeout.connect(self.made)
        self._patient = patient
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
        """Make it, unless it is made when it is painted."""
        super().showEvent(event)
        if not self._patient:
            self.made()

    def paintEvent(self, event: QPaintEvent) -> None:
        """Make it once everything around it is painted, too."""
        super().paintEvent(event)
        if self._content is None:
            self._soon.start()
