"""Takes a picture of a window without a user, once it has settled and nothing is running."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QTimer
from PySide6.QtGui import QPainter, QPixmap
from PySide6.QtWidgets import QApplication, QDialog

from ckpt_gui.gui.main_window import MainWindow

if TYPE_CHECKING:
    from ckpt_gui.gui.batch_window import BatchWindow

QUIET_SECONDS = 0.6  # a picture is taken when nothing has been running for so long
PATIENCE_SECONDS = 120.0


class Shooter(QObject):
    """Draws a window into a file when it has settled and nothing is running, then ends the program."""

    def __init__(self, window: MainWindow | BatchWindow, path: str) -> None:
        super().__init__()
        self._window, self._path = window, path
        self.status = 1
        self._end = time.monotonic() + PATIENCE_SECONDS
        self._busy = time.monotonic()
        self._timer = QTimer(self)
        self._timer.setInterval(50)
        self._timer.timeout.connect(self._look)
        self._timer.start()

    def _look(self) -> None:
        now = time.monotonic()
        window = self._window
        session = window.session if isinstance(window, MainWindow) else None
        loading = isinstance(window, MainWindow) and window.pages.currentWidget() is window.loading_panel
        if loading or window.jobs.running():
            self._busy = now
        if now > self._end:
            self._finish(f"The window was still busy after {PATIENCE_SECONDS:.0f} seconds; no picture was taken.")
        elif now - self._busy > QUIET_SECONDS:
            failed = session is not None and session.path is not None and session.snapshot is None
            saved = self._draw()
            self.status = 0 if saved and not failed else 2 if failed else 1
            self._finish("" if saved else f"{self._path} cannot be written.")

    def _draw(self) -> bool:
        Path(self._path).parent.mkdir(parents=True, exist_ok=True)
        return _picture(self._window).save(self._path)

    def _finish(self, text: str) -> None:
        self._timer.stop()
        if text:
            sys.stderr.write(text + "\n")
        QApplication.quit()


def _picture(window: MainWindow | BatchWindow) -> QPixmap:
    """Draw a window with the dialogs that stand before it."""
    made = window.grab()
    for dialog in window.findChildren(QDialog):
        if dialog.isVisible():
            painter = QPainter(made)
            shade = window.theme.color("text" if not window.theme.dark else "window")
            painter.setOpacity(0.35)
            painter.fillRect(window.rect(), shade)
            painter.setOpacity(1)
            front = dialog.grab()
            x, y = (window.width() - dialog.width()) // 2, (window.height() - dialog.height()) // 2
            painter.drawPixmap(x, y, front)
            painter.setPen(window.theme.color("strong_border"))
            painter.drawRect(x - 1, y - 1, dialog.width() + 1, dialog.height() + 1)
            painter.end()
    return made
