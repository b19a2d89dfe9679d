"""Starts the window, and brings it into the state that the command line asks for."""

from __future__ import annotations

import contextlib
import gc
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from PySide6.QtCore import QTimer
from PySide6.QtGui import QIcon
from PySide6.QtWidgets import QApplication

from ckpt_gui.core.batch_names import distinct
from ckpt_gui.desktop.instance import Request
from ckpt_gui.desktop.resources import APP, ICON, resource
from ckpt_gui.gui import language
from ckpt_gui.gui.arrivals import Arrivals
from ckpt_gui.gui.core_imports import core_imports
from ckpt_gui.gui.crash_log import add_versions, bad_ends, crash_log, log_folder
from ckpt_gui.gui.hooks import caught, without_noise
from ckpt_gui.gui.main_window import MainWindow
from ckpt_gui.gui.screenshot import Shooter
from ckpt_gui.gui.settings import Settings
from ckpt_gui.gui.theme import Theme
from ckpt_gui.gui.windows import Windows


def run(
    paths: Sequence[str],
    screenshot: str | None = None,
    fresh: bool = False,
    select: str | None = None,
    filter: str | None = None,
    view: str | None = None,
    against: str | None = None,
    plan: str | None = None,
) -> int:
    """Open the window, or the batch window for several checkpoints, and return the exit status.

    Args:
        paths: Checkpoints to open; none shows the start page.
        screenshot: Draw the first window into this file once everything is there, and leave.
        fresh: Forget all settings first.
        select: Key of the tensor to select.
        filter: Text for the filter box.
        against: What to compare with: a path, or the name of a known model.
        plan: A fix plan that was saved, for the first checkpoint.
        view: `tree`, `list`, `plan`, `export`, the name of a page (or `page/part`) or of a tab of the inspector.
    """
    tune()
    app = application()
    settings = Settings(keeps=not screenshot)
    if fresh:
        settings.clear()
    windows = Windows(settings, Theme(app, settings.scheme, settings.points, settings.still))
    with (
        without_noise(app.platformName()),
        crash_log(log_folder()) as log,
        _stopped_by_signals(app, windows.end),
        caught(windows.show_trouble),
    ):
        named = distinct(paths) if len(paths) > 1 else tuple(paths)  # one alone is shown as it was typed
        asked = Request(named, select or "", filter or "", view or "", against or "", plan=plan or "")
        if paths:
            core_imports()  # so that it works while the widgets are made
        first = windows.take(asked, restore=not (fresh or screenshot), whole=bool(screenshot))
        shooter = Shooter(first, screenshot) if screenshot else None
        if shooter is None:
            arrivals = Arrivals(app)
            arrivals.wanted.connect(windows.take)
            if isinstance(first, MainWindow):
                first.completed.connect(partial(_settle, first, arrivals, log))
            else:
                arrivals.open()
        try:
            status = app.exec()
        finally:
            windows.close_all()
        if windows.failure is not None:
            raise windows.failure
        return shooter.status if shooter else status


def _settle(window: MainWindow, arrivals: Arrivals, log: Path | None) -> None:
    """Do what the first window was not kept waiting for; tell in it how the last session ended, and what it left."""
    arrivals.open()
    add_versions(log)
    window.tell.bad_end(bad_ends(log_folder()))
    window.leftovers.look()
    gc.freeze()  # what was made until now stays, and need not be looked through again


def tune() -> None:
    """Set Python up for a window beside threads that work.

    A checkpoint is millions of small values that never go away: looking for garbage among them less often halves the
    time of opening, and looking through all of them holds every thread up for seconds. So young values are looked at
    60,000 at most at a time (10 ms), and old ones hardly ever. And a thread that works in Python is asked to make room
    ten times sooner than by default: the window's thread gives the lock away at each call of Qt, and would wait 5 ms
    each time to get it back.
    """
    gc.set_threshold(20_000, 2, 5_000)
    sys.setswitchinterval(0.0001)


def application() -> QApplication:
    """Return the application, made and named if there is none yet."""
    app = QApplication.instance()
    if not isinstance(app, QApplication):
        app = QApplication(sys.argv[:1])
    if sys.platform == "win32":
        from ckpt_gui.desktop.windows import name_process

        name_process()
    app.setApplicationName("ckpt_gui")
    app.setOrganizationName("ckpt_gui")
    app.setDesktopFileName(APP)
    app.setWindowIcon(QIcon(str(resource(ICON))))
    language.install(app)
    return app


@contextlib.contextmanager
def _stopped_by_signals(app: QApplication, end: Callable[[], None]) -> Iterator[None]:
    """End the program as by its menu when the system asks it to: running exports are cancelled, and leave nothing.

    Python runs its handlers only when it runs at all, so it is woken now and then.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    ends = [number for number in signal.Signals if number.name in ("SIGINT", "SIGTERM", "SIGHUP")]
    asked = [number for number in ends if signal.getsignal(number) is not signal.SIG_IGN]  # as nohup asks for
    before = {number: signal.signal(number, lambda *_: end()) for number in asked}
    timer = QTimer(app, interval=250)
    timer.timeout.connect(lambda: None)
    timer.start()
    try:
        yield
    finally:
        timer.stop()
        for number, handler in before.items():
            signal.signal(number, handler)
