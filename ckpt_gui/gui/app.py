"""Starts the window, and brings it into the state that the command line asks for."""

from __future__ import annotations

import contextlib
import gc
import signal
import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from PySide6.QtCore import QTimer
from PySide6.QtGui import QIcon
from PySide6.QtWidgets import QApplication

from ckpt_gui.gui import language
from ckpt_gui.gui.crash_log import bad_ends, crash_log, log_folder
from ckpt_gui.gui.hooks import caught, without_noise
from ckpt_gui.gui.main_window import MainWindow
from ckpt_gui.gui.resources import ICON, resource
from ckpt_gui.gui.screenshot import Shooter
from ckpt_gui.gui.settings import Settings
from ckpt_gui.gui.theme import Theme
from ckpt_gui.gui.window_state import arrange, once, read_states, reopen, state_of, write_states

DESKTOP_FILE = "org.ckpt_gui.CkptGui"
MOST_WINDOWS = 10


def run(
    paths: Sequence[str],
    screenshot: str | None = None,
    fresh: bool = False,
    select: str | None = None,
    filter: str | None = None,
    view: str | None = None,
    against: str | None = None,
) -> int:
    """Open the window, one for each path, and return the exit status.

    Args:
        paths: Checkpoints to open; none shows the start page.
        screenshot: Draw the first window into this file once everything is there, and leave.
        fresh: Forget all settings first.
        select: Key of the tensor to select.
        filter: Text for the filter box.
        against: What to compare with: a path, or the name of a known model.
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
        crash_log(log_folder()),
        _stopped_by_signals(app, windows.end),
        caught(windows.show_trouble),
    ):
        first = windows.add(*paths[:1], restore=not (fresh or screenshot))
        for path in paths[1:]:
            windows.add(path)
        once(first, lambda: arrange(first, select, filter, view, against))
        shooter = Shooter(first, screenshot) if screenshot else None
        if shooter is None:
            first.tell.bad_end(bad_ends(log_folder()))
            first.leftovers.look()
        try:
            status = app.exec()
        finally:
            windows.close_all()
        return shooter.status if shooter else status


def tune() -> None:
    """Set Python up for a window beside threads that work.

    A checkpoint is millions of small values that never go away: looking for garbage among them less often halves the
    time of opening, and looking through all of them holds every thread up for seconds. So young values are looked at
    60,000 at most at a time (10 ms), and old ones hardly ever. And a thread that works in Python is asked to make room
    ten times sooner than by default: the window's thread gives the lock away at each call of Qt, and would wait 5 ms
    each time to get it back.
    """
    gc.set_threshold(20_000, 2, 5_000)
    sys.setswitchinterval(0.0005)


def application() -> QApplication:
    """Return the application, made and named if there is none yet."""
    app = QApplication.instance()
    if not isinstance(app, QApplication):
        app = QApplication(sys.argv[:1])
    app.setApplicationName("ckpt_gui")
    app.setOrganizationName("ckpt_gui")
    app.setDesktopFileName(DESKTOP_FILE)
    app.setWindowIcon(QIcon(str(resource(ICON))))
    language.install(app)
    return app


class Windows:
    """The windows that are open; keeps them alive, and remembers what they show for the next start.

    Attributes:
        open: The windows.
        before: What was open when the program ended last.
    """

    def __init__(self, settings: Settings, theme: Theme) -> None:
        self._settings, self._theme = settings, theme
        self.open: list[MainWindow] = []
        self.before = read_states(settings.session()) if settings.offers_session else ()
        self._ending = False

    def add(self, path: str = "", *, restore: bool = False) -> MainWindow:
        """Show another window."""
        window = MainWindow(self._settings, self._theme)
        self.open.append(window)
        window.more_paths.connect(partial(self._add_more, weakref.ref(window)))
        window.settled.connect(self.remember)
        window.leaving.connect(self.remember)
        window.session_wanted.connect(self.reopen_all)
        window.offer_session(self.before)
        window.destroyed.connect(lambda _=None: self.open.remove(window) if window in self.open else None)
        if restore:
            window.restore()
        window.show()
        if path:
            window.open_path(path)
        return window

    def remember(self) -> None:
        """Keep what all windows show; what was open before stays kept until something is."""
        if not self._ending and (states := [state for it in self.open if (state := state_of(it)) is not None]):
            self._settings.save_session(write_states(states))

    def reopen_all(self) -> None:
        """Open again what was open last time: the first checkpoint here if nothing is, the others beside it."""
        states, self.before = self.before, ()
        empty = [it for it in self.open if it.session.path is None]
        for window in self.open:
            window.offer_session(())
        for state in states[:MOST_WINDOWS]:
            reopen(empty.pop() if empty else self.add(), state)

    def _add_more(self, first: weakref.ref[MainWindow], paths: Sequence[str]) -> None:
        """Show more windows, but not a screen full of them."""
        room = max(0, MOST_WINDOWS - len(self.open))
        for path in paths[:room]:
            self.add(path)
        window = first()
        if window is not None and len(paths) > room:
            window.tell.not_opened(len(paths) - room)

    def show_trouble(self, error: BaseException) -> None:
        """Say in a window that something went wrong."""
        for window in self.open[:1]:
            window.tell.trouble(error)

    def end(self) -> None:
        """End the program without asking."""
        self.close_all()
        QTimer.singleShot(0, QApplication.quit)  # not now: the loop that shall end may not have begun

    def close_all(self) -> None:
        """Close what is still open, without asking."""
        self.remember()
        self._ending = True
        for window in list(self.open):
            window.ask_to_close = lambda _window, _titles: True
            window.plan_keeper.ask = lambda _window, _name: "leave"
            window.close()
        self.open.clear()


@contextlib.contextmanager
def _stopped_by_signals(app: QApplication, end: Callable[[], None]) -> Iterator[None]:
    """End the program as by its menu when the system asks it to: running exports are cancelled, and leave nothing.

    Python runs its handlers only when it runs at all, so it is woken now and then.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    asked = [number for number in signal.Signals if number.name in ("SIGINT", "SIGTERM", "SIGHUP")]
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
