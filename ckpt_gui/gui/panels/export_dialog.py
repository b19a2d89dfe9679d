"""The export dialog: choose, write, and see what was written.

It shows the session's snapshot and changes the session's decisions, so the tree and the plan behind it follow. Looking
at the folder, reading a base folder, writing and saving the report are jobs.
"""

from __future__ import annotations

from typing import Any

from PySide6.QtCore import Qt, QTimer, QUrl, Signal
from PySide6.QtGui import QDesktopServices, QGuiApplication
from PySide6.QtWidgets import QDialog, QFileDialog, QHBoxLayout, QStackedWidget, QVBoxLayout, QWidget

from ckpt_gui.core.errors import Cancelled
from ckpt_gui.core.formats.sidecars import read_sidecars
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.retarget import Export
from ckpt_gui.core.text import human_bytes, plural
from ckpt_gui.core.writer import WriteResult
from ckpt_gui.gui.fix_command import default_folder, fix_command
from ckpt_gui.gui.jobs import Job
from ckpt_gui.gui.panels.export_check import Check, check_folder, run_export, save_report
from ckpt_gui.gui.panels.export_form import ExportForm
from ckpt_gui.gui.panels.export_pages import ProgressPage, ResultPage
from ckpt_gui.gui.panels.parts import ElidedLabel, button, label
from ckpt_gui.gui.session import Session, Snapshot
from ckpt_gui.gui.theme import Theme
from ckpt_gui.gui.widgets.units import GRID, em, plain_label, quoted

PAUSE = 200  # milliseconds without a key before the folder is looked at


class ExportDialog(QDialog):
    """Writes the export of a session.

    Signals:
        open_result(folder): The user wants to open what was written.
    """

    open_result = Signal(str)

    def __init__(self, session: Session, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._session, self._theme = session, theme
        self._snapshot: Snapshot | None = session.snapshot
        self._check: Check | None = None
        self._check_job: Job | None = None
        self._write_job: Job | None = None
        self._written: tuple[Export, WriteResult, str] | None = None
        self._own_folder = False  # True once the user has named a folder
        self.setWindowTitle(self.tr("Fix and export"))
        self.form, self.progress_page, self.result_page = ExportForm(theme), ProgressPage(), ResultPage(theme)
        self.summary = plain_label(muted=True)
        self.summary.setAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)
        self.copy_button = button(self.tr("Copy command"), tip=self.tr("Copy the command that does the same"))
        self.close_button = button(self.tr("Close"))
        self.export_button = button(self.tr("Export"), kind="primary")
        self._pause = QTimer(self)
        self._pause.setSingleShot(True)
        self._pause.setInterval(PAUSE)
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
        page = QWidget()
        column = QVBoxLayout(page)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addWidget(self.form, 1)
        column.addLayout(foot)
        self.pages = QStackedWidget()
        for each in (page, self.progress_page, self.result_page):
            self.pages.addWidget(each)
        box = QVBoxLayout(self)
        box.setContentsMargins(0, 0, 0, 0)
        box.setSpacing(0)
        box.addLayout(head)
        box.addWidget(self.pages, 1)
        room = self.screen().availableSize() * 0.9
        self.resize(min(em(self, 44), room.width()), min(em(self, 46), room.height()))

    def _connect(self) -> None:
        form, result = self.form, self.result_page
        form.target_wanted.connect(self._on_target)
        form.policy_wanted.connect(self._on_policy)
        form.folder_changed.connect(self._on_folder)
        form.browse_requested.connect(self._browse)
        form.base_requested.connect(self._choose_base)
        form.base_dropped.connect(self._drop_base)
        form.overwrite_changed.connect(self._enable)
        self._pause.timeout.connect(self._look)
        self.export_button.clicked.connect(self.start)
        self.close_button.clicked.connect(self.reject)
        self.copy_button.clicked.connect(self._copy)
        self.progress_page.cancel_requested.connect(self.cancel)
        result.open_requested.connect(self._open)
        result.show_requested.connect(self._show_in_folder)
        result.copy_requested.connect(self._copy)
        result.save_requested.connect(self._save)
        result.close_requested.connect(self.accept)
        self._session.changed.connect(self._show)
        self._session.closed.connect(self._on_closed)
        self._session.jobs.progressed.connect(self._on_progress)
        self._theme.changed.connect(self._on_theme)

    # ---------------------------------------------------------------------------------------------------- decisions

    @property
    def folder(self) -> str:
        """The folder to write."""
        return self.form.folder_edit.text().strip()

    @property
    def running(self) -> bool:
        """True while an export is being written."""
        return self._write_job is not None

    def set_folder(self, folder: str) -> None:
        """Name another folder."""
        self.form.folder_edit.setText(folder)
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

    def _choose_base(self) -> None:
        folder = QFileDialog.getExistingDirectory(self, self.tr("Folder with config and tokenizer"))
        if folder:
            self.take_base(folder)

    def take_base(self, folder: str) -> None:
        """Carry the files of another folder."""
        title = self.tr("Reading {folder}").format(folder=safe_text(folder, 60))
        self._session.jobs.start(title, lambda _job: read_sidecars(folder)[0], self._base_read, self._failed)

    def _base_read(self, base: object) -> None:
        self._session.change_target(base=base)

    def _drop_base(self) -> None:
        self._session.change_target(base=None)

    # ------------------------------------------------------------------------------------------------------- showing

    def _on_theme(self) -> None:
        if not self.running:
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
        if not self._own_folder:
            self.form.folder_edit.setText(default_folder(snapshot.source.path, snapshot.decisions.target.layout))
        self._look_soon()

    def _look_soon(self) -> None:
        self._check = None
        self.form.show_check(None)
        self._enable()
        self._pause.start()

    def _look(self) -> None:
        snapshot = self._snapshot
        if snapshot is None:
            return
        self._session.jobs.cancel(self._check_job, silently=True)
        export, folder = snapshot.export, self.folder
        title = self.tr("Looking at the folder")
        self._check_job = self._session.jobs.start(
            title, lambda _job: check_folder(export, folder), self._looked, self._look_failed, quiet=True
        )

    def _looked(self, check: Check) -> None:
        self._check_job = None
        self._check = check
        self.form.show_check(check)
        self._enable()

    def _look_failed(self, error: BaseException) -> None:
        self._looked(Check(self.folder, problem=str(error)))

    def _enable(self) -> None:
        snapshot, check = self._snapshot, self._check
        blocked = snapshot.export.blocked if snapshot else ()
        reason = self._reason(snapshot, check)
        self.export_button.setEnabled(not reason)
        self.export_button.setToolTip(reason)
        self.copy_button.setEnabled(snapshot is not None)
        if blocked:
            number = len(blocked)
            self.summary.setText(
                self.tr("One finding blocks the export: see above.")
                if number == 1
                else self.tr("{n} findings block the export: see above.").format(n=number)
            )
        elif snapshot is not None:
            self.summary.setText(self._sizes(snapshot, check))

    def _reason(self, snapshot: Snapshot | None, check: Check | None) -> str:
        """Return why the export can not start; empty if it can."""
        if snapshot is None:
            return self.tr("No checkpoint is open.")
        if snapshot.export.blocked:
            return safe_text(snapshot.export.blocked[0].message, 300)
        if check is None:
            return self.tr("The folder is being looked at.")
        if check.problem:
            return safe_text(check.problem, 300)
        if check.existing and not self.form.overwrite_box.isChecked():
            return self.tr("The folder is not empty.")
        return ""

    def _sizes(self, snapshot: Snapshot, check: Check | None) -> str:
        parts = [plural(len(snapshot.export.entries), "tensor")]
        if check is not None and check.files:
            parts.append(
                self.tr("{size} in {files}").format(size=human_bytes(check.nbytes), files=plural(check.files, "file"))
            )
        else:
            parts.append(human_bytes(snapshot.export.nbytes))
        if check is not None and check.free is not None:
            parts.append(self.tr("{free} free").format(free=human_bytes(check.free)))
        return " · ".join(parts)

    # ------------------------------------------------------------------------------------------------------- writing

    def start(self) -> None:
        """Write the export."""
        snapshot, folder = self._snapshot, self.folder
        if snapshot is None or self.running or self._reason(snapshot, self._check):
            return
        overwrite = self.form.overwrite_box.isVisibleTo(self) and self.form.overwrite_box.isChecked()
        command = fix_command(snapshot, folder) + (" --overwrite" if overwrite else "")

        def work(job: Job) -> tuple[Export, WriteResult, str]:
            export, result = run_export(
                snapshot, folder, overwrite=overwrite, progress=job.progress, cancelled=job.cancelled
            )
            return export, result, command

        self.progress_page.start()
        self.pages.setCurrentIndex(1)
        title = self.tr("Exporting to {folder}").format(folder=safe_text(folder, 60))
        self._write_job = self._session.jobs.start(title, work, self._done, self._failed)

    def cancel(self) -> None:
        """Stop writing; what was written is removed."""
        self._session.jobs.cancel(self._write_job)
        self.progress_page.stopping()

    def reject(self) -> None:
        """Stop writing first, if need be; the next time close the dialog."""
        if self.running:
            self.cancel()
        else:
            super().reject()

    def _on_progress(self, job: Job, text: str, done: int, total: int) -> None:
        if job is self._write_job:
            self.progress_page.show_progress(text, done, total)

    def _done(self, written: tuple[Export, WriteResult, str]) -> None:
        self._write_job = None
        self._written = written
        self.result_page.show_result(written[0], written[1])
        self.pages.setCurrentIndex(2)
        self.result_page.open_button.setFocus()

    def _failed(self, error: BaseException) -> None:
        self._write_job = None
        self.pages.setCurrentIndex(0)
        if isinstance(error, Cancelled):
            self.form.say("grey", "○", self.tr("Stopped"), self.tr("Nothing was kept at the target."))
        else:
            fix = getattr(error, "fix", None) or ""
            self.form.say("red", "✗", quoted(str(error)), quoted(fix))
        self._look_soon()

    # -------------------------------------------------------------------------------------------------------- result

    def _open(self) -> None:
        if self._written is not None:
            self.accept()
            self.open_result.emit(self._written[1].folder)

    def _show_in_folder(self) -> None:
        if self._written is not None:
            QDesktopServices.openUrl(QUrl.fromLocalFile(self._written[1].folder))

    def _copy(self) -> None:
        if self._written is not None:
            text = self._written[2]
        elif self._snapshot is not None:
            text = fix_command(self._snapshot, self.folder)
        else:
            return
        QGuiApplication.clipboard().setText(text)
        self.result_page.message.setText(self.tr("The command is on the clipboard."))

    def _save(self) -> None:
        kinds = self.tr("Web page (*.html);;Markdown (*.md);;JSON (*.json)")
        path = QFileDialog.getSaveFileName(self, self.tr("Save report"), "export-report.html", kinds)[0]
        if path:
            self.save_report(path)

    def save_report(self, path: str) -> None:
        """Write the report of what was written."""
        if self._written is None:
            return
        export, result, _ = self._written
        self._session.jobs.start(
            self.tr("Saving the report"),
            lambda _job: save_report(path, export, result),
            lambda _: self.result_page.message.setText(self.tr("Saved: {path}").format(path=safe_text(path, 300))),
            lambda error: self.result_page.message.setText(safe_text(str(error), 300)),
        )
