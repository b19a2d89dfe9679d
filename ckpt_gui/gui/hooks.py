"""Catches what nobody else caught, so that the window lives on and says what happened."""

from __future__ import annotations

import logging
import sys
import threading
import traceback
from collections.abc import Callable
from types import TracebackType

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QApplication

log = logging.getLogger(__name__)


class Hooks(QObject):
    """Hands exceptions that nobody caught to the window, and keeps the program alive.

    Signals:
        caught(error): On the GUI thread.
    """

    caught = Signal(object)

    def __init__(self, show: Callable[[BaseException], None]) -> None:
        super().__init__()
        self._old = sys.excepthook, threading.excepthook
        self.caught.connect(show)
        sys.excepthook = self._on_error
        threading.excepthook = lambda args: self._on_error(args.exc_type, args.exc_value, args.exc_traceback)

    def remove(self) -> None:
        """Put back what was there before."""
        sys.excepthook, threading.excepthook = self._old

    def _on_error(self, kind: type[BaseException], error: BaseException | None, trace: TracebackType | None) -> None:
        if issubclass(kind, KeyboardInterrupt):
            QApplication.quit()
            return
        log.error("%s", "".join(traceback.format_exception(kind, error, trace)))
        self.caught.emit(error)
