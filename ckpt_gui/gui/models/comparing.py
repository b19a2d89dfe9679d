"""What is open beside another checkpoint: opening that, comparing names and values, the rank of a change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ckpt_gui.core.compare import (
    Change,
    Comparison,
    RankEstimate,
    Row,
    Side,
    State,
    by_layer,
    by_role,
    compare,
    is_checkpoint,
    side_of_name,
    side_of_plan,
    with_ranks,
)
from ckpt_gui.core.formats import open_checkpoint
from ckpt_gui.core.garbage import made_to_last
from ckpt_gui.core.normalise import understand
from ckpt_gui.core.plan import Plan
from ckpt_gui.core.source import Source
from ckpt_gui.dataclasses import dataclass
from ckpt_gui.gui.jobs import Job
from ckpt_gui.gui.models.compare_rows import Line, lines


@dataclass(frozen=True, slots=True)
class Compared:
    """A comparison, what is shown of it, and what has to be kept open for more of it.

    Whatever takes a look at every row is worked out with it, in the job: there may be 100,000.

    Attributes:
        name: What was typed for B.
        plan: A.
        other: B.
        source: B's open files; None where a config or a name stands for it.
        result: The comparison.
        lines: Its rows, folded.
        counts: How many rows have each state.
        verdict: What it says, in one sentence.
        layers: How each layer has changed, where values were compared.
        roles: How each kind of tensor has changed.
    """

    name: str
    plan: Plan
    other: Side
    source: Source | None
    result: Comparison
    lines: tuple[Line, ...]
    counts: Mapping[State, int]
    verdict: str
    layers: Sequence[Change] = ()
    roles: Sequence[Change] = ()

    def close(self) -> None:
        """Close B's files."""
        if self.source is not None:
            self.source.close()


@made_to_last()
def compare_with(plan: Plan, name: str, known: Compared | None, *, values: bool, job: Job) -> Compared:
    """Compare what is open with another checkpoint, config or published model.

    Args:
        plan: What is open: A.
        name: Path of B, or the name of a published model.
        known: An earlier comparison, whose open files are used again if it was with the same B.
        values: True to compare values, too.
        job: Asked whether to stop, and told how far it is.

    Raises:
        CheckpointError: B can not be read, or there is no such thing.
        Cancelled: The job was stopped while B was opened; stopped later, it returns what was compared by then.
    """
    if known is not None and known.name == name:
        other, source = known.other, known.source
    else:
        other, source = _open(name, plan, values=values, job=job)
    try:
        a = side_of_plan(plan)
        result = compare(a, other, values=values, workers=job.workers, progress=job.progress, cancelled=job.cancelled)
        changes = (by_layer(result.rows), by_role(result.rows)) if values else ((), ())
        return Compared(name, plan, other, source, result, lines(result.rows), result.counts, verdict(result), *changes)
    except BaseException:
        if source is not None and (known is None or source is not known.source):
            source.close()
        raise


def _open(name: str, plan: Plan, *, values: bool, job: Job) -> tuple[Side, Source | None]:
    if not is_checkpoint(name):
        return side_of_name(name, plan.family), None
    source = open_checkpoint(name, progress=job.progress, cancelled=job.cancelled)
    try:
        budget = None if values else 0
        other = understand(source, budget=budget, progress=job.progress, cancelled=job.cancelled)
        return side_of_plan(other, name), source
    except BaseException:
        source.close()
        raise


def change_rank(compared: Compared, row: Row, job: Job) -> RankEstimate:
    """Return how many directions the change of a matrix has.

    Raises:
        CheckpointError: It is no change of a matrix, or can not be read.
        Cancelled: The job was stopped.
    """
    return with_ranks(compared.result, [row], progress=job.progress, cancelled=job.cancelled).ranks[-1]


def rank_text(found: RankEstimate) -> str:
    """Return an estimate in a sentence."""
    at_least = "at least " if found.at_least else ""
    size = f"{found.shape[0]} × {found.shape[1]}"
    return (
        f"The change of {found.key} ({size}) has rank {at_least}{found.rank}, "
        f"which holds {100 * found.energy:.4g} % of it. {found.method[:1].upper()}{found.method[1:]}."
    )


def verdict(result: Comparison) -> str:
    """Return what a comparison says in one sentence."""
    total, same = len(result.rows), result.same
    different = sum(1 for row in result.rows if not row.is_same and row.state != "unread")
    if result.stopped:
        return f"Stopped: {different:,} differences in what was compared until then, of {total:,} tensors."
    if same:
        return f"All {total:,} tensors are the same" + (
            "." if result.values else " in names, shapes and types; values were not compared."
        )
    if same is None:
        unread = result.counts["unread"]
        return f"No difference in {total - unread:,} tensors; {unread:,} were not compared."
    values = "" if result.values else " in names, shapes or types; values were not compared"
    return f"{different:,} of {total:,} tensors differ{values}."
