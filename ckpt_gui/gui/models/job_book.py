"""What is known of the jobs of a window: those that run or wait, and those that ended lately, as frozen values.

Widgets show it; the log is the same told as lines. A job that ended well and that nobody would miss is forgotten.
"""

from __future__ import annotations

import time
from collections import deque

from PySide6.QtCore import QObject, Signal

from ckpt_gui import dataclasses
from ckpt_gui.core.errors import Cancelled
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.pace import Pace
from ckpt_gui.dataclasses import dataclass
from ckpt_gui.gui.error_report import error_report, error_sentence, is_expected
from ckpt_gui.gui.jobs import End, Job, JobManager

KEPT = 50  # jobs that ended
LINES = 2_000
RUNNING = ("waiting", "running", "stopping")


@dataclass(frozen=True, slots=True)
class JobRecord:
    """A job as the list shows it.

    Attributes:
        number: Counts up; a later job has a higher one.
        title: What it does.
        state: `waiting`, `running`, `stopping`, `done`, `failed` or `stopped`.
        quiet: True if nobody would miss it.
        label: What it is doing now.
        done: Bytes done of `total`.
        total: Bytes in all; 0 while nobody knows.
        seconds_left: How long the rest takes at the pace of late; None while nobody can tell.
        sentence: What came of it, or why nothing did.
        folder: What it wrote.
        report: A report of what went wrong, where the sentence does not tell it in full; may be empty.
    """

    number: int
    title: str
    state: str = "waiting"
    quiet: bool = False
    label: str = ""
    done: int = 0
    total: int = 0
    seconds_left: float | None = None
    sentence: str = ""
    folder: str = ""
    report: str = ""

    @property
    def running(self) -> bool:
        """True while it has not ended."""
        return self.state in RUNNING


class JobBook(QObject):
    """Follows the jobs of a window.

    Attributes:
        records: The jobs by number, the oldest first.
        lines: The log.

    Signals:
        changed(number): A job came, changed or ended.
        dropped(number): A job is not listed any more.
        count_changed(count): So many jobs run or wait now that somebody would miss.
        told(line): There is another line in the log.
    """

    changed = Signal(int)
    dropped = Signal(int)
    count_changed = Signal(int)
    told = Signal(str)

    def __init__(self, jobs: JobManager, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._manager = jobs
        self._live: dict[int, tuple[Job, Pace]] = {}
        self._count = 0
        self.records: dict[int, JobRecord] = {}
        self.lines: deque[str] = deque(maxlen=LINES)
        jobs.started.connect(self._on_started)
        jobs.begun.connect(self._on_begun)
        jobs.progressed.connect(self._on_progress)
        jobs.ended.connect(self._on_ended)
        jobs.finished.connect(self._on_finished)

    def stop(self, number: int) -> None:
        """Stop a job."""
        if number in self._live:
            self._manager.cancel(self._live[number][0])
            if number in self.records and self.records[number].running:
                self._put(number, state="stopping")

    def forget_ended(self) -> None:
        """List the jobs no more that have ended."""
        self._drop([record.number for record in self.records.values() if not record.running])

    def _put(self, number: int, **changes: object) -> None:
        self.records[number] = dataclasses.replace(self.records[number], **changes)  # type: ignore[arg-type]
        self.changed.emit(number)

    def _drop(self, numbers: list[int]) -> None:
        for number in numbers:
            del self.records[number]
            self.dropped.emit(number)

    def _count_running(self) -> None:
        count = sum(record.running and not record.quiet for record in self.records.values())
        if count != self._count:
            self._count = count
            self.count_changed.emit(count)

    def _tell(self, text: str) -> None:
        line = f"{time.strftime('%H:%M:%S')}  {safe_text(text, 2000)}"
        self.lines.append(line)
        self.told.emit(line)

    def _on_started(self, job: Job) -> None:
        self._live[job.number] = job, Pace()
        self.records[job.number] = JobRecord(job.number, job.title, quiet=job.quiet)
        self.changed.emit(job.number)
        self._count_running()

    def _on_begun(self, job: Job) -> None:
        self._put(job.number, state="stopping" if job.cancelled() else "running")
        if not job.quiet:
            self._tell(job.title)

    def _on_progress(self, job: Job, label: str, done: int, total: int) -> None:
        pace = self._live[job.number][1]
        pace.note(time.monotonic(), done, total)
        self._put(job.number, label=label, done=done, total=total, seconds_left=pace.seconds_left())

    def _on_ended(self, job: Job, end: End) -> None:
        del self._live[job.number]
        error = end.error
        if error is None:
            self._put(job.number, state="done", sentence=end.sentence, folder=end.folder)
        elif isinstance(error, Cancelled):
            self._put(job.number, state="stopped", sentence=error_sentence(error))
        else:
            report = "" if is_expected(error) else error_report(error, self._manager.command())
            self._put(job.number, state="failed", sentence=error_sentence(error), report=report)

    def _on_finished(self, job: Job) -> None:
        record = self.records[job.number]
        if record.quiet and record.state != "failed":
            self._drop([record.number])
        else:
            self._tell(": ".join(filter(None, (record.title, record.sentence))))
            ended = [each.number for each in self.records.values() if not each.running]
            self._drop(ended[: max(0, len(ended) - KEPT)])
        self._count_running()
