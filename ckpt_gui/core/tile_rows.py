"""Whether what an image encoder adds to tiles is that of one grid: looked at before it can be written as one.

Hugging Face has a row for each shape of an image, and training may have made them differ where Meta's programs have one
value. The bytes tell; they are evidence like those of the tied pair.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ckpt_gui.core.entry import Entry, changing
from ckpt_gui.core.errors import Cancelled, CheckpointError, Finding
from ckpt_gui.core.exprs import Made, stream_of
from ckpt_gui.core.image_ops import LOST_FIX, TilePlaces
from ckpt_gui.core.keys import anonymous, template
from ckpt_gui.core.ops import RefStream
from ckpt_gui.core.plan import Plan

IsCancelled = Callable[[], bool]


def rows_of_tiles(plan: Plan) -> tuple[tuple[Entry, TilePlaces], ...]:
    """Return the hub tensors that the file has as rows and another layout of the family as a grid, with its op."""
    layouts = plan.family.layouts if plan.family else ()
    ops = {
        anonymous(rule.hubs[0]): op
        for layout in layouts
        for rule in layout.rules
        for op in rule.ops
        if isinstance(op, TilePlaces)
    }
    found = ((e, ops.get(template(e.key))) for e in plan.entries if ops)
    return tuple((e, op) for e, op in found if op is not None and _are_rows(e, op, plan))


def _are_rows(entry: Entry, op: TilePlaces, plan: Plan) -> bool:
    """Return True if the file has rows, and of the right shape: where it has not, the check says so."""
    if isinstance(entry.expr, Made) and isinstance(entry.expr.op, TilePlaces):
        return False
    try:
        op.inverse().shape([entry.output.shape], plan.dims)
    except (CheckpointError, KeyError):
        return False
    return True


def look_at_rows(plan: Plan, budget: int | None, cancelled: IsCancelled | None) -> dict[str, str]:
    """Return what can not be a grid: full key → why, empty where it can.

    Args:
        plan: With its sizes.
        budget: Bytes that may be read at most; nothing is looked at if it is not enough.
        cancelled: Asked between tensors.

    Raises:
        Cancelled: `cancelled` said so.
        CheckpointError: A tensor can not be read.
    """
    waiting = [(e, op) for e, op in rows_of_tiles(plan) if e.ref.full_key not in plan.evidence.rows]
    facts = dict(plan.evidence.rows)
    if budget is not None and sum(2 * e.output.nbytes for e, _ in waiting) > budget:
        return facts
    for entry, op in waiting:
        if cancelled and cancelled():
            raise Cancelled
        stream = stream_of(entry.expr, plan.dims, lambda ref: RefStream(plan.source, ref))
        facts[entry.ref.full_key] = op.lost(stream, plan.dims)
    return facts


def lost_rows(entries: Sequence[Entry], facts: Mapping[str, str]) -> list[Finding]:
    """Return why tensors can not be written as grids, by what was seen of them."""
    grids = [e for e in changing(entries) if any(isinstance(op, TilePlaces) and op.to == "grid" for op in e.ops)]
    wrong = [e.ref for e in grids if facts.get(e.ref.full_key)]
    if not wrong:
        return []
    keys = tuple(ref.key for ref in wrong)
    return [Finding("unknown-layout", "error", facts[wrong[0].full_key], keys, LOST_FIX, blocking=True)]
