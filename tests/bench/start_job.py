"""Jobs that end with a picture of the window: its first, the first with rows, and that of a window of PySide6 alone.

The program is started as from a terminal, by its command line, and its process ends with the picture: nothing is
closed. Settings and logs go to a folder of their own.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

from tests.bench.telling import tell

_PLACES = ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR")


def paint(folder: str, *paths: str) -> dict[str, float]:
    """Start the program with its settings in a folder, and end with the first picture of its window."""
    return _started(folder, paths, _until_painted)


def first_rows(folder: str, path: str) -> dict[str, float]:
    """Start the program on a checkpoint, and end with the first picture that shows a row of it."""
    return _started(folder, (path,), _until_rows)


def paint_alone() -> dict[str, float]:
    """Show a window with a word in it, made by PySide6 alone, and end with its first picture."""
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    from PySide6.QtWidgets import QApplication, QLabel, QMainWindow

    app = QApplication([])
    window = QMainWindow()
    window.setCentralWidget(QLabel("PySide6"))
    window.resize(1280, 800)
    window.show()
    _until_painted(window)
    app.exec()
    return {}


def _started(folder: str, paths: tuple[str, ...], watch: Callable[[Any], None]) -> dict[str, float]:
    """Run the command line, and watch its window from the moment on when events are looked at."""
    os.environ |= dict.fromkeys(_PLACES, folder)
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    sys.argv = ["ckpt-gui", *paths]
    from ckpt_gui.cli.main import main  # first, as in the program: behind Qt every import takes longer

    from PySide6.QtWidgets import QApplication  # isort: skip

    run = QApplication.exec

    def watched() -> int:
        watch(next(widget for widget in QApplication.topLevelWidgets() if widget.isVisible()))
        return run()

    QApplication.exec = staticmethod(watched)  # type: ignore[method-assign]
    main()
    return {}


def _until_painted(widget: Any) -> None:
    """End the process once a widget and what is in it are painted."""
    from PySide6.QtCore import QEvent, QObject, QTimer

    class First(QObject):
        def eventFilter(self, watched: QObject, event: QEvent) -> bool:
            if event.type() == QEvent.Type.Paint:
                QTimer.singleShot(0, _end)
            return False

    widget.installEventFilter(First(widget))


def _until_rows(window: Any) -> None:
    """End the process once the tree of a window is painted with rows in it."""
    from PySide6.QtCore import QTimer

    def look() -> None:
        if window.is_whole and window.tree_panel.view.keys.rowCount():
            timer.stop()
            shown = window.tree_panel.view.current.viewport()
            _until_painted(shown)
            shown.update()

    timer = QTimer(window, interval=2)
    timer.timeout.connect(look)
    timer.start()


def _end() -> None:
    tell({})
    os._exit(0)
