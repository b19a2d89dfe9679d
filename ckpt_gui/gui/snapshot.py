"""Everything that the window shows of one checkpoint, as one frozen value that follows from what was decided."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ckpt_gui import dataclasses
from ckpt_gui.core.after import diff_after
from ckpt_gui.core.against import Against
from ckpt_gui.core.diff import Diff
from ckpt_gui.core.diffing import diff_expected
from ckpt_gui.core.export import Export, Target
from ckpt_gui.core.formats import open_checkpoint
from ckpt_gui.core.garbage import made_to_last
from ckpt_gui.core.listing import list_index, list_tensors
from ckpt_gui.core.merging import merge_adapter
from ckpt_gui.core.normalise import normalise, unasked, understand
from ckpt_gui.core.plan import Evidence, Plan, Step
from ckpt_gui.core.policy import Policy
from ckpt_gui.core.retarget import retarget, with_base
from ckpt_gui.core.source import Source
from ckpt_gui.core.tree import CheckpointIndex
from ckpt_gui.core.tree_places import tree_places
from ckpt_gui.dataclasses import dataclass
from ckpt_gui.gui.decisions import Decisions
from ckpt_gui.gui.jobs import Job
from ckpt_gui.gui.models.beside_rows import beside_rows
from ckpt_gui.gui.models.card import CheckpointCard, checkpoint_card
from ckpt_gui.gui.models.overview import Overview, whole
from ckpt_gui.gui.models.plan_rows import all_steps
from ckpt_gui.gui.models.tree_columns import FAMILIES_FROM

LISTED_FROM = 20_000  # tensors that are shown before they are understood: that takes longer than a second
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
        beside: The checkpoint beside a reference, which the tree shows then; None for its own layout.
        preview: What would be written as a tree, while the user looks at that; None while it is the file.
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
    beside: Against | None = None
    preview: CheckpointIndex | None = None

    @property
    def unconfirmed(self) -> tuple[Step, ...]:
        """The steps of the export that nothing proves, and that the user has not agreed to."""
        agreed = self.decisions.confirmed
        return tuple(s for s in self.export.steps if not s.certain and (s.title, s.evidence) not in agreed)

    @property
    def shown(self) -> CheckpointIndex:
        """What the key tree shows."""
        return self.index if self.preview is None else self.preview


@dataclass(frozen=True, slots=True)
class Opening:
    """How a checkpoint is to be opened.

    Attributes:
        config: A config file of the user's; empty for the one beside the weights.
        layout: Where an export of a known family goes; empty for `hf`.
        salvage: Whether only what is whole of a damaged file is wanted.
        take: Of several models in a folder, a file of the one that is wanted; empty for all of it.
    """

    config: str = ""
    layout: str = ""
    salvage: bool = False
    take: str = ""


@made_to_last()
def open_snapshot(path: str | Path, how: Opening, job: Job) -> Snapshot:
    """Open a checkpoint and compare its tied pair; for a job. The source is closed again if anything goes wrong.

    Of very many tensors, what the index of their shards tells is handed over first, and then what the headers tell.
    """

    def indexed(places: Mapping[str, str]) -> None:
        if len(places) >= LISTED_FROM:
            job.hand(CheckpointIndex(list_index(places).rows))

    source = open_checkpoint(
        path,
        config=how.config or None,
        salvage=how.salvage,
        take=how.take or None,
        progress=job.progress,
        cancelled=job.cancelled,
        indexed=indexed,
    )
    try:
        if len(source.refs) >= LISTED_FROM:
            job.hand(CheckpointIndex(list_tensors(source).rows))
        plan = understand(source, budget=unasked(source, None, BUDGET), progress=job.progress, cancelled=job.cancelled)
        target = Target(layout=(how.layout or "hf") if plan.family else "same")
        decisions = Decisions(target=target, config=how.config, salvage=how.salvage, take=how.take)
        return make_snapshot(source, decisions, plan.evidence, plan=plan)
    except BaseException:
        source.close()
        raise


@made_to_last()
def make_snapshot(
    source: Source,
    decisions: Decisions,
    evidence: Evidence,
    beside: Against | None = None,
    plan: Plan | None = None,
    *,
    preview: bool = False,
) -> Snapshot:
    """Return what follows from a source, decisions and evidence. Reads no file.

    Args:
        source: The opened checkpoint.
        decisions: What the user has decided.
        evidence: What is known of its values.
        beside: The checkpoint beside a reference, for the tree.
        plan: The plan that follows, where it is known: that of a large model takes seconds.
        preview: Whether the tree shows what would be written.

    Raises:
        CheckpointError: A decision can not be followed: an adapter that does not fit, a name that is not known.
    """
    plan = plan or _plan(source, decisions, evidence)
    export = retarget(plan, decisions.target)
    diff = diff_expected(export)
    shown = beside_rows(diff, beside) if beside is not None else diff
    index = CheckpointIndex(shown.rows, tree_places(export, shown.rows))
    if len(shown.rows) >= FAMILIES_FROM:
        index.families()  # in the job that this is for so many, and shown first
    steps = all_steps(export, _unskipped(source, decisions, evidence))
    made = Snapshot(
        source, decisions, plan, export, diff, index, checkpoint_card(export, beside), whole(index), steps, beside
    )
    return with_preview(made, preview)


@made_to_last()
def with_preview(snapshot: Snapshot, wanted: bool) -> Snapshot:
    """Return a snapshot whose tree shows what would be written; or the file, as it is."""
    index = CheckpointIndex(diff_after(snapshot.export, snapshot.diff).rows) if wanted else None
    return dataclasses.replace(snapshot, preview=index)


def _plan(source: Source, decisions: Decisions, evidence: Evidence) -> Plan:
    plan = normalise(source, decisions.policy, evidence)
    if decisions.adapter is None:
        return plan
    wanted = Policy(lora_alpha=decisions.policy.lora_alpha)
    return merge_adapter(with_base(plan, decisions.target.base), normalise(decisions.adapter.source, wanted))


def _unskipped(source: Source, decisions: Decisions, evidence: Evidence) -> Export | None:
    """Return the export with every step taken; None where that is the export itself."""
    if not decisions.policy.skip:
        return None
    every = dataclasses.replace(decisions, policy=dataclasses.replace(decisions.policy, skip=frozenset()))
    return retarget(_plan(source, every, evidence), decisions.target)
