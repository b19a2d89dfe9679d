"""Long work off the GUI thread: a job runs in a pool, reports progress, and can be cancelled.

No job outlives its window. Signals of a job are delivered on the GUI thread; those of a cancelled or replaced job are
not delivered at all, so that a late result can not reach a widget that has moved on. Progress is passed on at most 20
times a second. Exports have threads of their own: opening a checkpoint never waits for one.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from typing import Any

from PySide6.QtCore import QCoreApplication, QObject, QRunnable, Qt, QThreadPool, QTimer, Signal

from ckpt_gui import dataclasses
from ckpt_gui.core.cores import WORKERS, every_core
from ckpt_gui.core.errors import Cancelled
from ckpt_gui.core.remote.watch import watching
from ckpt_gui.dataclasses import dataclass

PROGRESS_INTERVAL = 0.05
SETTLED_MS = 40  # after something is shown: it is painted, then laid out anew by what was found out, and painted again
PATIENCE = 0.5  # seconds that work waits for what it has handed over to be shown
Work = Callable[["Job"], Any]
Receive = Callable[[Any], None]


class _Carrier(QObject):
    """Carries a job's messages to the GUI thread."""

    begun = Signal(object)
    progressed = Signal(object, str, object, object)  # job, label, done, total: `object`, as bytes exceed 32 bits
    handed = Signal(object, object)  # job, value
    ended = Signal(object, object, object)  # job, result, error


class Job(QRunnable):
    """One piece of work.

    Attributes:
        title: What it does, for the jobs list and the status bar.
        number: Counts up; a later job has a higher one.
        quiet: True if nobody minds when it is stopped: the window closes without asking, and the status bar is silent.
        uses: What must stay open while it works, such as the source of an export.
        begun: True once a thread works on it; before, it waits for one.
        label: What it is doing, as far as it has said.
        done: Bytes done of `total`; `total` is 0 as long as it has not said.
        total: Bytes in all.
        workers: Threads that it may use for reading and calculating; handed to the core.
    """

    _numbers = itertools.count(1)

    def __init__(
        self,
        title: str,
        work: Work,
        carrier: _Carrier,
        *,
        quiet: bool = False,
        uses: tuple[object, ...] = (),
        workers: int = WORKERS,
    ) -> None:
        super().__init__()
        self.setAutoDelete(False)
        self.title = title
        self.quiet = quiet
        self.uses = uses
        self.workers = workers
        self.number = next(Job._numbers)
        self.begun = False
        self.label, self.done, self.total = "", 0, 0
        self._work, self._carrier = work, carrier
        self._cancel = threading.Event()
        self._seen = threading.Event()
        self._last = 0.0

    def run(self) -> None:
        """Do the work on a pool thread; every exception becomes a message."""
        result: Any = None
        error: BaseException | None = None
        self._carrier.begun.emit(self)
        try:
            with watching(None, self.cancelled):  # so that a server that does not answer is not waited for
                result = self._work(self)
        except Exception as caught:  # noqa: BLE001 - shown to the user at the job's place, with its trace
            error = caught
            error.__notes__ = [f"while: {self.title}"]
        self._carrier.ended.emit(self, result, error)

    @property
    def percent(self) -> int | None:
        """How far it is; None as long as nobody can tell."""
        return min(100, self.done * 100 // self.total) if self.total > 0 else None

    def cancel(self) -> None:
        """Ask the work to stop, and not to wait for what it has handed over."""
        self._cancel.set()
        self._seen.set()

    def cancelled(self) -> bool:
        """Return True once the work shall stop; handed to the core as its `cancelled`."""
        return self._cancel.is_set()

    def hand(self, value: Any) -> None:
        """Hand over what is done already, and go on with the rest once it is shown, or after a while.

        Painting calls Python a thousand times, and each time waits for the lock as long as another thread works.
        """
        self._seen.clear()
        self._carrier.handed.emit(self, value)
        self._seen.wait(PATIENCE)

    def go_on(self) -> None:
        """Let the work go on that has handed something over."""
        self._seen.set()

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
        workers: Threads that a job may use for reading and calculating.
        is_open: False once everything was shut down.

    Signals:
        started(job): It is there, and waits for a thread.
        begun(job): A thread works on it.
        progressed(job, label, done, total): It is so far.
        ended(job, end): How it ended; see `End`.
        finished(job): It is not there any more.
    """

    started = Signal(object)
    begun = Signal(object)
    progressed = Signal(object, str, object, object)
    ended = Signal(object, object)
    finished = Signal(object)

    def __init__(self, parent: QObject | None = None, threads: int = 2) -> None:
        super().__init__(parent)
        self._pools = {export: QThreadPool() for export in (False, True)}
        for pool in self._pools.values():
            pool.setMaxThreadCount(threads)
        self._unused: list[tuple[object, Callable[[], object]]] = []
        self._carrier = _Carrier()
        self._carrier.begun.connect(self._on_begun, Qt.ConnectionType.QueuedConnection)
        self._carrier.progressed.connect(self._on_progress, Qt.ConnectionType.QueuedConnection)
        self._carrier.handed.connect(self._on_part, Qt.ConnectionType.QueuedConnection)
        self._carrier.ended.connect(self._on_end, Qt.ConnectionType.QueuedConnection)
        self._live: dict[Job, _Ears] = {}
        self.command: Callable[[], str] = str
        self.workers = WORKERS
        self.is_open = True

    def start(
        self,
        title: str,
        work: Work,
        done: Receive,
        failed: Callable[[BaseException], None],
        *,
        part: Receive | None = None,
        discard: Receive | None = None,
        quiet: bool = False,
        export: bool = False,
        uses: tuple[object, ...] = (),
        says: Callable[[Any], End] | None = None,
    ) -> Job:
        """Run `work(job)` on a pool thread; then call `done(result)` or `failed(error)` on the GUI thread.

        What the work hands over before its end goes to `part`. A cancelled job calls `failed` with `Cancelled`, unless
        it was cancelled silently. A result that comes all the same goes to `discard`, which lets go of what it holds,
        such as open files.

        Args:
            title: What the job does.
            work: The work.
            done: Takes its result.
            failed: Takes its error.
            part: Takes what is done before the end.
            discard: Takes a result that nobody wants any more.
            quiet: True if nobody minds when it is stopped.
            export: True if it writes: such jobs have threads of their own.
            uses: What must stay open while it works; see `once_unused`.
            says: Puts a result into words for the list of jobs.
        """
        job = Job(title, work, self._carrier, quiet=quiet, uses=uses, workers=self.workers)
        self._live[job] = _Ears(done, failed, discard or _ignore, says or _plain_end, part or _ignore)
        self.started.emit(job)
        self._pools[export].start(job)
        return job

    def use_all_cores(self, wanted: bool) -> None:
        """Let jobs that start from now on use every core, or only as many as leave the machine quick."""
        self.workers = every_core() if wanted else WORKERS

    def leave(self, job: Job | None) -> None:
        """Let a job go on although who started it no longer listens; the list of jobs tells how it ends."""
        if job is not None and job in self._live:
            self._live[job] = dataclasses.replace(self._live[job], done=_ignore, failed=_ignore)

    def once_unused(self, thing: object, act: Callable[[], object]) -> None:
        """Act as soon as no job uses a thing: at once, or when the last one that does has ended."""
        self._unused.append((thing, act))
        self._act_on_unused()

    def cancel(self, job: Job | None, *, silently: bool = False) -> None:
        """Ask a job to stop; silently: whatever it still says is thrown away."""
        if job is None or job not in self._live:
            return
        job.cancel()
        if any(pool.tryTake(job) for pool in self._pools.values()):  # it waited for a thread
            self._carrier.ended.emit(job, None, Cancelled())
        if silently:
            self._live[job] = dataclasses.replace(self._live[job], done=_ignore, failed=_ignore)

    def running(self) -> list[Job]:
        """Return the jobs that have not ended."""
        return list(self._live)

    def shutdown(self) -> None:
        """Cancel everything, wait until the threads are done, and let go of results that came too late."""
        self.is_open = False
        for job in self.running():
            self.cancel(job, silently=True)
        for pool in self._pools.values():
            pool.waitForDone()
        QCoreApplication.sendPostedEvents(self)  # the last messages of the threads; no other events

    def _on_begun(self, job: Job) -> None:
        if job in self._live:
            job.begun = True
            self.begun.emit(job)

    def _on_progress(self, job: Job, label: str, done: int, total: int) -> None:
        if job in self._live and not job.cancelled():
            job.label, job.done, job.total = label, done, total
            self.progressed.emit(job, label, done, total)

    def _on_part(self, job: Job, value: Any) -> None:
        if job in self._live and not job.cancelled():
            self._live[job].part(value)
        QTimer.singleShot(SETTLED_MS, job.go_on)  # what is due is laid out and painted before a timer is looked at

    def _on_end(self, job: Job, result: Any, error: BaseException | None) -> None:
        ears = self._live.pop(job, _Ears(_ignore, _ignore, _ignore, _plain_end))
        if error is None and job.cancelled():
            error = Cancelled()
            ears.discard(result)
        try:
            self.ended.emit(job, ears.says(result) if error is None else End(error=error))
            ears.done(result) if error is None else ears.failed(error)
        finally:
            self._act_on_unused()
            self.finished.emit(job)

    def _act_on_unused(self) -> None:
        used = {id(thing) for job in self._live for thing in job.uses}
        free = [each for each in self._unused if id(each[0]) not in used]
        self._unused = [each for each in self._unused if id(each[0]) in used]
        for _, act in free:
            act()


@dataclass(frozen=True, slots=True)
class End:
    """How a job ended.

    Attributes:
        sentence: What came of it; empty if that needs no words.
        folder: What it wrote, to be opened; empty if nothing.
        error: Why there is no result; `Cancelled` if it was stopped.
    """

    sentence: str = ""
    folder: str = ""
    error: BaseException | None = None


@dataclass(frozen=True, slots=True)
class _Ears:
    """Who hears of a job's end, and how the list of jobs puts it."""

    done: Receive
    failed: Callable[[BaseException], None]
    discard: Receive
    says: Callable[[Any], End]
    part: Receive = lambda _: None


def _ignore(_: Any) -> None:
    """Do nothing with what a silenced job says."""


def _plain_end(_: Any) -> End:
    """Return the end of a job whose result shows elsewhere."""
    return End()
