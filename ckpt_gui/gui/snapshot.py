"""Everything that the window shows of one checkpoint, as one frozen value that follows from what was decided."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ckpt_gui.core.diff import Diff, diff_expected
from ckpt_gui.core.formats import open_checkpoint
from ckpt_gui.core.normalise import normalise, probe
from ckpt_gui.core.plan import Evidence, Plan, Step
from ckpt_gui.core.retarget import Export, Target, retarget
from ckpt_gui.core.tensors import Source
from ckpt_gui.core.tree import CheckpointIndex, tree_places
from ckpt_gui.gui.decisions import Decisions
from ckpt_gui.gui.jobs import Job
from ckpt_gui.gui.models.card import CheckpointCard, checkpoint_card
from ckpt_gui.gui.models.overview import Overview, whole
from ckpt_gui.gui.models.plan_rows import all_steps

BUDGET = 8 << 30  # bytes of a pair that are compared on opening without being asked


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


def open_snapshot(path: str | Path, config: str | Path | None, job: Job) -> Snapshot:
    """Open a checkpoint and compare its tied pair; for a job. The source is closed again if anything goes wrong."""
    source = open_checkpoint(path, config=config, progress=job.progress, cancelled=job.cancelled)
    try:
        plan = normalise(source)
        evidence = probe(plan, budget=BUDGET, progress=job.progress, cancelled=job.cancelled)
        decisions = Decisions(target=Target(layout="hf" if plan.family else "same"))
        return make_snapshot(source, decisions, evidence)
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
