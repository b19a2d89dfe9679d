"""Shows in a window what its session says: what is being opened, its tensors, what they are, or why there are none."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ckpt_gui.core.batch import state_of
from ckpt_gui.core.errors import Cancelled
from ckpt_gui.core.remote.address import is_url
from ckpt_gui.gui.window_helper import WindowHelper

if TYPE_CHECKING:
    from ckpt_gui.core.tree import CheckpointIndex
    from ckpt_gui.gui.main_window import MainWindow
    from ckpt_gui.gui.snapshot import Snapshot


class SessionView(WindowHelper):
    """Follows the session of a window whose parts are all made."""

    def __init__(self, window: MainWindow) -> None:
        super().__init__(window)
        self._entered = False  # whether what was opened last is shown, and not only listed
        session = window.session
        session.opening.connect(self._on_opening)
        session.listed.connect(self._on_listed)
        session.changed.connect(self._on_snapshot)
        session.failed.connect(self._on_failed)
        session.closed.connect(self._on_closed)
        session.reference.ended.connect(self._on_compared)

    def _on_opening(self, path: str) -> None:
        self._forget_files()
        self._window.expect(path)

    def _on_listed(self, index: CheckpointIndex) -> None:
        """Show the tensors before what they are is known; the second time, when their shapes are, leave the rest."""
        window = self._window
        window.tell.listed(len(index.rows))
        if window.pages.currentWidget() is not window.page_tabs:
            window.page_tabs.show_page("tensors")
            window.show_page(window.page_tabs)
            window.tree_panel.view.setFocus()

    def _on_snapshot(self, snapshot: Snapshot) -> None:
        window = self._window
        path = window.session.path or snapshot.source.path
        window.show_title(path)
        window.notices.dismiss("listed")
        if snapshot.export.certain:
            window.notices.dismiss("doubt")
        if not self._entered:
            self._entered = True
            self._enter(snapshot, path)
        window.watch.watch(snapshot.source.files)
        window.actions_by_id["preview"].setChecked(snapshot.preview is not None)
        window.enable_actions()
        window.imports_ahead.begin()
        if window.dock_places.shown:
            window.settled.emit()

    def _enter(self, snapshot: Snapshot, path: str) -> None:
        """Show a checkpoint for the first time, and remember it."""
        window = self._window
        if os.path.exists(path) or is_url(path):
            window.settings.add_recent(path)
            state, _, _ = state_of(snapshot.plan, snapshot.export)
            window.settings.note_recent(path, snapshot.overview.nbytes, state)
        if os.path.exists(path):
            window.leftovers.look_beside(path)
        was_listed = window.pages.currentWidget() is window.page_tabs
        window.show_page(window.page_tabs)
        if not was_listed:
            window.tree_panel.view.setFocus()

    def _forget_files(self) -> None:
        """Let go of what belongs to the checkpoint that was open."""
        window = self._window
        self._entered = False
        window.commands.drop_dialog()
        window.leftovers.stop()
        window.watch.watch(())
        for name in ("changed", "listed", "doubt"):
            window.notices.dismiss(name)
        window.tool_bar.compare_box.show_reference("")

    def _on_compared(self, error: BaseException | None) -> None:
        """Show what is compared with, or say why it can not be."""
        window = self._window
        window.tool_bar.compare_box.show_reference(window.session.reference.name)
        if error is None or isinstance(error, Cancelled):
            window.notices.dismiss("trouble")
        else:
            window.tell.trouble(error)

    def _on_failed(self, error: BaseException) -> None:
        window = self._window
        window.notices.dismiss("listed")
        window.error_panel.show_error(window.last_path, error, window.jobs.command())
        window.show_page(window.error_panel)
        window.settled.emit()

    def _on_closed(self) -> None:
        self._forget_files()
        self._window.show_start()
