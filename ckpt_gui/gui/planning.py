"""Works out snapshots: at once, or in a job where there are many tensors."""

from __future__ import annotations

from collections.abc import Callable

from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.gui.jobs import Job, JobManager
from ckpt_gui.gui.snapshot import Snapshot

MANY = 2_000  # tensors above which it is done in a job: 50 ms


class Planning:
    """One snapshot at a time: a new one takes the place of the one before.

    Args:
        jobs: Where it is worked out.
        done: Receives the snapshot.
        refused: Receives why there is none.
    """

    def __init__(
        self, jobs: JobManager, done: Callable[[Snapshot], None], refused: Callable[[BaseException], None]
    ) -> None:
        self._jobs, self._done, self._refused = jobs, done, refused
        self._job: Job | None = None

    def start(self, make: Callable[[], Snapshot], tensors: int) -> bool:
        """Work out a snapshot of so many tensors; return False if it is refused at once."""
        self.stop()
        if tensors > MANY:
            self._job = self._jobs.start("Working out the plan", lambda _: make(), self._end, self._refused, quiet=True)
            return True
        try:
            snapshot = make()
        except CheckpointError as error:
            self._refused(error)
            return False
        self._done(snapshot)
        return True

    def stop(self) -> None:
        """Work out nothing any more."""
        self._jobs.cancel(self._job, silently=True)
        self._job = None

    def _end(self, snapshot: Snapshot) -> None:
        self._job = None
        self._done(snapshot)
