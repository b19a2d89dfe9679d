"""What the open checkpoint is compared with: a checkpoint, a config or a known model, worked out in a job."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QObject, Signal

from ckpt_gui.core.against import Against, against
from ckpt_gui.core.keys import safe_text
from ckpt_gui.gui.decisions import Decisions
from ckpt_gui.gui.jobs import Job, JobManager
from ckpt_gui.gui.snapshot import BUDGET, Snapshot


class Reference(QObject):
    """One comparison at a time.

    Attributes:
        name: The reference, as the command line takes it; empty for the checkpoint's own layout.

    Signals:
        ended(error): The comparison is there; or not, and why.
    """

    ended = Signal(object)

    def __init__(self, jobs: JobManager, parent: QObject) -> None:
        super().__init__(parent)
        self._jobs = jobs
        self._job: Job | None = None
        self._found: tuple[Against, Decisions] | None = None
        self.name = ""

    @property
    def running(self) -> bool:
        """True while a comparison is being worked out."""
        return self._job is not None

    def compare(self, snapshot: Snapshot, name: str) -> None:
        """Compare what a snapshot shows with a reference."""
        self.forget()
        self.name = name

        def work(job: Job) -> Against:
            return against(snapshot.plan, name, budget=BUDGET, progress=job.progress, cancelled=job.cancelled)

        def done(beside: Against) -> None:
            self._job, self._found = None, (beside, snapshot.decisions)
            self.ended.emit(None)

        def failed(error: BaseException) -> None:
            self._job, self.name = None, ""
            self.ended.emit(error)

        title = self.tr("Comparing with {}").format(safe_text(Path(name).name, 60))
        self._job = self._jobs.start(title, work, done, failed)

    def forget(self) -> None:
        """Compare with nothing any more."""
        self._jobs.cancel(self._job, silently=True)
        self._job, self._found, self.name = None, None, ""

    def beside(self, decisions: Decisions) -> Against | None:
        """Return the comparison, if decisions leave the checkpoint understood as it was compared."""
        if self._found is None:
            return None
        beside, then = self._found
        return beside if (then.policy, then.adapter) == (decisions.policy, decisions.adapter) else None
