"""The work behind the batch window: looks at each checkpoint, and writes those that are certain, each as a job.

A row is a frozen value; whatever happens to it makes a new one. Nothing here knows a widget.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from PySide6.QtCore import QObject, Signal

from ckpt_gui import dataclasses
from ckpt_gui.core.batch import Verdict, judge, load_plan, write_certain
from ckpt_gui.core.batch_names import distinct, short_names, target_folders
from ckpt_gui.core.errors import Cancelled
from ckpt_gui.core.export import Target
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.policy import Policy
from ckpt_gui.core.text import plural
from ckpt_gui.core.writer import WriteResult
from ckpt_gui.gui.error_report import error_sentence
from ckpt_gui.gui.jobs import Job, JobManager
from ckpt_gui.gui.panels.batch_rows import BUSY, UNREAD, BatchRow
from ckpt_gui.gui.wording import human_bytes

BUDGET = 8 << 30  # bytes of a tied pair that are compared to tell what a checkpoint needs


class BatchQueue(QObject):
    """A queue of checkpoints with one target.

    Attributes:
        jobs: Where the work runs.
        target: What they shall become.
        policy: What was decided for all of them.
        plan_path: The plan file that this comes from; empty for none.
        parent_folder: Where the new folders go; empty for beside each checkpoint.

    Signals:
        changed(): There are other rows, or all of them may have changed.
        row_changed(place): One row changed.
        plan_refused(sentence): Why a plan file was not taken.
        writing(folder): A folder is about to be written: should it be killed, something is left beside it.
    """

    changed = Signal()
    row_changed = Signal(int)
    plan_refused = Signal(str)
    writing = Signal(str)

    def __init__(self, jobs: JobManager, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.jobs = jobs
        self.target = Target(layout="hf")
        self.policy = Policy()
        self.plan_path = self.parent_folder = ""
        self._rows: dict[str, BatchRow] = {}
        self._running: dict[str, Job] = {}
        jobs.begun.connect(self._on_begun)
        jobs.progressed.connect(self._on_progress)

    # ---------------------------------------------------------------------------------------------------------- rows

    @property
    def rows(self) -> tuple[BatchRow, ...]:
        """The rows, in the order in which they were added."""
        return tuple(self._rows.values())

    @property
    def busy(self) -> bool:
        """True while anything is being looked at or written, or waits for it."""
        return any(row.state in BUSY for row in self._rows.values())

    @property
    def fixable(self) -> tuple[BatchRow, ...]:
        """The rows that can be written without a question."""
        return tuple(row for row in self._rows.values() if row.fixable)

    def add(self, paths: Iterable[str]) -> None:
        """Add checkpoints, and look at them; what is there already stays as it is."""
        new = [path for path in distinct(paths) if path not in self._rows]
        self._rows |= {path: BatchRow(path, path) for path in new}
        self._name_rows()
        self.changed.emit()
        for path in new:
            self._look(path)

    def remove(self, paths: Iterable[str]) -> None:
        """Take checkpoints off the queue; what runs on them is stopped."""
        for path in paths:
            self.jobs.cancel(self._running.pop(path, None), silently=True)
            self._rows.pop(path, None)
        self._name_rows()
        self.changed.emit()

    def set_target(self, **changes: Any) -> None:
        """Change what they shall become, and look at all of them again; what was written stays as it is."""
        self.target = dataclasses.replace(self.target, **changes)
        self._look_again()

    def take_plan(self, path: str) -> None:
        """Take the decisions of a plan file for every checkpoint; empty to forget those that were taken."""
        if not path:
            self._set_plan("", (Policy(), Target(layout=self.target.layout)))
            return
        self.jobs.start(
            self.tr("Reading the plan"), lambda _job: load_plan(path), lambda found: self._set_plan(path, found),
            lambda error: self.plan_refused.emit(error_sentence(error)), quiet=True,
        )  # fmt: skip

    def _set_plan(self, path: str, decided: tuple[Policy, Target]) -> None:
        self.plan_path, (self.policy, self.target) = path, decided
        self._look_again()

    def _look_again(self) -> None:
        self._name_rows()
        self.changed.emit()
        for row in self.rows:
            if row.state not in ("written", "writing", "queued"):
                self._look(row.path)

    def set_parent(self, folder: str) -> None:
        """Name another place for the new folders; empty for beside each checkpoint."""
        self.parent_folder = folder
        self._name_rows()
        self.changed.emit()

    def _name_rows(self) -> None:
        """Give every row a name, and one that was not written yet a folder that does not exist, both its own."""
        for path, name in short_names(self._rows).items():
            self._rows[path] = dataclasses.replace(self._rows[path], name=name)
        fixed = [row for row in self.rows if row.state in ("written", "writing", "queued")]
        rest = [row for row in self.rows if row not in fixed]
        taken = {row.folder for row in fixed}
        names = target_folders([row.path for row in rest], self.target.layout, self.parent_folder, taken)
        for row in rest:
            self._rows[row.path] = dataclasses.replace(row, folder=names[row.path])

    def _put(self, path: str, **changes: Any) -> None:
        if path in self._rows:
            self._rows[path] = dataclasses.replace(self._rows[path], **changes)
            self.row_changed.emit(list(self._rows).index(path))

    # ------------------------------------------------------------------------------------------------------- looking

    def _look(self, path: str) -> None:
        self.jobs.cancel(self._running.pop(path, None), silently=True)
        self._put(path, state="waiting", verdict=None, sentence="", done=0, total=0)
        target, policy = self.target, self.policy

        def work(job: Job) -> Verdict:
            return judge(path, target, policy, budget=BUDGET, progress=job.progress, cancelled=job.cancelled)

        title = self.tr("Looking at {name}").format(name=safe_text(path, 80))
        self._running[path] = self.jobs.start(
            title, work, self._judged, lambda error: self._not_judged(path, error), quiet=True
        )

    def _judged(self, verdict: Verdict) -> None:
        self._running.pop(verdict.path, None)
        if verdict.inside:
            self._unfold(verdict.path, verdict.inside)
            return
        self._put(verdict.path, state=verdict.state, verdict=verdict, sentence=verdict.sentence, total=0)

    def _unfold(self, folder: str, inside: tuple[str, ...]) -> None:
        """Put the checkpoints that a folder holds into its place, and look at those that are new."""
        rows: dict[str, BatchRow] = {}
        for path in self._rows:
            found = inside if path == folder else (path,)
            rows |= {each: self._rows.get(each) or BatchRow(each, each) for each in found if each not in rows}
        new = [path for path in inside if path not in self._rows]
        self._rows = rows
        self._name_rows()
        self.changed.emit()
        for path in new:
            self._look(path)

    def _not_judged(self, path: str, error: BaseException) -> None:
        self._running.pop(path, None)
        state = "stopped" if isinstance(error, Cancelled) else "error"
        self._put(path, state=state, sentence=error_sentence(error), total=0)

    # ------------------------------------------------------------------------------------------------------- writing

    def fix(self, paths: Iterable[str]) -> None:
        """Write checkpoints that are certain, each into its folder, and verify it."""
        self._name_rows()
        for path in paths:
            row = self._rows.get(path)
            if row is not None and row.fixable:
                self._write(row)
        self.changed.emit()

    def _write(self, row: BatchRow) -> None:
        path, target, folder, policy = row.path, self.target, row.folder, self.policy
        self._put(path, state="queued", sentence=self.tr("Waits for those before it."), done=0, total=0)
        self.writing.emit(folder)

        def work(job: Job) -> WriteResult:
            return write_certain(
                path, target, folder, policy, workers=job.workers, progress=job.progress, cancelled=job.cancelled
            )

        title = self.tr("Exporting to {folder}").format(folder=safe_text(folder, 60))
        self._running[path] = self.jobs.start(
            title, work, lambda result: self._written(path, result), lambda error: self._not_written(path, error),
            export=True,
        )  # fmt: skip

    def _written(self, path: str, result: WriteResult) -> None:
        self._running.pop(path, None)
        words = self.tr("Written and verified: {tensors}, {size} in {files}.").format(
            tensors=plural(result.verified, "tensor"), size=human_bytes(result.nbytes),
            files=plural(len(result.files), "file"),
        )  # fmt: skip
        self._put(path, state="written", sentence=words, total=0)

    def _not_written(self, path: str, error: BaseException) -> None:
        self._running.pop(path, None)
        stopped = isinstance(error, Cancelled)
        kept = self.tr("Nothing was kept at the target.")
        sentence = f"{self.tr('Stopped.') if stopped else error_sentence(error)} {kept}"
        self._put(path, state="stopped" if stopped else "failed", sentence=sentence, total=0)

    def stop(self, paths: Iterable[str] | None = None) -> None:
        """Stop what runs and what waits: all of it, or that on some checkpoints."""
        for path in list(self._running) if paths is None else paths:
            self.jobs.cancel(self._running.get(path))

    # ------------------------------------------------------------------------------------------------------ following

    def _path_of(self, job: Job) -> str | None:
        return next((path for path, running in self._running.items() if running is job), None)

    def _on_begun(self, job: Job) -> None:
        path = self._path_of(job)
        if path is not None:
            state = "looking" if self._rows[path].state in UNREAD else "writing"
            self._put(path, state=state, sentence=self.tr("Has begun.") if state == "writing" else "")

    def _on_progress(self, job: Job, label: str, done: int, total: int) -> None:
        path = self._path_of(job)
        if path is not None:
            self._put(path, label=label, done=done, total=total)
