"""Makes what a window does without at first: once it is painted, a part at a time, so that no pause is felt."""

from __future__ import annotations

from collections.abc import Iterator

from PySide6.QtCore import QEvent, QObject, QTimer
from PySide6.QtWidgets import QWidget

from ckpt_gui.gui.core_imports import core_imports

PATIENCE = 500  # milliseconds: a window that lies behind others may never be painted
_END = object()
LOOK = 4  # milliseconds between two looks whether the core is imported


class MadeInParts(QObject):
    """Runs through parts, each of which is made by asking for it.

    Args:
        widget: What they are parts of.
        parts: Makes one each time it is asked for the next.

    Attributes:
        broken: Whether a part could not be made, and no other will be.
    """

    def __init__(self, widget: QWidget, parts: Iterator[None]) -> None:
        super().__init__(widget)
        self._parts = parts
        self.broken = False
        widget.installEventFilter(self)
        self._soon = False
        self._timer = QTimer(self)
        self._timer.timeout.connect(self._step)

    def begin(self) -> None:
        """Make them one by one, from the first picture of the widget on."""
        self._soon = True
        self._timer.start(PATIENCE)

    def finish(self) -> None:
        """Make all that are left, at once."""
        self._timer.stop()
        while self._make_next():
            pass

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Begin behind the first picture: what is in the widget is painted before timers are looked at."""
        if event.type() == QEvent.Type.Paint:
            watched.removeEventFilter(self)
            if self._soon:
                self._timer.start(0)
        return False

    def _step(self) -> None:
        if core_imports().is_alive():  # what would be imported here would wait for it
            self._timer.setInterval(LOOK)
            return
        self._timer.stop()
        if self._make_next():
            self._timer.start(0)

    def _make_next(self) -> bool:
        """Make the next part; return False if there is none left."""
        self.broken = True  # unless it is made
        there = next(self._parts, _END) is not _END
        self.broken = False
        return there
