"""Keeps plans: asks before an edited one is let go of, saves them, and takes over what was saved."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtWidgets import QWidget

from ckpt_gui.core.beside import Sidecars
from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.formats.sidecars import read_sidecars
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.plan_file import SavedPlan, parse_plan, read_plan
from ckpt_gui.gui.jobs import Job
from ckpt_gui.gui.panels.close_question import PlanAnswer, ask_about_plan
from ckpt_gui.gui.window_helper import WindowHelper

if TYPE_CHECKING:
    from ckpt_gui.gui.main_window import MainWindow

MOST_LOOKED_AT = 1 << 16  # bytes of a dropped file that are looked at


class PlanKeeper(WindowHelper):
    """Looks after the plan of one window.

    Attributes:
        ask: Asks what shall become of the edited plan of a checkpoint, by its name.
    """

    def __init__(self, window: MainWindow) -> None:
        super().__init__(window)
        self.ask: Callable[[QWidget, str], PlanAnswer] = ask_about_plan

    def may_leave(self) -> bool:
        """Return True if the open checkpoint may be let go of; an edited plan is asked about first."""
        window = self._window
        if not window.session.unsaved:
            return True
        path = os.path.normpath(window.session.path or "")
        answer = self.ask(window, safe_text(os.path.basename(path), 80))
        if answer == "save":
            window.commands.save_plan()
            return not window.session.unsaved
        return answer == "leave"

    def suggested(self) -> str:
        """Return a name for the plan of the open checkpoint, beside it."""
        path = Path(os.path.abspath(self._window.session.path or "."))
        stem = path.name if path.is_dir() or not path.suffix else path.stem
        return str(path.parent / f"{stem}-plan.json")

    def save(self, path: str) -> None:
        """Write the plan into a file."""
        session = self._window.session
        try:
            Path(path).write_text(session.decisions.plan_text(), encoding="utf-8")
        except OSError as error:
            text = self.tr("The plan can not be saved: {reason}.").format(reason=error.strerror or error)
            self._window.notices.show_notice("plan", "error", text)
            return
        session.undo_stack.setClean()
        self._window.notices.dismiss("plan")

    def load(self, path: str) -> None:
        """Take over the decisions of a file; what does not fit the open checkpoint is told in the plan."""
        name = safe_text(os.path.basename(path), 60)
        self._read(self.tr("Reading the plan {name}").format(name=name), lambda: read_plan(path))

    def take_text(self, text: str) -> None:
        """Take over the decisions that were kept as the text of a file."""
        self._read(self.tr("Reading the plan of the last session"), lambda: parse_plan(text.encode()))

    def _read(self, title: str, read: Callable[[], SavedPlan]) -> None:
        def work(_: Job) -> tuple[SavedPlan, Sidecars | None]:
            saved = read()
            return saved, read_sidecars(saved.base)[0] if saved.base else None

        self._window.jobs.start(title, work, self._take, self._refuse, quiet=True)

    def _take(self, read: tuple[SavedPlan, Sidecars | None]) -> None:
        saved, base = read
        self._window.notices.dismiss("plan")
        self._window.session.take_plan(saved.policy, saved.target, base)
        if saved.adapter:
            self._window.session.merge(saved.adapter)
        plan = self._window.docks["plan"]
        plan.show()
        plan.raise_()

    def _refuse(self, error: BaseException) -> None:
        if isinstance(error, CheckpointError):
            self._window.notices.show_notice("plan", "error", f"{error.message} {error.fix or ''}".strip())
        else:
            self._window.tell.trouble(error)


def is_plan(path: str) -> bool:
    """Return True if a file looks like a saved plan: a small JSON object with a schema, a policy and a target."""
    if not path.lower().endswith(".json"):
        return False
    try:
        with open(path, "rb") as file:
            head = file.read(MOST_LOOKED_AT)
    except OSError:
        return False
    return b'"schema"' in head and b'"policy"' in head and b'"target"' in head
