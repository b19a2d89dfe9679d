"""What a window tells in its notices, and what can be done about each: troubles, changed files, bad ends."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QUrl
from PySide6.QtGui import QDesktopServices, QGuiApplication

from ckpt_gui.core.text import plural
from ckpt_gui.gui.error_report import error_report, error_sentence, is_expected, without_home
from ckpt_gui.gui.language import said
from ckpt_gui.gui.models.file_changes import Change, change_words
from ckpt_gui.gui.panels.notices import Choice
from ckpt_gui.gui.window_helper import WindowHelper

if TYPE_CHECKING:
    from ckpt_gui.core.export import Export


class WindowNotices(WindowHelper):
    """The notices of one window."""

    def trouble(self, error: BaseException) -> None:
        """Tell of an error that has no other place."""
        window, choices = self._window, []
        text = error_sentence(error)
        if not is_expected(error):
            report = error_report(error, window.jobs.command())
            text = self.tr("{} What is open is still there.").format(text)
            choices = [Choice(self.tr("Copy report"), partial(_copy, report), stays=True)]
        window.notices.show_notice("trouble", "error", text, choices)

    def files_changed(self, changes: tuple[Change, ...]) -> None:
        """Tell that files of the open checkpoint are not what they were."""
        reload = Choice(self.tr("Read again"), self._window.commands.reload, self.tr("Open the same path anew (F5)"))
        self._window.notices.show_notice("changed", "warning", change_words(changes), [reload])

    def listed(self, tensors: int) -> None:
        """Tell that tensors are listed, and that what they are is still being worked out."""
        text = self.tr("{} are listed. How they compare with what is expected is still being worked out.")
        stop = Choice(self.tr("Cancel"), self._window.session.cancel_opening, self.tr("Stop opening"), stays=True)
        self._window.notices.show_notice("listed", "info", text.format(said(plural(tensors, "tensor"))), [stop])

    def not_at_once(self, export: Export) -> None:
        """Tell why a checkpoint is not fixed and written at once."""
        if export.blocked:
            reason = said(export.blocked[0].message)
        else:
            doubtful = next(step.title for step in export.steps if not step.certain)
            reason = self.tr("{step}: this is likely, not certain.").format(step=said(doubtful))
        text = self.tr("Not written at once: {reason} What can be done is in the plan.").format(reason=reason)
        show = Choice(self.tr("Show it in the plan"), self._window.commands.show_doubt, stays=True)
        self._window.notices.show_notice("doubt", "warning", text, [show])

    def not_dropped(self) -> None:
        """Tell that something was dropped that is no file."""
        text = self.tr("That is no file of this computer. Drop the file or the folder of a checkpoint here.")
        self._window.notices.show_notice("drop", "info", text)

    def bad_end(self, logs: Sequence[Path]) -> None:
        """Tell that the last session ended badly; once, as its log is known from now on."""
        if not logs:
            return
        log = logs[0]
        text = self.tr("The last session ended badly. Its log is {}.").format(without_home(str(log)))
        url = QUrl.fromLocalFile(str(log))
        choices = [
            Choice(self.tr("Copy log"), partial(_copy_file, log), stays=True),
            Choice(self.tr("Open log"), partial(QDesktopServices.openUrl, url), stays=True),
        ]
        self._window.notices.show_notice("bad-end", "warning", text, choices)


def _copy(text: str) -> None:
    QGuiApplication.clipboard().setText(text)


def _copy_file(path: Path) -> None:
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        text = f"{path}: {error.strerror or error}"
    _copy(text)
