"""Looks every now and then whether the files of the open checkpoint are still what they were."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QObject, QTimer, Signal

from ckpt_gui.core.source import SourceFile
from ckpt_gui.gui.jobs import Job, JobManager
from ckpt_gui.gui.models.file_changes import Change, changes

INTERVAL = 2_000  # milliseconds


class FileWatch(QObject):
    """Watches some files, with a thread of its own: a network that hangs must not hold up other work.

    Signals:
        changed(changes): Files are not what they were; told once for each new state.
    """

    changed = Signal(object)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._jobs = JobManager(self, threads=1)
        self._job: Job | None = None
        self._files: Sequence[SourceFile] = ()
        self._told: tuple[Change, ...] = ()
        self._timer = QTimer(self, interval=INTERVAL)
        self._timer.timeout.connect(self.look)

    def watch(self, files: Sequence[SourceFile]) -> None:
        """Watch these files from now on, and no others."""
        if files is self._files:
            return
        self._jobs.cancel(self._job, silently=True)
        self._job = None
        self._files, self._told = files, ()
        self._timer.start() if files else self._timer.stop()

    def look(self) -> None:
        """Look now, unless that is being done."""
        if self._files and self._job is None:
            files = self._files
            self._job = self._jobs.start("Looking at the files", lambda _: changes(files), self._seen, self._failed)

    def stop(self) -> None:
        """Watch nothing, and leave no thread behind."""
        self.watch(())
        self._jobs.shutdown()

    def _seen(self, found: tuple[Change, ...]) -> None:
        self._job = None
        if found != self._told:
            self._told = found
            if found:
                self.changed.emit(found)

    def _failed(self, error: BaseException) -> None:
        self._job = None
        raise error  # a fault of the program: for the hooks
