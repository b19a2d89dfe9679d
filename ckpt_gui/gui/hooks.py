"""Catches what nobody else caught, so that the window lives on and says what happened."""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from types import TracebackType

from PySide6.QtCore import QMessageLogContext, QObject, QtMsgType, Signal, qInstallMessageHandler
from PySide6.QtWidgets import QApplication

log = logging.getLogger(__name__)


@contextlib.contextmanager
def caught(show: Callable[[BaseException], None]) -> Iterator[None]:
    """Hand exceptions that nobody caught to `show`, on the GUI thread, while the block runs."""
    carrier = _Carrier()
    carrier.thrown.connect(show)

    def on_error(kind: type[BaseException], error: BaseException | None, trace: TracebackType | None) -> None:
        if issubclass(kind, KeyboardInterrupt):
            QApplication.quit()
            return
        log.error("%s", "".join(traceback.format_exception(kind, error, trace)))
        carrier.thrown.emit(error)

    before = sys.excepthook, threading.excepthook
    sys.excepthook = on_error
    threading.excepthook = lambda args: on_error(args.exc_type, args.exc_value, args.exc_traceback)
    try:
        yield
    finally:
        sys.excepthook, threading.excepthook = before


@contextlib.contextmanager
def without_noise(platform: str) -> Iterator[None]:
    """Keep to ourselves what Qt says of a platform without a screen: that it can not raise or size a window."""
    if platform not in ("offscreen", "minimal"):
        yield
        return

    def say(_kind: QtMsgType, _context: QMessageLogContext, text: str) -> None:
        if not text.startswith("This plugin does not support"):
            sys.stderr.write(f"{text}\n")

    before = qInstallMessageHandler(say)
    try:
        yield
    finally:
        qInstallMessageHandler(before)


class _Carrier(QObject):
    """Carries an exception to the GUI thread."""

    thrown = Signal(object)
