"""Put the slices of tensor-parallel ranks together: Meta's `consolidated.00.pth` to `consolidated.NN.pth`.

Along which dimension a tensor is cut stands in the layout's table; for the embedding, which Llama 1 and 2 cut along
hidden and Llama 3 along the vocabulary, the shapes tell. What every rank holds whole is taken once, and compared.
Where there are more ranks than key/value heads (Llama 3.1 405B for 16 ranks), neighbours hold the same heads: these
are taken once, too. Sources: Meta llama3 `model.py`, fairscale `layers.py`, llama-models `checkpoint.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ckpt_gui import dataclasses
from ckpt_gui.core.entry import Entry
from ckpt_gui.core.errors import Finding
from ckpt_gui.core.exprs import make
from ckpt_gui.core.families.schema import BY_SHAPE, Layout, Slot
from ckpt_gui.core.keys import anonymous, safe_text, template
from ckpt_gui.core.part_ops import Concat, Take
from ckpt_gui.core.passes.stored_sizes import stored_sizes
from ckpt_gui.core.plan import Dropped, Plan, Replica
from ckpt_gui.core.shape_ops import Regroup
from ckpt_gui.core.symbols import EQUAL, Symbol, size_of
from ckpt_gui.core.tensors import TensorRef, TensorSpec

KV = "kv_heads"


def merge_ranks(plan: Plan) -> Plan:
    """Make whole tensors of the slices of all ranks."""
    ranks = plan.source.ranks
    if not ranks or not plan.entries:
        return plan
    if plan.layout is not None and plan.layout.rank_dims:
        plan = _find_missing(plan, plan.layout)
    groups: dict[str, list[Entry]] = {}
    for entry in sorted(plan.entries, key=lambda e: ranks.index(e.ref.file)):
        groups.setdefault(entry.key, []).append(entry)
    count = sum(1 for name in ranks if name)
    if count == 1 or all(len(parts) == 1 for parts in groups.values()):  # each rank holds tensors of its own
        return plan
    if plan.layout is None or not plan.layout.rank_dims:
        return plan.replace(entries=(), unmapped=plan.entries, family=None, layout=None).found(_no_table(plan, count))
    return _merge(plan, plan.layout, groups, count)


def _merge(plan: Plan, layout: Layout, groups: Mapping[str, list[Entry]], count: int) -> Plan:
    repeat, shared = _repeat(plan, layout, groups, count)
    entries: list[Entry] = []
    copies: list[Replica] = []
    odd: list[Entry] = []
    sizes = stored_sizes(plan, slices=True)
    for key, parts in groups.items():
        slot = _slot(plan, layout, key)
        dim = _dim(plan, layout, key, parts, groups)
        shapes = {(p.output.dtype, p.output.shape) for p in parts}
        if len(parts) != count or len(shapes) != 1 or (dim is not None and len(parts[0].output.shape) <= dim):
            odd += parts
            continue
        each = count if dim is None else repeat if slot and KV in slot.shape[dim] else 1
        kept = parts[::each]
        copies += [
            Replica(parts[i].ref, tuple(p.ref for p in parts[i + 1 : i + each]))
            for i in range(0, count, each)
            if each > 1
        ]
        whole = kept[0] if len(kept) == 1 else _whole(kept, dim or 0, layout.by_part.get(template(key)), sizes)
        if whole is None:
            odd += parts
        else:
            entries.append(whole)
    reason = "is the same in the files of several ranks, and taken once"
    dropped = tuple(Dropped(ref, reason, "replica", ref.key) for copy in copies for ref in copy.copies)
    plan = plan.replace(
        entries=tuple(entries),
        unmapped=(*plan.unmapped, *odd),
        dropped=(*plan.dropped, *dropped),
        replicas=tuple(copies),
        shared=shared,
    )
    plan = _true_heads(plan, repeat)
    plan = plan.explained(_sentence(plan, count, repeat))
    return plan.found(_uneven(odd)) if odd else plan


def _whole(
    parts: Sequence[Entry], dim: int, within: Symbol | tuple[Symbol, ...] | None, sizes: Mapping[str, int]
) -> Entry | None:
    """Return a tensor made of the slices of all ranks.

    Args:
        parts: The slices.
        dim: Along which dimension they lie.
        within: What the rows of each slice are made of, where each of that is cut by itself (see `Layout.rank_parts`).
        sizes: Sizes by symbol.

    Returns:
        The whole tensor; None where its parts can not be told apart.
    """
    op = Concat(dim, (EQUAL,) * len(parts))
    spec = TensorSpec(parts[0].key, parts[0].output.dtype, op.shape([p.output.shape for p in parts], {}))
    exprs = [p.expr for p in parts]
    if within is None:
        expr = make(op, *exprs)
    elif isinstance(within, tuple):
        rows = _share(within, parts[0].output.shape[dim] * len(parts), sizes)
        if rows is None or any(count % len(parts) for count in rows):
            return None
        cuts = tuple(count // len(parts) for count in rows)
        expr = make(
            Concat(dim, within), *(make(op, *(make(Take(dim, i, cuts), e) for e in exprs)) for i in range(len(cuts)))
        )
    else:
        expr = make(Regroup(len(parts), within), make(op, *exprs))
    return Entry(spec, expr, f"the slices of {len(parts)} ranks")


def _share(within: tuple[Symbol, ...], total: int, sizes: Mapping[str, int]) -> list[int] | None:
    """Return how many rows each of several tensors has, which together have so many; None if that is not known."""
    try:
        rows = [size_of(symbol, sizes) for symbol in within]
    except KeyError:
        return None
    return rows if sum(rows) == total else None


def _slot(plan: Plan, layout: Layout, key: str) -> Slot | None:
    rule = layout.by_stored.get(template(key))
    return plan.family.by_slot.get(anonymous(rule.hubs[0])) if rule and plan.family else None


def _dim(plan: Plan, layout: Layout, key: str, parts: Sequence[Entry], groups: Mapping[str, list[Entry]]) -> int | None:
    """Return the dimension along which a tensor is cut; None where every rank holds it whole."""
    dim = layout.by_rank.get(template(key))
    if dim != BY_SHAPE:
        return dim
    hidden = _hidden(plan, layout, groups)
    shape = parts[0].output.shape
    return 0 if len(shape) == 2 and shape[1] == hidden else 1


def _hidden(plan: Plan, layout: Layout, groups: Mapping[str, list[Entry]]) -> int:
    """Return the hidden size: the length of a norm, which every rank holds whole."""
    for key, parts in groups.items():
        slot = _slot(plan, layout, key)
        if slot and slot.shape == ("hidden",) and template(key) not in layout.by_rank:
            return parts[0].output.numel
    return plan.config.dims.get("hidden", 0) if plan.config else 0


# ------------------------------------------------------------------------------------------------- key/value heads


def _repeat(
    plan: Plan, layout: Layout, groups: Mapping[str, list[Entry]], count: int
) -> tuple[int, tuple[tuple[TensorRef, ...], ...]]:
    """Return how many neighbouring ranks hold the same key/value heads, and the parts to be compared to know it."""
    keys = [key for key in groups if (slot := _slot(plan, layout, key)) and KV in slot.shape[0]]
    parts = [tuple(e.ref for e in groups[key]) for key in keys if len(groups[key]) == count]
    dims = plan.config.dims if plan.config else {}
    if not parts or not parts[0][0].shape:
        return 1, ()
    stored = parts[0][0].shape[0] * count
    wanted = dims.get(KV, 0) * dims.get("head_dim", 0)
    if wanted and stored > wanted and stored % wanted == 0 and count % (stored // wanted) == 0:
        return stored // wanted, ()
    if plan.evidence.repeat:
        return plan.evidence.repeat, tuple(parts)
    return 1, tuple(parts)


def _true_heads(plan: Plan, repeat: int) -> Plan:
    """Count the key/value heads once: params.json counts the copies as well."""
    config = plan.config
    stated = config.dims.get(KV, 0) if config else 0
    if config is None or repeat == 1 or not plan.shared or stated % repeat:
        return plan
    return plan.replace(config=dataclasses.replace(config, dims={**config.dims, KV: stated // repeat}))


# --------------------------------------------------------------------------------------------------------- findings


def _sentence(plan: Plan, count: int, repeat: int) -> str:
    text = f"{count} files hold the slices of {count} tensor-parallel ranks, which are put together."
    if repeat > 1:
        text += f" There are more ranks than key/value heads: {repeat} neighbours each hold the same ones."
    return text


def _find_missing(plan: Plan, layout: Layout) -> Plan:
    """Say which ranks are missing, where the config tells how long a tensor is as a whole."""
    ranks, config = plan.source.ranks, plan.config
    dims = config.dims if config else {}
    counts = [_ranks_of(plan, layout, entry, dims) for entry in plan.entries]
    wanted = max(max(counts, default=0), len(ranks))
    missing = [f"consolidated.{i:02}.pth" for i in range(wanted) if i >= len(ranks) or not ranks[i]]
    if not missing or any(f.code == "shard-missing" for f in plan.findings):
        return plan
    shown = ", ".join(missing[:4]) + (", …" if len(missing) > 4 else "")
    origin = f"{config.origin} and the shapes tell of" if config and wanted > len(ranks) else "it is one of"
    text = f"{len(missing)} of {wanted} files of tensor-parallel ranks are not here ({origin} {wanted}): {shown}."
    fix = "Open the folder that holds the files of all ranks, or download the missing ones into it."
    return plan.found(Finding("shard-missing", "error", text, fix=fix, blocking=True))


def _ranks_of(plan: Plan, layout: Layout, entry: Entry, dims: Mapping[str, int]) -> int:
    """Return how many slices like this one make a whole tensor; 0 if that is not known."""
    dim = layout.by_rank.get(template(entry.key))
    symbol = _whole_size(plan, layout, entry.key, dim) if dim is not None and dim != BY_SHAPE else ""
    if not symbol or dim is None or len(entry.output.shape) <= dim or KV in str(symbol):
        return 0
    try:
        whole = size_of(symbol, dims)
    except KeyError:
        return 0
    size = entry.output.shape[dim]
    return whole // size if size and whole % size == 0 and whole // size < 100 else 0


def _whole_size(plan: Plan, layout: Layout, key: str, dim: int) -> Symbol:
    """Return what a stored tensor measures as a whole along a dimension, in symbols; empty if the table does not say.

    It does not where ops give the tensor another shape than its slot has, or where it holds several slots.
    """
    rule, slot = layout.by_stored.get(template(key)), _slot(plan, layout, key)
    if rule is None or slot is None or rule.reshapes or rule.stack or any(rule.each) or dim >= len(slot.shape):
        return ""
    if rule.split is None or rule.split.dim != dim:
        return slot.shape[dim] if rule.split is None or rule.merges else ""
    place = [anonymous(stored) for stored in rule.storeds].index(template(key))
    size = rule.split.sizes[place] if rule.merges else ""
    return size if size != EQUAL else ""


def _no_table(plan: Plan, count: int) -> Finding:
    what = plan.family.title if plan.family else "this model"
    text = f"The model is cut into {count} files for tensor parallelism, and how {what} is cut there is not known here."
    fix = "Merge them with the model's own tools, or take the Hugging Face version of the model."
    return Finding("partitioned-state", "error", text, fix=fix, blocking=True)


def _uneven(odd: Sequence[Entry]) -> Finding:
    keys = tuple(dict.fromkeys(e.ref.key for e in odd))
    text = (
        f"{len(keys)} tensors such as `{safe_text(keys[0])}` are not in the files of all ranks alike: they can not be"
    )
    fix = "Look for a file of another model among them, or download them again."
    return Finding("shape-mismatch", "error", text + ": they can not be put together.", keys, fix, blocking=True)


def judge_ranks(plan: Plan) -> Plan:
    """Say where ranks hold different bytes of what must be the same."""
    facts = plan.evidence.replicas
    wrong = tuple(dict.fromkeys(r.kept.full_key for r in plan.replicas if facts.get(r.name) == "different"))
    if wrong:
        text = (
            f"{len(wrong)} tensors such as `{safe_text(wrong[0])}` must be the same in every rank's file, and differ."
        )
        fix = "The files are of different models or steps, or one is damaged: get all of them again from one place."
        plan = plan.found(Finding("duplicate-tensor", "error", text, wrong, fix, blocking=True))
    open_ = tuple(dict.fromkeys(r.kept.full_key for r in plan.replicas if r.name not in facts))
    if open_:
        text = f"{len(open_)} tensors that every rank holds have not been compared."
        fix = "fix compares them fully before it writes anything."
        plan = plan.found(Finding("replica-unchecked", "info", text, open_, fix))
    return plan
