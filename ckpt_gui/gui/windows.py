"""The windows of the program: one a checkpoint, one for many at once, and which of them takes what is asked for."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, QTimer
from PySide6.QtWidgets import QApplication, QWidget

from ckpt_gui.core.remote.address import admit
from ckpt_gui.desktop.instance import Request
from ckpt_gui.gui.main_window import MainWindow
from ckpt_gui.gui.settings import Settings
from ckpt_gui.gui.theme import Theme
from ckpt_gui.gui.window_state import arrange, once, read_states, reopen, state_of, write_states

if TYPE_CHECKING:
    from ckpt_gui.gui.batch_window import BatchWindow

MOST_WINDOWS = 10


class Windows:
    """The windows that are open; keeps them alive, and remembers what they show for the next start.

    Attributes:
        open: The windows with a checkpoint each.
        batch: The window with many; None if there is none.
        before: What was open when the program ended last.
    """

    def __init__(self, settings: Settings, theme: Theme) -> None:
        self._settings, self._theme = settings, theme
        self.open: list[MainWindow] = []
        self.batch: BatchWindow | None = None
        self.before = read_states(settings.session()) if settings.offers_session else ()
        self._ending = False

    def add(self, path: str = "", *, restore: bool = False) -> MainWindow:
        """Show another window."""
        window = MainWindow(self._settings, self._theme)
        self.open.append(window)
        window.batch_wanted.connect(self.add_batch)
        window.window_wanted.connect(self.add)
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

    def add_batch(self, paths: Sequence[str] = ()) -> BatchWindow:
        """Show the batch window with further checkpoints in it."""
        if self.batch is None:
            from ckpt_gui.gui.batch_window import BatchWindow  # not before somebody wants it

            self.batch = BatchWindow(self._settings, self._theme)
            self.batch.open_wanted.connect(self.add)
            self.batch.destroyed.connect(self._forget_batch)
            self.batch.show()
        self.batch.queue.add(paths)
        come_to_front(self.batch)
        return self.batch

    def _forget_batch(self) -> None:
        self.batch = None

    def take(self, request: Request, *, restore: bool = False) -> MainWindow | BatchWindow:
        """Do what a start of the program was asked for, the first or a later one; return the window that does it."""
        paths = [admit(path) for path in request.paths]  # from another process they come with their secrets
        if len(paths) > 1:
            batch = self.add_batch(paths)
            if request.plan:
                batch.queue.take_plan(request.plan)
            return batch
        window = None if request.new_window else self._free()
        window = window or self.add(restore=restore)
        if paths:
            against = admit(request.against) if request.against else None
            wanted = (request.select or None, request.filter or None, request.view or None, against)
            once(window, lambda: arrange(window, *wanted))
            if request.plan:
                once(window, lambda: window.plan_keeper.load(request.plan))
            window.open_path(paths[0])
        come_to_front(window, request.token)
        return window

    def _free(self) -> MainWindow | None:
        """Return a window in which nothing is lost when another checkpoint is opened."""
        empty = [it for it in self.open if it.session.path is None]
        if self._settings.reuses_window:
            active = [it for it in self.open if it.isActiveWindow()] or self.open
            empty += [it for it in active if not it.session.unsaved]
        return next(iter(empty), None)

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
        if self.batch is not None:
            self.batch.ask_to_close = lambda _window, _titles: True
            self.batch.close()
            self.batch = None


def come_to_front(window: QWidget, token: str = "") -> None:
    """Show a window over the others, as far as the desktop lets it.

    Args:
        window: The window.
        token: What the desktop gave the start that wants it; Qt takes it from the environment, once.
    """
    if token:
        os.environ["XDG_ACTIVATION_TOKEN"] = token
    window.setWindowState(window.windowState() & ~Qt.WindowState.WindowMinimized)
    window.raise_()
    window.activateWindow()
