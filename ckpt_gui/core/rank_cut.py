"""Cut whole tensors into the slices of tensor-parallel ranks: the other direction of the pass `merge_ranks`."""

from __future__ import annotations

from collections.abc import Sequence

from ckpt_gui.core.entry import Entry
from ckpt_gui.core.errors import CheckpointError, Finding
from ckpt_gui.core.exprs import Made, make, shape_of
from ckpt_gui.core.families.rule_schema import Rule
from ckpt_gui.core.families.schema import BY_SHAPE, Layout, Slot
from ckpt_gui.core.keys import anonymous, safe_text, template
from ckpt_gui.core.ops import Shape
from ckpt_gui.core.part_ops import Concat, Take
from ckpt_gui.core.passes.merge_ranks import KV
from ckpt_gui.core.plan import Plan
from ckpt_gui.core.shape_ops import Regroup
from ckpt_gui.core.symbols import EQUAL
from ckpt_gui.core.tensors import TensorSpec

# What tells a Llama 3, whose embedding is cut along the vocabulary: its size, its rotary base, its way of scaling.
_LLAMA3_VOCAB, _LLAMA3_THETA = 128_000, 500_000.0


def cut(entry: Entry, rank: int, ranks: int, layout: Layout, plan: Plan) -> Entry:
    """Return one rank's slice of a tensor; the whole tensor where every rank holds it.

    Raises:
        CheckpointError: It can not be cut into as many equal slices.
    """
    dim = _dim(entry, layout, plan)
    if dim is None:
        return entry
    slot = _slot(entry, layout, plan)
    heads = plan.dims.get(KV, 0) if slot and KV in slot.shape[dim] else 0
    parts = heads if 0 < heads < ranks else ranks  # more ranks than heads: neighbours hold the same ones
    size = entry.output.shape[dim] if len(entry.output.shape) > dim else 0
    whole_heads = not slot or not heads or ranks % parts == 0 == heads % parts
    if not size or size % parts or not whole_heads:
        text = f"`{safe_text(entry.key)}` of the shape {entry.output.shape} can not be cut for {ranks} ranks."
        raise CheckpointError("shape-mismatch", text, fix="Choose another number with --model-parallel.", key=entry.key)
    whole = entry.expr
    if (within := layout.by_part.get(template(entry.key))) is not None:
        assert not isinstance(within, tuple), "what is cut so is read and never written"
        whole = make(Regroup(within, parts), whole)
    expr = make(Take(dim, rank * parts // ranks, (EQUAL,) * parts), whole)
    shape: Shape = (*entry.output.shape[:dim], size // parts, *entry.output.shape[dim + 1 :])
    return Entry(TensorSpec(entry.key, entry.output.dtype, shape), expr, entry.why)


def _rule(entry: Entry, layout: Layout) -> Rule | None:
    return layout.by_stored.get(template(entry.key))


def _slot(entry: Entry, layout: Layout, plan: Plan) -> Slot | None:
    rule = _rule(entry, layout)
    return plan.family.by_slot.get(anonymous(rule.hubs[0])) if rule and plan.family else None


def _dim(entry: Entry, layout: Layout, plan: Plan) -> int | None:
    dim = layout.by_rank.get(template(entry.key)) if _rule(entry, layout) else None
    return _embedding_dim(plan) if dim == BY_SHAPE else dim


def _embedding_dim(plan: Plan) -> int:
    """Return the dimension along which the embedding is cut: as the source has it, else as its release does."""
    entry = plan.entry(plan.family.role("embedding")) if plan.family else None
    if entry and isinstance(entry.expr, Made) and isinstance(entry.expr.op, Concat):
        return entry.expr.op.dim
    config = plan.config
    scaled = bool(config and config.rope_scaling and config.rope_scaling.get("rope_type") == "llama3")
    based = bool(config and config.rope_theta == _LLAMA3_THETA)
    return 0 if scaled or based or plan.dims.get("vocab", 0) >= _LLAMA3_VOCAB else 1


def refuse_ranks(
    entries: Sequence[Entry], ranks: int, layout: Layout | None, container: str, plan: Plan
) -> list[Finding]:
    """Return why a model can not be written for as many ranks; empty if it can."""
    fix = "Leave out --model-parallel, or choose --to meta."
    if layout is None or not layout.rank_dims:
        text = f"How the {layout.name if layout else 'unknown'} layout is cut for {ranks} ranks is not known."
        fix = fix if layout is None or layout.name != "meta" else "Leave out --model-parallel: one file holds it whole."
        return [Finding("partitioned-state", "error", text, fix=fix, blocking=True)]
    if container != "torch":
        text = f"A model for {ranks} ranks is written as torch files, which are all that Meta's programs read."
        return [Finding("partitioned-state", "error", text, fix="Leave out --format safetensors.", blocking=True)]
    heads = plan.dims.get("heads", ranks)
    if heads % ranks:
        text = f"{heads} heads can not be cut for {ranks} ranks."
        fix = "Choose another number with --model-parallel."
        return [Finding("shape-mismatch", "error", text, fix=fix, blocking=True)]
    try:
        for entry in entries:
            shape_of(cut(entry, 0, ranks, layout, plan).expr, plan.dims)
    except CheckpointError as error:
        return [error.as_finding().replace(blocking=True)]
    except KeyError:
        return []  # a head count is missing, and said elsewhere
    return []
