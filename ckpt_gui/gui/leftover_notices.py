"""Finds what killed exports have left behind, at the start and beside what is opened, and offers to remove it."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import QTimer

from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.leftovers import Leftover, remove
from ckpt_gui.core.target_folder import NAMED
from ckpt_gui.core.text import plural
from ckpt_gui.gui.models.leftover_list import (
    find_leftovers,
    folders_to_look_in,
    is_lost,
    leftover_words,
    put_back,
    to_resume,
)
from ckpt_gui.gui.panels.notices import Choice
from ckpt_gui.gui.window_helper import WindowHelper
from ckpt_gui.gui.wording import human_bytes

if TYPE_CHECKING:
    from ckpt_gui.core.journal import Interrupted
    from ckpt_gui.gui.main_window import MainWindow

LATER_MS = 1_000  # what is imported for it would keep the checkpoint from being painted


def _found(found: tuple[Leftover, ...]) -> tuple[tuple[Leftover, ...], Interrupted | None]:
    return found, to_resume(found)


class LeftoverNotices(WindowHelper):
    """Looks in the folders of late targets, and of the open checkpoint, off the GUI thread."""

    def __init__(self, window: MainWindow) -> None:
        super().__init__(window)
        self._opened = ""
        self._later = QTimer(self, singleShot=True, interval=LATER_MS)
        self._later.timeout.connect(lambda: self.look(self._opened))

    def look_beside(self, opened: str) -> None:
        """Look beside a checkpoint once it is shown."""
        self._opened = opened
        self._later.start()

    def stop(self) -> None:
        """Look no more beside a checkpoint that is closed."""
        self._later.stop()

    def look(self, opened: str | None = None) -> None:
        """Look beside an opened checkpoint, or beside the targets of late."""
        settings = self._window.settings
        targets, kept = [] if opened else settings.targets(), settings.kept_leftovers()
        if not opened and not targets:
            return
        self._window.jobs.start(
            self.tr("Looking for leftovers"),
            lambda _job: _found(find_leftovers(folders_to_look_in(opened, targets), kept)),
            lambda found: self.tell(*found),
            self._window.tell.trouble,
            quiet=True,
        )

    def tell(self, found: Sequence[Leftover], resumable: Interrupted | None = None) -> None:
        """Tell what was found, and offer to go on, or to remove it; what stood at a target is offered back."""
        lost = [one for one in found if is_lost(one)]
        rest = [one for one in found if one not in lost]
        if rest:
            choices = [
                Choice(self.tr("Remove"), partial(self._remove, rest), "\n".join(str(one.path) for one in rest)),
                Choice(self.tr("Keep"), partial(self._keep, rest), self.tr("Ask no more about it")),
            ]
            if resumable is not None:
                choices.insert(0, self._offer_to_resume(resumable))
            self._window.notices.show_notice("leftovers", "info", leftover_words(rest), choices)
        if lost:
            self._offer_to_put_back(lost[0])

    def _offer_to_resume(self, found: Interrupted) -> Choice:
        tip = self.tr("Export {source} to {target} again, with the same choices: {files} are whole, and kept")
        files = plural(len(found.done), "file")
        names = (safe_text(os.path.basename(path), 80) for path in (found.head.path, found.head.target))
        source, target = names
        return Choice(
            self.tr("Resume"), partial(self._resume, found), tip.format(source=source, target=target, files=files)
        )

    def _resume(self, found: Interrupted) -> None:
        """Show the export dialog with the target; another source is opened first, and then this is offered again."""
        window = self._window
        snapshot = window.session.snapshot
        if snapshot is None or snapshot.source.path != found.head.path:
            window.open_path(found.head.path)
            return
        window.commands.export()
        if window.commands.dialog is not None:
            window.commands.dialog.set_folder(found.head.target)

    def _offer_to_put_back(self, lost: Leftover) -> None:
        target = put_back(lost)
        text = self.tr("An export was killed while it replaced {name}: what stood there lies in {place}, {size}.")
        text = text.format(
            name=safe_text(target.name), place=safe_text(str(lost.path), 300), size=human_bytes(lost.nbytes)
        )
        act = Choice(self.tr("Put it back"), partial(self._put_back, lost), str(target))
        cut = len(lost.target.encode()) >= NAMED  # its name may have gone on
        self._window.notices.show_notice("lost", "warning", text, [] if cut else [act])

    def _put_back(self, lost: Leftover) -> None:
        target = put_back(lost)
        self._run(self.tr("Putting back {}").format(safe_text(target.name, 60)), lambda: os.rename(lost.path, target))

    def _remove(self, found: Sequence[Leftover]) -> None:
        def work() -> None:
            for one in found:
                remove(one)

        self._run(self.tr("Removing {}").format(plural(len(found), "leftover")), work)

    def _keep(self, found: Sequence[Leftover]) -> None:
        self._window.settings.keep_leftovers([str(one.path) for one in found])

    def _run(self, title: str, work: Callable[[], None]) -> None:
        self._window.jobs.start(title, lambda _job: work(), lambda _: None, self._window.tell.trouble)
