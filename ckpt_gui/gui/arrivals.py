"""What arrives while the program runs: requests of second starts, and files that macOS hands to a running program."""

from __future__ import annotations

import sys

from PySide6.QtCore import QEvent, QObject, Signal
from PySide6.QtGui import QFileOpenEvent
from PySide6.QtWidgets import QApplication

from ckpt_gui.desktop.instance import Request, address


class Arrivals(QObject):
    """Listens for both.

    Args:
        app: The application.
        files: Whether the system hands files to it. Only then does every event pass through Python on its way.

    Signals:
        wanted(request): Somebody wants this.
    """

    wanted = Signal(object)

    def __init__(self, app: QApplication, *, files: bool = sys.platform == "darwin") -> None:
        super().__init__(app)
        self._door: QObject | None = None
        if files:
            app.installEventFilter(self)

    def open(self) -> None:
        """Let second starts in, from now on."""
        from ckpt_gui.gui.door import Door  # QtNetwork: not before the first window

        door = Door(self)
        door.wanted.connect(self.wanted)
        door.open(address())
        self._door = door
        self.destroyed.connect(door.close)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Take the files that the system wants to be opened."""
        if isinstance(event, QFileOpenEvent) and event.file():
            self.wanted.emit(Request((event.file(),)))
            return True
        return super().eventFilter(watched, event)
