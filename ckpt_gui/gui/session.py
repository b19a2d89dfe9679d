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
from PySide6.QtGui import QUndoCommand, QUndoStack

from ckpt_gui.core.diff import Diff, diff_expected
from ckpt_gui.core.errors import Cancelled, CheckpointError
from ckpt_gui.core.formats import open_checkpoint
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.normalise import normalise, probe
from ckpt_gui.core.plan import Evidence, Plan, Policy, Step
from ckpt_gui.core.retarget import Export, Target, retarget
from ckpt_gui.core.tensors import Source
from ckpt_gui.core.tree import CheckpointIndex, tree_places
from ckpt_gui.gui.decisions import Decisions, decision_words
from ckpt_gui.gui.jobs import Job, JobManager
from ckpt_gui.gui.models.card import CheckpointCard, checkpoint_card
from ckpt_gui.gui.models.overview import Overview, whole
from ckpt_gui.gui.models.plan_rows import all_steps

BUDGET = 8 << 30  # bytes of a pair that are compared on opening without being asked
MANY = 2_000  # tensors above which a decision is worked out in a job: 50 ms


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything that the window shows; a function of the source, the evidence and the decisions.

    Attributes:
        source: The opened checkpoint.
        decisions: What the user has decided.
        plan: The checkpoint understood.
        export: What would be written.
        diff: The file beside the export's layout.
        index: The rows of the diff as a tree.
        card: The checkpoint in words.
        overview: All of its tensors in figures.
        steps: The steps of the export, and those that were ticked off, in their order.
    """

    source: Source
    decisions: Decisions
    plan: Plan
    export: Export
    diff: Diff
    index: CheckpointIndex
    card: CheckpointCard
    overview: Overview
    steps: tuple[Step, ...]


class Session(QObject):
    """One checkpoint in one window.

    Attributes:
        jobs: Where its long work runs.
        snapshot: What is shown; None if nothing is open.
        path: What is open or being opened.
        undo_stack: The decisions taken since opening.

    Signals:
        opening(path): Headers are being read.
        changed(snapshot): There is a new snapshot.
        failed(error): The checkpoint could not be opened.
        closed(): There is none any more.
        refused(error): A decision could not be followed; the old snapshot stands.
    """

    opening = Signal(str)
    changed = Signal(object)
    failed = Signal(object)
    closed = Signal()
    refused = Signal(object)

    def __init__(self, jobs: JobManager, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.jobs = jobs
        self.snapshot: Snapshot | None = None
        self.path: str | None = None
        self.undo_stack = QUndoStack(self)
        self._evidence = Evidence()
        self._job: Job | None = None
        self._planning: Job | None = None
        self._wanted: Decisions | None = None  # taken, and not yet followed by a snapshot

    def open(self, path: str | Path, *, config: str | Path | None = None) -> None:
        """Open a checkpoint in a job; an open one is closed first."""
        old = self._let_go()
        self.path = str(path)
        self.opening.emit(self.path)  # and not `closed`: panels keep what they show until `changed` or `failed`
        _close(old)

        def work(job: Job) -> tuple[Snapshot, Evidence]:
            return _open(path, config, job)

        title = f"Opening {safe_text(Path(path).name, 60)}"
        self._job = self.jobs.start(
            title, work, self._opened, self._failed, discard=lambda result: result[0].source.close(), quiet=True
        )

    def cancel_opening(self) -> None:
        """Stop opening."""
        self.jobs.cancel(self._job)

    def decide(self, *, policy: Policy | None = None, target: Target | None = None) -> None:
        """Take a decision, which can be undone, and publish the snapshot that follows from it."""
        if self.snapshot is None:
            return
        old = self.decisions
        decisions = Decisions(policy or old.policy, target or old.target)
        if decisions != old:
            self.undo_stack.push(_Decision(self, old, decisions))

    def change_policy(self, **changes: Any) -> None:
        """Take a decision that changes some fields of the policy."""
        if self.snapshot:
            self.decide(policy=dataclasses.replace(self.decisions.policy, **changes))

    def change_target(self, **changes: Any) -> None:
        """Take a decision that changes some fields of the target."""
        if self.snapshot:
            self.decide(target=dataclasses.replace(self.decisions.target, **changes))

    def publish(self, snapshot: Snapshot) -> None:
        """Show a snapshot."""
        old, self.snapshot, self._wanted = self.snapshot, snapshot, None
        self.path = self.path or snapshot.source.path
        self._evidence = snapshot.plan.evidence
        self.changed.emit(snapshot)
        if old and old.source is not snapshot.source:
            _close(old)

    def close(self) -> None:
        """Close the checkpoint, and stop opening one."""
        was_open = self.snapshot is not None or self._job is not None
        old = self._let_go()
        if was_open:
            self.closed.emit()  # before the files are closed: whoever still reads from them stops now
        _close(old)

    @property
    def decisions(self) -> Decisions:
        """The latest decisions, followed by a snapshot or not yet."""
        return self._wanted or (self.snapshot.decisions if self.snapshot else Decisions())

    def follow(self, decisions: Decisions) -> bool:
        """Publish what follows from decisions; in a job if the checkpoint is large. Return False if it is refused."""
        if self.snapshot is None:
            return False
        self._wanted = decisions
        source, evidence = self.snapshot.source, self._evidence
        self.jobs.cancel(self._planning, silently=True)
        if len(source.refs) <= MANY:
            try:
                snapshot = make_snapshot(source, decisions, evidence)
            except CheckpointError as error:
                self._refuse(error)
                return False
            self.publish(snapshot)
            return True
        self._planning = self.jobs.start(
            "Working out the plan", lambda _: make_snapshot(source, decisions, evidence), self._planned,
            self._refuse, quiet=True,
        )  # fmt: skip
        return True

    def _let_go(self) -> Snapshot | None:
        """Forget what is open, and return it: its files are closed once the panels have heard."""
        self.jobs.cancel(self._job, silently=True)
        self.jobs.cancel(self._planning, silently=True)
        self._job = self._planning = None
        self._wanted = None
        snapshot, self.snapshot = self.snapshot, None
        self._evidence = Evidence()
        self.path = None
        self.undo_stack.clear()
        return snapshot

    def _refuse(self, error: BaseException) -> None:
        """Take the decision that could not be followed off the undo stack; what is shown stands."""
        refused, self._wanted = self._wanted, None
        stack = self.undo_stack
        last = stack.command(stack.index() - 1)
        if isinstance(last, _Decision) and last.new == refused:
            old = last.old
            last.setObsolete(True)
            stack.undo()  # deletes what is obsolete, without a call
            if old != self.decisions:  # taken before this one, and not followed yet
                self.follow(old)
        if not isinstance(error, Cancelled):
            self.refused.emit(error)

    def _planned(self, snapshot: Snapshot) -> None:
        self._planning = None
        if self.snapshot and snapshot.source is self.snapshot.source:
            self.publish(snapshot)

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


class _Decision(QUndoCommand):
    """A decision on the undo stack."""

    def __init__(self, session: Session, old: Decisions, new: Decisions) -> None:
        super().__init__(decision_words(old, new))
        self._session, self.old, self.new = session, old, new

    def redo(self) -> None:
        """Take the decision; the stack drops it if it is refused at once."""
        self.setObsolete(not self._session.follow(self.new))

    def undo(self) -> None:
        """Take it back."""
        self._session.follow(self.old)


def _close(snapshot: Snapshot | None) -> None:
    if snapshot is not None:
        snapshot.source.close()


def _open(path: str | Path, config: str | Path | None, job: Job) -> tuple[Snapshot, Evidence]:
    source = open_checkpoint(path, config=config, progress=job.progress, cancelled=job.cancelled)
    try:
        plan = normalise(source)
        evidence = probe(plan, budget=BUDGET, progress=job.progress, cancelled=job.cancelled)
        decisions = Decisions(target=Target(layout="hf" if plan.family else "same"))
        return make_snapshot(source, decisions, evidence), evidence
    except BaseException:
        source.close()
        raise


def make_snapshot(source: Source, decisions: Decisions, evidence: Evidence) -> Snapshot:
    """Return what follows from a source, decisions and evidence. Reads no file."""
    plan = normalise(source, decisions.policy, evidence)
    export = retarget(plan, decisions.target)
    diff = diff_expected(export)
    index = CheckpointIndex(diff.rows, tree_places(export, diff.rows))
    card, steps = checkpoint_card(export), all_steps(plan, export)
    return Snapshot(source, decisions, plan, export, diff, index, card, whole(index), steps)
