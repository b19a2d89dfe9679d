"""What the window is about: one opened checkpoint, the user's decisions, and the snapshot that follows from them.

Widgets hold no facts. They show the session's `Snapshot` and call its methods; a change makes a new snapshot, and
`changed` tells everybody. Decisions are undoable values (a policy and a target), never edits of files.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PySide6.QtCore import QObject, Signal

from ckpt_gui.core.diff import Diff, diff_expected
from ckpt_gui.core.errors import Cancelled
from ckpt_gui.core.formats import open_checkpoint
from ckpt_gui.core.normalise import normalise, probe
from ckpt_gui.core.plan import Evidence, Plan, Policy
from ckpt_gui.core.retarget import Export, Target, retarget
from ckpt_gui.core.tensors import Source
from ckpt_gui.gui.jobs import Job, JobManager

BUDGET = 8 << 30  # bytes of a pair that are compared on opening without being asked


@dataclass(frozen=True, slots=True)
class Decisions:
    """What the user has decided: the undoable part of a session."""

    policy: Policy = dataclasses.field(default_factory=Policy)
    target: Target = dataclasses.field(default_factory=lambda: Target(layout="hf"))


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything that the window shows; a function of the source, the evidence and the decisions.

    Attributes:
        source: The opened checkpoint.
        decisions: What the user has decided.
        plan: The checkpoint understood.
        export: What would be written.
        diff: The file beside the export's layout.
    """

    source: Source
    decisions: Decisions
    plan: Plan
    export: Export
    diff: Diff


class Session(QObject):
    """One checkpoint in one window.

    Signals:
        opening(path): Headers are being read.
        changed(snapshot): There is a new snapshot.
        failed(error): The checkpoint could not be opened.
        closed(): There is none any more.
    """

    opening = Signal(str)
    changed = Signal(object)
    failed = Signal(object)
    closed = Signal()

    def __init__(self, jobs: JobManager, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.jobs = jobs
        self.snapshot: Snapshot | None = None
        self.path: str | None = None
        self._evidence = Evidence()
        self._job: Job | None = None

    def open(self, path: str | Path, *, config: str | Path | None = None) -> None:
        """Open a checkpoint in a job; an open one is closed first."""
        self.close()
        self.path = str(path)
        self.opening.emit(self.path)

        def work(job: Job) -> tuple[Snapshot, Evidence]:
            source = open_checkpoint(path, config=config, progress=job.progress, cancelled=job.cancelled)
            try:
                plan = normalise(source)
                evidence = probe(plan, budget=BUDGET, progress=job.progress, cancelled=job.cancelled)
                decisions = Decisions(target=Target(layout="hf" if plan.family else "same"))
                return make_snapshot(source, decisions, evidence), evidence
            except BaseException:
                source.close()
                raise

        self._job = self.jobs.start(f"Opening {Path(path).name}", work, self._opened, self._failed)

    def cancel_opening(self) -> None:
        """Stop opening."""
        self.jobs.cancel(self._job)

    def decide(self, *, policy: Policy | None = None, target: Target | None = None) -> None:
        """Take a decision and publish the snapshot that follows from it."""
        if self.snapshot is None:
            return
        old = self.snapshot.decisions
        decisions = Decisions(policy or old.policy, target or old.target)
        if decisions != old:
            self.publish(make_snapshot(self.snapshot.source, decisions, self._evidence))

    def change_policy(self, **changes: Any) -> None:
        """Take a decision that changes some fields of the policy."""
        if self.snapshot:
            self.decide(policy=dataclasses.replace(self.snapshot.decisions.policy, **changes))

    def change_target(self, **changes: Any) -> None:
        """Take a decision that changes some fields of the target."""
        if self.snapshot:
            self.decide(target=dataclasses.replace(self.snapshot.decisions.target, **changes))

    def publish(self, snapshot: Snapshot) -> None:
        """Show a snapshot."""
        self.snapshot = snapshot
        self.changed.emit(snapshot)

    def close(self) -> None:
        """Close the checkpoint, and stop opening one."""
        self.jobs.cancel(self._job, silently=True)
        self._job = None
        if self.snapshot:
            self.snapshot.source.close()
            self.snapshot = None
            self.closed.emit()
        self._evidence = Evidence()
        self.path = None

    def _opened(self, result: tuple[Snapshot, Evidence]) -> None:
        self._job = None
        snapshot, self._evidence = result
        self.publish(snapshot)

    def _failed(self, error: BaseException) -> None:
        self._job = None
        if isinstance(error, Cancelled):
            self.path = None
            self.closed.emit()
        else:
            self.failed.emit(error)


def make_snapshot(source: Source, decisions: Decisions, evidence: Evidence) -> Snapshot:
    """Return what follows from a source, decisions and evidence. Reads no file."""
    plan = normalise(source, decisions.policy, evidence)
    export = retarget(plan, decisions.target)
    return Snapshot(source, decisions, plan, export, diff_expected(export))
