"""Long work off the GUI thread: a job runs in a pool, reports progress, and can be cancelled.

No job outlives its window. Signals of a job are delivered on the GUI thread; those of a cancelled or replaced job are
not delivered at all, so that a late result can not reach a widget that has moved on. Progress is passed on at most 20
times a second.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from PySide6.QtCore import QCoreApplication, QObject, QRunnable, Qt, QThreadPool, Signal

from ckpt_gui.core.errors import Cancelled

PROGRESS_INTERVAL = 0.05
Work = Callable[["Job"], Any]
Receive = Callable[[Any], None]


class _Carrier(QObject):
    """Carries a job's messages to the GUI thread."""

    progressed = Signal(object, str, object, object)  # job, label, done, total: `object`, as bytes exceed 32 bits
    ended = Signal(object, object, object)  # job, result, error


class Job(QRunnable):
    """One piece of work.

    Attributes:
        title: What it does, for the jobs list and the status bar.
        number: Counts up; a later job has a higher one.
        quiet: True if nobody minds when it is stopped: the window closes without asking, and the status bar is silent.
    """

    _numbers = itertools.count(1)

    def __init__(self, title: str, work: Work, carrier: _Carrier, *, quiet: bool = False) -> None:
        super().__init__()
        self.setAutoDelete(False)
        self.title = title
        self.quiet = quiet
        self.number = next(Job._numbers)
        self._work, self._carrier = work, carrier
        self._cancel = threading.Event()
        self._last = 0.0

    def run(self) -> None:
        """Do the work on a pool thread; every exception becomes a message."""
        result: Any = None
        error: BaseException | None = None
        try:
            result = self._work(self)
        except Exception as caught:  # noqa: BLE001 - shown to the user at the job's place, with its trace
            error = caught
            error.__notes__ = [f"while: {self.title}"]
        self._carrier.ended.emit(self, result, error)

    def cancel(self) -> None:
        """Ask the work to stop."""
        self._cancel.set()

    def cancelled(self) -> bool:
        """Return True once the work shall stop; handed to the core as its `cancelled`."""
        return self._cancel.is_set()

    def progress(self, label: str, done: int, total: int) -> None:
        """Report progress; handed to the core as its `progress`."""
        now = time.monotonic()
        if now - self._last >= PROGRESS_INTERVAL or done >= total:
            self._last = now
            self._carrier.progressed.emit(self, label, done, total)


class JobManager(QObject):
    """Starts jobs and delivers what they say.

    Attributes:
        command: Returns the command that repeats what the user is doing, for reports of errors.

    Signals:
        started(job), progressed(job, label, done, total), finished(job): for the status bar and the jobs list.
    """

    started = Signal(object)
    progressed = Signal(object, str, object, object)
    finished = Signal(object)

    def __init__(self, parent: QObject | None = None, threads: int = 2) -> None:
        super().__init__(parent)
        self._pool = QThreadPool()
        self._pool.setMaxThreadCount(threads)
        self._carrier = _Carrier()
        self._carrier.progressed.connect(self._on_progress, Qt.ConnectionType.QueuedConnection)
        self._carrier.ended.connect(self._on_end, Qt.ConnectionType.QueuedConnection)
        self._live: dict[Job, _Ears] = {}
        self.command: Callable[[], str] = str

    def start(
        self,
        title: str,
        work: Work,
        done: Receive,
        failed: Callable[[BaseException], None],
        *,
        discard: Receive | None = None,
        quiet: bool = False,
    ) -> Job:
        """Run `work(job)` on a pool thread; then call `done(result)` or `failed(error)` on the GUI thread.

        A cancelled job calls `failed` with `Cancelled`, unless it was cancelled silently. A result that comes all the
        same goes to `discard`, which lets go of what it holds, such as open files.
        """
        job = Job(title, work, self._carrier, quiet=quiet)
        self._live[job] = _Ears(done, failed, discard or _ignore)
        self.started.emit(job)
        self._pool.start(job)
        return job

    def cancel(self, job: Job | None, *, silently: bool = False) -> None:
        """Ask a job to stop; silently: whatever it still says is thrown away."""
        if job is None or job not in self._live:
            return
        job.cancel()
        if silently:
            self._live[job] = _Ears(_ignore, _ignore, self._live[job].discard)

    def running(self) -> list[Job]:
        """Return the jobs that have not ended."""
        return list(self._live)

    def shutdown(self) -> None:
        """Cancel everything, wait until the threads are done, and let go of results that came too late."""
        for job in self.running():
            self.cancel(job, silently=True)
        self._pool.waitForDone()
        QCoreApplication.sendPostedEvents(self)  # the last messages of the threads; no other events

    def _on_progress(self, job: Job, label: str, done: int, total: int) -> None:
        if job in self._live and not job.cancelled():
            self.progressed.emit(job, label, done, total)

    def _on_end(self, job: Job, result: Any, error: BaseException | None) -> None:
        ears = self._live.pop(job, _Ears(_ignore, _ignore, _ignore))
        try:
            if error is None and not job.cancelled():
                ears.done(result)
            elif error is None:
                ears.discard(result)
                ears.failed(Cancelled())
            else:
                ears.failed(error)
        finally:
            self.finished.emit(job)


@dataclass(frozen=True, slots=True)
class _Ears:
    """Who hears of a job's end."""

    done: Receive
    failed: Callable[[BaseException], None]
    discard: Receive


def _ignore(_: Any) -> None:
    """Do nothing with what a silenced job says."""
