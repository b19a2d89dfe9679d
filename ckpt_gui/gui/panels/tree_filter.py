"""Looks for the tensors that pass the filter of the key tree: at once, or in a job where there are many."""

from __future__ import annotations

from collections.abc import Collection

from PySide6.QtCore import QObject, QTimer, Signal

from ckpt_gui.core.diff import STATES
from ckpt_gui.core.filtering import FilterError, read_query
from ckpt_gui.core.tree import CheckpointIndex, Hits
from ckpt_gui.gui.jobs import Job, JobManager

DEBOUNCE_MS = 200
MANY = 20_000  # rows above which the filter runs in a job


class FilterRun(QObject):
    """One search at a time: a new one takes the place of the one before.

    Attributes:
        keys: Only these tensors may pass; None for all.

    Signals:
        found(index, query, hits): What passes.
        refused(index, error): The text can not be read.
        failed(error): It could not be looked for.
        due(): The text has stood still for a while.
    """

    found = Signal(object, object, object)
    refused = Signal(object, object)
    failed = Signal(object)
    due = Signal()

    def __init__(self, jobs: JobManager, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._jobs = jobs
        self._job: Job | None = None
        self.keys: frozenset[str] | None = None
        self._pause = QTimer(self, singleShot=True, interval=DEBOUNCE_MS)
        self._pause.timeout.connect(self.due)

    @property
    def running(self) -> bool:
        """True while the hits are still being looked for."""
        return self._job is not None

    def show_only(self, keys: Collection[str] | None) -> None:
        """Let only these tensors pass from the next run on; None for all."""
        self.keys = frozenset(keys) if keys is not None else None

    def wait(self) -> None:
        """Become due once nothing is typed any more."""
        self._pause.start()

    def run(self, index: CheckpointIndex, text: str) -> None:
        """Look for what passes a filter text."""
        self.stop()
        try:
            wanted, keys = read_query(text, STATES), self.keys
        except FilterError as error:
            self.refused.emit(index, error)
            return
        if len(index.rows) <= MANY or not (wanted or keys):
            self.found.emit(index, wanted, index.select(wanted, keys))
            return

        def done(hits: Hits) -> None:
            self._job = None
            self.found.emit(index, wanted, hits)

        def failed(error: BaseException) -> None:
            self._job = None
            self.failed.emit(error)

        self._job = self._jobs.start(
            self.tr("Filtering"), lambda _: index.select(wanted, keys), done, failed, quiet=True
        )

    def stop(self) -> None:
        """Look for nothing any more."""
        self._pause.stop()
        self._jobs.cancel(self._job, silently=True)
        self._job = None
