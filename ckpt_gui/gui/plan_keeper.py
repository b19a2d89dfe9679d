"""Keeps an edited plan from being lost: asks before a window lets go of one."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QWidget

from ckpt_gui.core.keys import safe_text
from ckpt_gui.gui.panels.close_question import PlanAnswer, ask_about_plan

if TYPE_CHECKING:
    from ckpt_gui.gui.main_window import MainWindow


class PlanKeeper(QObject):
    """Looks after the plan of one window.

    Attributes:
        ask: Asks what shall become of the edited plan of a checkpoint, by its name.
    """

    def __init__(self, window: MainWindow) -> None:
        super().__init__(window)
        self.ask: Callable[[QWidget, str], PlanAnswer] = ask_about_plan

    @property
    def _window(self) -> MainWindow:
        """The window; not an attribute, so that Python frees a closed window at once, and what it holds with it."""
        return cast("MainWindow", self.parent())

    def may_leave(self) -> bool:
        """Return True if the open checkpoint may be let go of; an edited plan is asked about first."""
        session = self._window.session
        if not session.unsaved:
            return True
        path = os.path.normpath(session.path or "")
        return self.ask(self._window, safe_text(os.path.basename(path), 80)) == "leave"
