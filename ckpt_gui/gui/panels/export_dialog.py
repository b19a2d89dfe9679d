"""The export dialog: choose, write, and see what was written.

It shows the session's snapshot and changes the session's decisions, so the tree and the plan behind it follow. Looking
at the folder, reading a base folder, writing and saving the report are jobs.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QDialog, QFileDialog, QHBoxLayout, QStackedWidget, QVBoxLayout, QWidget

from ckpt_gui.core.errors import Cancelled
from ckpt_gui.gui.decisions import Decisions
from ckpt_gui.gui.fix_command import default_folder, fix_command
from ckpt_gui.gui.language import said
from ckpt_gui.gui.panels.export_base import BaseFolder
from ckpt_gui.gui.panels.export_check import Check, refusal, summary
from ckpt_gui.gui.panels.export_form import ExportForm
from ckpt_gui.gui.panels.export_progress import ProgressPage
from ckpt_gui.gui.panels.export_result import ResultPage
from ckpt_gui.gui.panels.export_run import ExportRun, FolderLook
from ckpt_gui.gui.panels.export_summary import ExportSummary
from ckpt_gui.gui.panels.parts import ElidedLabel, button, label
from ckpt_gui.gui.session import Session
from ckpt_gui.gui.snapshot import Snapshot
from ckpt_gui.gui.theme import Theme
from ckpt_gui.gui.widgets.units import GRID, em, plain_label, quoted, tip_text


class ExportDialog(QDialog):
    """Writes the export of a session.

    Signals:
        open_result(folder): The user wants to open what was written.
        starting(folder): It is about to be written: should it be killed, something is left beside it.
    """

    open_result = Signal(str)
    starting = Signal(str)

    def __init__(self, session: Session, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._session, self._theme = session, theme
        self._snapshot: Snapshot | None = session.snapshot
        self._check: Check | None = None
        self._written_as: Decisions | None = None
        self.base = BaseFolder(session, self)
        self.look, self.run = FolderLook(session.jobs, self), ExportRun(session.jobs, self)
        self._own_folder = False  # True once the user has named a folder
        self.setWindowTitle(self.tr("Fix and export"))
        self.pages = QStackedWidget(self)
        self._first = QWidget(self.pages)  # above what is in it from the start: Qt styles again all that gets a parent
        self.form, self.brief = ExportForm(theme, self._first), ExportSummary(theme, self._first)
        self.summary = plain_label(muted=True)
        self.summary.setAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)
        self.copy_button = button(self.tr("Copy command"), tip=self.tr("Copy the command that does the same"))
        self.close_button = button(self.tr("Close"))
        self.export_button = button(self.tr("Export"), kind="primary")
        self._lay_out()
        self._connect()
        self._show(self._snapshot)

    # -------------------------------------------------------------------------------------------------------- making

    def _lay_out(self) -> None:
        head = QVBoxLayout()
        head.setContentsMargins(2 * GRID, 2 * GRID, 2 * GRID, 0)
        head.setSpacing(2)
        head.addWidget(label(self.tr("Fix and export"), size=1.4, bold=True))
        self.path_label = ElidedLabel()
        self.path_label.setProperty("tone", "muted")
        head.addWidget(self.path_label)
        foot = QHBoxLayout()
        foot.setContentsMargins(2 * GRID, GRID, 2 * GRID, 2 * GRID)
        foot.setSpacing(GRID)
        foot.addWidget(self.summary, 1)
        for widget in (self.copy_button, self.close_button, self.export_button):
            foot.addWidget(widget)
        column = QVBoxLayout(self._first)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addWidget(self.form, 1)
        column.addWidget(self.brief, 1)
        self.brief.hide()
        column.addLayout(foot)
        self.pages.addWidget(self._first)
        box = QVBoxLayout(self)
        box.setContentsMargins(0, 0, 0, 0)
        box.setSpacing(0)
        box.addLayout(head)
        box.addWidget(self.pages, 1)
        self.export_button.setDefault(True)
        room = self.screen().availableSize() * 0.9
        self.resize(min(em(self, 44), room.width()), min(em(self, 46), room.height()))

    @cached_property
    def progress_page(self) -> ProgressPage:
        """The page that says how far it is."""
        page = ProgressPage(self.pages)
        page.cancel_requested.connect(self.cancel)
        page.hide_requested.connect(self.hide)
        self.run.progressed.connect(page.show_progress)
        self.pages.addWidget(page)
        return page

    @cached_property
    def result_page(self) -> ResultPage:
        """The page that says what was written."""
        page = ResultPage(self._session.jobs, self._theme, self.pages)
        page.open_requested.connect(self._open)
        page.close_requested.connect(self.accept)
        self.pages.addWidget(page)
        return page

    def _connect(self) -> None:
        form = self.form
        form.choices.target_wanted.connect(self._on_target)
        form.choices.policy_wanted.connect(self._on_policy)
        form.place.folder_changed.connect(self._on_folder)
        form.place.browse_requested.connect(self._browse)
        form.place.overwrite_changed.connect(self._enable)
        form.confirm.confirmed.connect(self._session.confirm)
        form.carried.base_requested.connect(self.base.choose)
        form.carried.base_dropped.connect(self.base.drop)
        self.base.failed.connect(self._base_failed)
        self.brief.change_requested.connect(self.show_form)
        self.look.due.connect(self._look)
        self.look.looked.connect(self._looked)
        self.run.done.connect(self._done)
        self.run.failed.connect(self._failed)
        self.export_button.clicked.connect(self.start)
        self.close_button.clicked.connect(self.reject)
        self.copy_button.clicked.connect(self._copy)
        self._session.changed.connect(self._show)
        self._session.closed.connect(self._on_closed)
        self._theme.changed.connect(self._on_theme)

    # ---------------------------------------------------------------------------------------------------- decisions

    @property
    def folder(self) -> str:
        """The folder to write."""
        return self.form.place.folder_edit.text().strip()

    def set_folder(self, folder: str) -> None:
        """Name another folder."""
        self.form.place.folder_edit.setText(folder)
        self._on_folder(folder)

    def _on_target(self, changes: dict[str, Any]) -> None:
        self._session.change_target(**changes)

    def _on_policy(self, changes: dict[str, Any]) -> None:
        self._session.change_policy(**changes)

    def _on_folder(self, _text: str) -> None:
        self._own_folder = True
        self._look_soon()

    def _browse(self) -> None:
        title = self.tr("Folder to write")
        folder = QFileDialog.getSaveFileName(self, title, self.folder, options=QFileDialog.Option.ShowDirsOnly)[0]
        if folder:
            self.set_folder(folder)

    def _base_failed(self, error: BaseException) -> None:
        self.form.say_error(error, self._session.jobs.command())

    # ------------------------------------------------------------------------------------------------------- showing

    def _on_theme(self) -> None:
        if not self.run.running:
            self._show(self._snapshot)

    def _on_closed(self) -> None:
        self._show(None)

    def _show(self, snapshot: Snapshot | None) -> None:
        self._snapshot = snapshot
        if snapshot is None:
            self._enable()
            return
        self.path_label.set_text(snapshot.source.path)
        self.form.show_snapshot(snapshot)
        self.brief.show_snapshot(snapshot)
        if not self._own_folder:
            self.form.place.folder_edit.setText(default_folder(snapshot.source.path, snapshot.decisions.target.layout))
        self._look_soon()

    def _look_soon(self) -> None:
        self._check = None
        self.form.place.show_check(None)
        self._enable()
        self.look.soon()

    def _look(self) -> None:
        if self._snapshot is not None:
            self.look.look(self._snapshot.export, self.folder)

    def _looked(self, check: Check) -> None:
        self._check = check
        self.form.place.show_check(check)
        self._enable()

    def _enable(self) -> None:
        snapshot = self._snapshot
        reason = self._refusal()
        self.export_button.setEnabled(not reason)
        self.export_button.setToolTip(tip_text(quoted(reason)))
        self.copy_button.setEnabled(snapshot is not None)
        if snapshot is not None:
            self.summary.setText("" if self.brief.isVisibleTo(self) else said(summary(snapshot, self._check)))
            self.brief.show_place(snapshot, self.folder, self._check)

    def _refusal(self) -> str:
        return refusal(self._snapshot, self._check, overwrite=self.form.place.overwrite_box.isChecked())

    def show_summary(self) -> None:
        """Show what is done in short; Enter does it."""
        self._show_brief(True)
        self.export_button.setFocus(Qt.FocusReason.OtherFocusReason)

    def show_form(self) -> None:
        """Show everything that can be chosen."""
        self._show_brief(False)

    def _show_brief(self, wanted: bool) -> None:
        self.brief.setVisible(wanted)
        self.form.setVisible(not wanted)
        self.export_button.setText(self.tr("Fix and export") if wanted else self.tr("Export"))
        self._enable()

    # ------------------------------------------------------------------------------------------------------- writing

    def start(self) -> None:
        """Write the export."""
        snapshot, folder = self._snapshot, self.folder
        if snapshot is None or self.run.running or self._refusal():
            return
        box = self.form.place.overwrite_box
        overwrite = box.isVisibleTo(self) and box.isChecked()
        command = fix_command(snapshot, folder) + (" --overwrite" if overwrite else "")
        self.starting.emit(folder)
        self._written_as = snapshot.decisions
        self.progress_page.start()
        self.pages.setCurrentWidget(self.progress_page)
        self.repaint()  # now: beside threads that write it takes twice as long
        self.run.start(snapshot, folder, overwrite=overwrite, command=command)

    def cancel(self) -> None:
        """Stop writing; what was written is removed."""
        self.run.cancel()
        self.progress_page.stopping()

    def leave(self) -> None:
        """Close without stopping what is being written: another checkpoint is opened meanwhile."""
        self.run.leave()
        self.close()

    def reject(self) -> None:
        """Stop writing first, if need be; the next time close the dialog."""
        if self.run.running:
            self.cancel()
        else:
            super().reject()

    def _done(self) -> None:
        if self._session.decisions == self._written_as:
            self._session.undo_stack.setClean()
        if self.run.written is not None:
            self.pages.setCurrentWidget(self.result_page)
            self.result_page.show_written(self.run.written)

    def _failed(self, error: BaseException) -> None:
        self.pages.setCurrentWidget(self._first)
        self.show_form()
        if isinstance(error, Cancelled):
            self.form.say("grey", "○", self.tr("Stopped"), self.tr("Nothing was kept at the target."))
        else:
            command, kept = self._session.jobs.command(), self.tr("Nothing was kept at the target.")
            self.form.say_error(error, command, kept)
        self._look_soon()

    def _open(self, folder: str) -> None:
        self.accept()
        self.open_result.emit(folder)

    def _copy(self) -> None:
        if self._snapshot is not None:
            QGuiApplication.clipboard().setText(fix_command(self._snapshot, self.folder))
