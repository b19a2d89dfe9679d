"""The two long jobs of the export dialog: looking at the folder, and writing the export."""

from __future__ import annotations

from PySide6.QtCore import QCoreApplication, QObject, QTimer, Signal

from ckpt_gui.core.export import Export
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.text import human_bytes, plural
from ckpt_gui.gui.jobs import End, Job, JobManager
from ckpt_gui.gui.panels.export_check import Check, Written, check_folder, run_export
from ckpt_gui.gui.snapshot import Snapshot

PAUSE = 200  # milliseconds without a key before the folder is looked at


class FolderLook(QObject):
    """Looks at the target once nobody types any more.

    Signals:
        looked(check): What was found.
        due(): It is time to look; answered with `look`.
    """

    looked = Signal(object)
    due = Signal()

    def __init__(self, jobs: JobManager, parent: QObject) -> None:
        super().__init__(parent)
        self._jobs = jobs
        self._job: Job | None = None
        self._pause = QTimer(self, singleShot=True, interval=PAUSE)
        self._pause.timeout.connect(self.due)

    def soon(self) -> None:
        """Look after a pause; what is being looked at no longer counts."""
        self._jobs.cancel(self._job, silently=True)
        self._job = None
        self._pause.start()

    def look(self, export: Export, folder: str) -> None:
        """Look at a folder that an export shall go to."""
        self._jobs.cancel(self._job, silently=True)
        self._job = self._jobs.start(
            self.tr("Looking at the folder"),
            lambda _job: check_folder(export, folder),
            self._ended,
            lambda error: self._ended(Check(folder, problem=str(error))),
            quiet=True,
        )

    def _ended(self, check: Check) -> None:
        self._job = None
        self.looked.emit(check)


def written_end(written: Written) -> End:
    """Return what the list of jobs says of an export that was written."""
    result = written.result
    words = QCoreApplication.translate("export", "Written and verified: {tensors}, {size} in {files}.").format(
        tensors=plural(result.verified, "tensor"), size=human_bytes(result.nbytes),
        files=plural(len(result.files), "file"),
    )  # fmt: skip
    return End(words, result.folder)


class ExportRun(QObject):
    """Writes one export at a time.

    Attributes:
        written: What was written last.

    Signals:
        progressed(label, done, total): Bytes done, and in all.
        done(): It is written and verified.
        failed(error): It is not; nothing was left behind.
    """

    progressed = Signal(str, object, object)
    done = Signal()
    failed = Signal(object)

    def __init__(self, jobs: JobManager, parent: QObject) -> None:
        super().__init__(parent)
        self._jobs = jobs
        self._job: Job | None = None
        self.written: Written | None = None
        jobs.progressed.connect(self._on_progress)

    @property
    def running(self) -> bool:
        """True while an export is being written."""
        return self._job is not None

    def start(self, snapshot: Snapshot, folder: str, *, overwrite: bool, command: str) -> None:
        """Write a snapshot's export into a folder."""

        def work(job: Job) -> Written:
            export, result = run_export(
                snapshot, folder, overwrite=overwrite, workers=job.workers, progress=job.progress,
                cancelled=job.cancelled,
            )  # fmt: skip
            return Written(export, result, command)

        title = self.tr("Exporting to {folder}").format(folder=safe_text(folder, 60))
        adapter = snapshot.decisions.adapter
        uses = (snapshot.source, *((adapter.source,) if adapter is not None else ()))
        self._job = self._jobs.start(
            title, work, self._on_done, self._on_failed, export=True, uses=uses, says=written_end
        )

    def leave(self) -> None:
        """Let it go on without anybody who watches: the list of jobs tells how it ends."""
        self._jobs.leave(self._job)
        self._job = None

    def cancel(self) -> None:
        """Stop writing; what was written is removed."""
        self._jobs.cancel(self._job)

    def _on_progress(self, job: Job, text: str, done: int, total: int) -> None:
        if job is self._job:
            self.progressed.emit(text, done, total)

    def _on_done(self, written: Written) -> None:
        self._job, self.written = None, written
        self.done.emit()

    def _on_failed(self, error: BaseException) -> None:
        self._job = None
        self.failed.emit(error)
