"""Starts the window, catches what nobody else caught, and takes pictures of it without a user."""

from __future__ import annotations

import gc
import logging
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from PySide6.QtCore import QLibraryInfo, QLocale, QObject, QTimer, QTranslator, Signal
from PySide6.QtGui import QIcon, QPainter, QPixmap
from PySide6.QtWidgets import QApplication, QDialog

from ckpt_gui.gui.main_window import MainWindow
from ckpt_gui.gui.resources import ICON, resource
from ckpt_gui.gui.settings import Settings
from ckpt_gui.gui.theme import Theme

log = logging.getLogger(__name__)

DESKTOP_FILE = "org.ckpt_gui.CkptGui"
QUIET_SECONDS = 0.6  # a picture is taken when nothing has been running for so long
PATIENCE_SECONDS = 120.0
VIEWS = ("tree", "list", "plan", "export")


def run(
    paths: Sequence[str],
    screenshot: str | None = None,
    fresh: bool = False,
    select: str | None = None,
    filter: str | None = None,
    view: str | None = None,
) -> int:
    """Open the window, one for each path, and return the exit status.

    Args:
        paths: Checkpoints to open; none shows the start page.
        screenshot: Draw the first window into this file once everything is there, and leave.
        fresh: Forget all settings first.
        select: Key of the tensor to select.
        filter: Text for the filter box.
        view: `tree`, `list`, `plan`, `export`, or the name of a tab of the inspector.
    """
    gc.set_threshold(100_000, 20, 100)  # a checkpoint is a million small values that never go away: half the time
    app = application()
    settings = Settings()
    if fresh:
        settings.clear()
    theme = Theme(app, settings.scheme)
    windows = Windows(settings, theme)
    first = windows.add(*paths[:1], restore=not (fresh or screenshot))
    for path in paths[1:]:
        windows.add(path)
    once(first, lambda: _arrange(first, select, filter, view))
    hooks = Hooks(windows)
    shooter = Shooter(first, screenshot) if screenshot else None
    alarm = _let_control_c_through(app)
    try:
        status = app.exec()
        return shooter.status if shooter else status
    finally:
        alarm.stop()
        hooks.remove()
        windows.close_all()


def application() -> QApplication:
    """Return the application, made and named if there is none yet."""
    app = QApplication.instance()
    if not isinstance(app, QApplication):
        app = QApplication(sys.argv[:1])
    app.setApplicationName("ckpt_gui")
    app.setOrganizationName("ckpt_gui")
    app.setDesktopFileName(DESKTOP_FILE)
    app.setWindowIcon(QIcon(str(resource(ICON))))
    translator = QTranslator(app)  # Qt's own texts, such as those of file dialogs
    if translator.load(QLocale(), "qtbase", "_", QLibraryInfo.path(QLibraryInfo.LibraryPath.TranslationsPath)):
        app.installTranslator(translator)
    return app


class Windows:
    """The windows that are open; keeps them alive."""

    def __init__(self, settings: Settings, theme: Theme) -> None:
        self._settings, self._theme = settings, theme
        self.open: list[MainWindow] = []

    def add(self, path: str = "", *, restore: bool = False) -> MainWindow:
        """Show another window."""
        window = MainWindow(self._settings, self._theme)
        self.open.append(window)
        window.more_paths.connect(lambda paths: [self.add(path) for path in paths])
        window.destroyed.connect(lambda _=None: self.open.remove(window) if window in self.open else None)
        if restore:
            window.restore()
        window.show()
        if path:
            window.open_path(path)
        return window

    def close_all(self) -> None:
        """Close what is still open, without asking."""
        for window in list(self.open):
            window.ask_to_close = lambda _titles: True
            window.close()
        self.open.clear()


def once(window: MainWindow, act: Callable[[], None]) -> None:
    """Act when the window has shown what it was asked for; only the first time."""
    done: list[bool] = []

    def settled() -> None:
        if not done:
            done.append(True)
            act()

    window.settled.connect(settled)


def _arrange(window: MainWindow, select: str | None, text: str | None, view: str | None) -> None:
    """Bring a window into the state that the command line asks for."""
    if window.session.snapshot is None:
        return
    if view in ("tree", "list"):
        window.commands.show_as(view)
    if text:
        window.tree_panel.set_filter(text)
    if select and not window.tree_panel.select_key(select):
        window.trouble_bar.show_text(f"There is no tensor {select} in this checkpoint.")
    if view in ("plan", "export"):
        window.commands.export() if view == "export" else window.docks["plan"].raise_()
    elif view and view not in VIEWS and not _show_tab(window.inspector_panel, view):
        window.trouble_bar.show_text(f"There is no view {view}.")


def _show_tab(inspector: Any, name: str) -> bool:
    """Show a tab of the inspector by the first word of its title."""
    tabs = inspector.tabs
    for place in range(tabs.count()):
        if tabs.tabText(place).replace("&", "").lower().startswith(name.lower()):
            tabs.setCurrentIndex(place)
            return True
    return False


class Hooks(QObject):
    """Shows exceptions that nobody caught in the window, and keeps the program alive.

    Signals:
        caught(error): On the GUI thread.
    """

    caught = Signal(object)

    def __init__(self, windows: Windows) -> None:
        super().__init__()
        self._windows = windows
        self._old = sys.excepthook, threading.excepthook
        self.caught.connect(self._show)
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

    def _show(self, error: BaseException) -> None:
        for window in self._windows.open[:1]:
            window.show_trouble(error)


class Shooter(QObject):
    """Draws a window into a file when it has settled and nothing is running, then ends the program."""

    def __init__(self, window: MainWindow, path: str) -> None:
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
        session = self._window.session
        if self._window.jobs.running() or self._window.pages.currentWidget() is self._window.loading_panel:
            self._busy = now
        if now > self._end:
            self._finish(f"The window was still busy after {PATIENCE_SECONDS:.0f} seconds; no picture was taken.")
        elif now - self._busy > QUIET_SECONDS:
            failed = session.path is not None and session.snapshot is None
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


def _picture(window: MainWindow) -> QPixmap:
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


def _let_control_c_through(app: QApplication) -> QTimer:
    """Let Python see Control-C: it runs its handlers only when it runs at all."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, lambda *_: app.quit())
    timer = QTimer(app)
    timer.timeout.connect(lambda: None)
    timer.start(250)
    return timer
