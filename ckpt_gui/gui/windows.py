"""The windows of the program: one a checkpoint, one for many at once, and which of them takes what is asked for."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, QTimer
from PySide6.QtWidgets import QApplication, QWidget

from ckpt_gui.core.remote.address import admit
from ckpt_gui.desktop.instance import Request
from ckpt_gui.gui.main_window import MainWindow
from ckpt_gui.gui.session_file import read_states, write_states
from ckpt_gui.gui.settings import Settings
from ckpt_gui.gui.theme import Theme

if TYPE_CHECKING:
    from ckpt_gui.gui.batch_window import BatchWindow

MOST_WINDOWS = 10


class Windows:
    """The windows that are open; keeps them alive, and remembers what they show for the next start.

    Attributes:
        open: The windows with a checkpoint each.
        batch: The window with many; None if there is none.
        before: What was open when the program ended last.
        failure: Why a window could not be made whole, which ends the program.
    """

    def __init__(self, settings: Settings, theme: Theme) -> None:
        self._settings, self._theme = settings, theme
        self.open: list[MainWindow] = []
        self.batch: BatchWindow | None = None
        self.before = read_states(settings.session()) if settings.offers_session else ()
        self._ending = False
        self.failure: BaseException | None = None

    def add(self, path: str = "", *, restore: bool = False, whole: bool = True) -> MainWindow:
        """Show another window; where it shall not be whole yet, the rest is made once it is painted."""
        window = MainWindow(self._settings, self._theme, whole=whole)
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
        if not whole:
            window.complete_later()
        if path:
            window.open_path(path)
        return window

    def remember(self) -> None:
        """Keep what all windows show; what was open before stays kept until something is."""
        whole = [window for window in self.open if window.is_whole]
        if self._ending or not whole:
            return
        from ckpt_gui.gui.window_state import state_of

        if states := [state for window in whole if (state := state_of(window)) is not None]:
            self._settings.save_session(write_states(states))

    def reopen_all(self) -> None:
        """Open again what was open last time: the first checkpoint here if nothing is, the others beside it."""
        from ckpt_gui.gui.window_state import reopen

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

    def take(self, request: Request, *, restore: bool = False, whole: bool = True) -> MainWindow | BatchWindow:
        """Do what a start of the program was asked for, the first or a later one; return the window that does it."""
        paths = [admit(path) for path in request.paths]  # from another process they come with their secrets
        if len(paths) > 1:
            batch = self.add_batch(paths)
            if request.plan:
                batch.queue.take_plan(request.plan)
            return batch
        window = None if request.new_window else self._free()
        window = window or self.add(restore=restore, whole=whole)
        if paths and window.is_whole:
            _open(window, request, paths[0])
        elif paths:
            window.expect(paths[0])
            window.completed.connect(partial(_open, window, request, paths[0]))
        come_to_front(window, request.token)
        return window

    def _free(self) -> MainWindow | None:
        """Return a window in which nothing is lost when another checkpoint is opened."""
        for window in self.open:
            window.complete()
        empty = [it for it in self.open if it.session.path is None]
        if self._settings.reuses_window:
            active = [it for it in self.open if it.isActiveWindow()] or self.open
            empty += [it for it in active if not it.session.unsaved]
        return next(iter(empty), None)

    def show_trouble(self, error: BaseException) -> None:
        """Say in a window that something went wrong; end the program where that keeps the window from being whole."""
        for window in self.open[:1]:
            if window.is_whole:
                window.tell.trouble(error)
            elif window.is_broken:
                self.failure = error
                self.end()
            else:
                window.completed.connect(partial(_tell, window, error))

    def end(self) -> None:
        """End the program without asking."""
        self.close_all()
        QTimer.singleShot(0, QApplication.quit)  # not now: the loop that shall end may not have begun

    def close_all(self) -> None:
        """Close what is still open, without asking."""
        self.remember()
        self._ending = True
        for window in list(self.open):
            if window.is_whole:
                window.ask_to_close = lambda _window, _titles: True
                window.plan_keeper.ask = lambda _window, _name: "leave"
            window.close()
        self.open.clear()
        if self.batch is not None:
            self.batch.ask_to_close = lambda _window, _titles: True
            self.batch.close()
            self.batch = None


def _tell(window: MainWindow, error: BaseException) -> None:
    window.tell.trouble(error)


def _open(window: MainWindow, request: Request, path: str) -> None:
    """Open a checkpoint in a window, and show of it what is asked for."""
    from ckpt_gui.gui.window_state import arrange, once

    against = admit(request.against) if request.against else None
    wanted = (request.select or None, request.filter or None, request.view or None, against)
    once(window, lambda: arrange(window, *wanted))
    if request.plan:
        once(window, lambda: window.plan_keeper.load(request.plan))
    window.open_path(path)


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
