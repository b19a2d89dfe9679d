"""The rows of the fix plan: every kind of change that an export makes, in words, with its evidence.

Read off the finished export, so that what is shown and what is done can not differ.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ckpt_gui.core.edit_steps import field_steps, one_a_template, rule_steps
from ckpt_gui.core.entry import Entry, changing
from ckpt_gui.core.families.layouts import title_of
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.passes.adapter import WEIGHTS
from ckpt_gui.core.passes.adapter_findings import scales
from ckpt_gui.core.passes.recognise import PREFIX, config_of_known, told_config
from ckpt_gui.core.passes.ties import HEAD_AS_EMBEDDING
from ckpt_gui.core.plan import Step

if TYPE_CHECKING:
    from ckpt_gui.core.export import Export

EXAMPLES = 4


def export_steps(export: Export) -> tuple[Step, ...]:
    """Return the steps in the order in which they are done; kinds that change nothing are absent."""
    names = (_section, _unwrap)
    values = (_rename, _dequantise, _merge, _rearrange, _permute, _ranks, _buffers, _tie, _head_only, _untie, _copy)
    rest = (_not_held, _unassigned, _user, _cast, _index, _config, _foreign)
    first, then = ([step for maker in makers if (step := maker(export))] for makers in (names, (*values, *rest)))
    return (*first, *rule_steps(export), *then, *field_steps(export))


def _pairs(entries: Iterable[Entry]) -> tuple[tuple[str, str], ...]:
    """Return one (before, after) example for each pair of templates."""
    return one_a_template(((entry.ref.key, entry.key) for entry in entries), EXAMPLES)


def _keys(entries: Iterable[Entry]) -> tuple[str, ...]:
    return tuple(e.ref.full_key for e in entries)


def _section(export: Export) -> Step | None:
    plan = export.plan
    if not plan.section or export.target.layout == "same":
        return None
    beside = Counter(d.kind for d in plan.dropped if d.kind in ("not-weights", "other-section"))
    text = (
        f"{sum(beside.values())} tensors beside it are optimizer state or lie elsewhere"
        if beside
        else "only it holds tensors"
    )
    name = " → ".join(plan.section)
    return Step("section", f"Take the weights out of `{name}`", len(plan.weights), text)


def _unwrap(export: Export) -> Step | None:
    plan = export.plan
    if not plan.wrappers:
        return None
    entries = [e for e in export.entries if any(w in e.ref.key.split(".") for w in plan.wrappers)]
    evidence = next((f.message for f in plan.findings if f.code == "wrapper-prefix"), "")
    names = ", ".join(f"`{w}`" for w in plan.wrappers)
    return Step("unwrap", f"Take off {names}", len(entries), evidence, optional=False, keys=_keys(entries))


def _rename(export: Export) -> Step | None:
    plan = export.plan
    if plan.layout is None or export.layout is None or (plan.layout is export.layout and not plan.prefix):
        return None
    loose = {id(e) for e in plan.unmapped}
    entries = [e for e in export.entries if e.why and id(e) not in loose]
    before, after = (title_of(x.name) for x in (plan.layout, export.layout))
    title = f"Rename {before} → {after}"
    if plan.layout is export.layout:
        title = f"Put `{plan.prefix}` before the keys"
    expected = len(plan.entries) + len(plan.missing)
    evidence = f"{len(plan.entries)} of {expected} expected tensors found by name and shape"
    return Step("rename", title, len(entries), evidence, examples=_pairs(entries), keys=_keys(entries))


_REARRANGING = {"take", "concat", "pick", "stack", "transpose", "reshape", "regroup", "patches", "tiles"}


def _rearrange(export: Export) -> Step | None:
    """Say that tensors are taken apart, put together or turned: no value changes, its place does."""
    stays = export.plan.layout is export.layout  # then what is decoded is turned by the way, if at all
    entries = [
        e
        for e in changing(export.entries)
        if (names := {op.name for op in e.ops}) & _REARRANGING and not (stays and "dequantise" in names)
    ]
    if not entries:
        return None
    dims = export.plan.dims
    words = dict.fromkeys(
        op.describe(dims) for e in entries for op in e.ops if op.name in ("transpose", "regroup", "patches", "tiles")
    )
    kinds = {op.name for e in entries for op in e.ops}
    words |= dict.fromkeys(["taken apart"] if kinds & {"take", "pick"} else [])
    words |= dict.fromkeys(["put together"] if kinds & {"concat", "stack"} else [])
    before, after = (title_of(x.name) if x else "?" for x in (export.plan.layout, export.layout))
    evidence = f"{before} and {after} keep the same values in other tensors: {', '.join(words) or 'in another shape'}"
    return Step("rearrange", "Take tensors apart and put them together", len(entries), evidence, changes_values=True,
                examples=_pairs(entries), keys=_keys(entries))  # fmt: skip


def _dequantise(export: Export) -> Step | None:
    """Say which block types become plain numbers."""
    kinds = Counter(op.describe({}) for e in changing(export.entries) for op in e.ops if op.name == "dequantise")
    if not kinds:
        return None
    entries = [e for e in changing(export.entries) if any(op.name == "dequantise" for op in e.ops)]
    evidence = "; ".join(f"{kind}: {count:,} tensors" for kind, count in sorted(kinds.items()))
    schemes = ", ".join(sorted({kind.partition(" ")[0] for kind in kinds}))
    return Step("dequantise", f"Decode {schemes} to plain numbers", len(entries), evidence, changes_values=True,
                keys=_keys(entries))  # fmt: skip


def _merge(export: Export) -> Step | None:
    adapter = export.plan.merged
    if adapter is None:
        return None
    entries = [e for e in changing(export.entries) if any(op.name in ("merge", "replace", "tokens") for op in e.ops)]
    used = {id(ref) for entry in entries for ref in entry.inputs}
    hits = sum(1 for lora in adapter.loras if id(lora.a) in used)
    whole = sum(1 for entry in entries if any(op.name == "replace" for op in entry.ops))
    evidence = f"{hits:,} of {len(adapter.loras):,} modules; {scales(adapter)}"
    evidence += f"; {whole:,} taken whole" if whole else ""
    return Step("merge", "Merge the adapter", len(entries), evidence, changes_values=True, keys=_keys(entries))


def _permute(export: Export) -> Step | None:
    entries = [e for e in changing(export.entries) if any(op.name == "permute" for op in e.ops)]
    if not entries:
        return None
    plan = export.plan
    heads, kv_heads = plan.dims.get("heads"), plan.dims.get("kv_heads")
    origin = plan.dims_from.get("heads", "nowhere")
    order = dict(plan.family.row_order) if plan.family else {}
    before, after = (title_of(x.name) if x else "?" for x in (plan.layout, export.layout))
    orders = [order.get(WEIGHTS.get(x.name, x.name), "?") if x else "?" for x in (plan.layout, export.layout)]
    evidence = f"{before} keeps the rotary rows of a head as {orders[0]}, {after} as {orders[1]}; "
    counts = f"{heads} heads and {kv_heads} key/value heads, from {origin}"
    evidence += counts if heads and kv_heads else "the head counts are not known"
    certain = heads is not None and not (origin.startswith(PREFIX) and len(plan.known) != 1)
    return Step("permute", "Reorder the rows of q and k", len(entries), evidence, changes_values=True,
                certain=certain, keys=_keys(entries))  # fmt: skip


def _ranks(export: Export) -> Step | None:
    before = sum(1 for name in export.plan.source.ranks if name)
    if export.ranks == max(before, 1):
        return None
    entries = [e for e in export.entries if len(e.inputs) > 1 or export.ranks > 1]
    if export.ranks == 1:
        title, text = f"Put the slices of {before} ranks together", "the dimensions are those of the Meta layout"
    else:
        title = f"Cut for {export.ranks} tensor-parallel ranks"
        text = "norms, and what else every rank needs whole, go into every file"
    return Step("ranks", title, len(entries), text, keys=_keys(entries))


def _buffers(export: Export) -> Step | None:
    gone = [d for d in export.dropped if d.kind == "buffer"]
    if not gone:
        return None
    reasons = "; ".join(dict.fromkeys(d.reason for d in gone))
    keys = tuple(d.ref.full_key for d in gone)
    return Step("buffers", f"Leave out {len(gone)} computed tensors", len(gone), reasons, optional=True, keys=keys)


def _tie(export: Export) -> Step | None:
    gone = [d for d in export.dropped if d.kind == "redundant"]
    if not gone:
        return None
    ref = gone[0].ref
    evidence = f"it {gone[0].reason}"
    if export.plan.tie.state != "same-storage":
        evidence += f"; {sum(d.ref.nbytes for d in gone):,} bytes saved"
    return Step("tie", f"Leave out `{ref.key}`", 1, evidence, optional=True, keys=(ref.full_key,))


def _head_only(export: Export) -> Step | None:
    """The head that stands for the embedding takes its name."""
    moved = [e for e in export.entries if e.why == HEAD_AS_EMBEDDING]
    if not moved:
        return None
    entry = moved[0]
    title = f"Store `{entry.ref.key}` as `{entry.key}`"
    return Step("tie", title, 1, "the model is tied, and the embedding is missing",
                examples=((entry.ref.key, entry.key),), keys=_keys(moved))  # fmt: skip


def _untie(export: Export) -> Step | None:
    tie = export.plan.tie
    if tie.state != "different" or not tie.flag or tie.head is None:
        return None
    return Step("untie", "Keep the trained head and mark the model untied", 1,
                f"the head differs from the embedding, while {tie.flag_from} says tied",
                keys=(tie.head.full_key,))  # fmt: skip


def _copy(export: Export) -> Step | None:
    copies = [e for e in export.entries if e.why == "the output head is the embedding"]
    if not copies:
        return None
    tie = export.plan.tie
    stated = bool(tie.flag) or tie.head is not None or export.plan.policy.tie == "copy"
    evidence = "the model is tied" if stated else "no head is stored, as in a tied model, and nothing says otherwise"
    return Step("tie", f"Write the embedding as `{copies[0].key}` too", 1, evidence, certain=stated,
                keys=_keys(copies))  # fmt: skip


def _not_held(export: Export) -> Step | None:
    gone = [d for d in export.dropped if d.kind == "not-held"]
    if not gone:
        return None
    reasons = "; ".join(dict.fromkeys(f"each {d.reason}" for d in gone))
    keys = tuple(d.ref.full_key for d in gone)
    return Step("not-held", f"Leave out {len(gone)} tensors of other parts of the model", len(gone), reasons, keys=keys)


def _unassigned(export: Export) -> Step | None:
    gone = [d for d in export.dropped if d.kind == "unassigned"]
    if not gone:
        return None
    reasons = Counter(d.reason for d in gone)
    evidence = "; ".join(f"{count:,} × {reason}" for reason, count in reasons.items())
    title = f"Leave out {len(gone)} tensors that the index does not assign"
    return Step("assigned", title, len(gone), evidence, keys=tuple(d.ref.full_key for d in gone))


def _index(export: Export) -> Step | None:
    """Say that the index is written anew where the source's is missing or wrong."""
    wrong = [f for f in export.plan.findings if f.code in ("index-missing", "index-stale")]
    if not wrong:
        return None
    return Step("index", "Write files and an index that fit together", 1, wrong[0].message.rstrip("."))


def _user(export: Export) -> Step | None:
    gone = [d for d in export.dropped if d.kind == "user"]
    if not gone:
        return None
    return Step(
        "drop",
        f"Leave out {len(gone)} tensors",
        len(gone),
        "ticked by the user",
        keys=tuple(d.ref.full_key for d in gone),
    )


def _cast(export: Export) -> Step | None:
    entries = [e for e in changing(export.entries) if any(op.name == "cast" for op in e.ops)]
    if not entries:
        return None
    kinds = Counter((e.ref.dtype, e.output.dtype) for e in entries)
    evidence = "; ".join(f"{n} from {a} to {b}" for (a, b), n in kinds.items())
    return Step("cast", f"Cast to {export.target.dtype}", len(entries), evidence, changes_values=True, optional=True,
                keys=_keys(entries))  # fmt: skip


def _foreign(export: Export) -> Step | None:
    """Values that are not inert, or have no place in the container, are not carried."""
    if not export.left_out:
        return None
    names = ", ".join(safe_text(name, 60) for name in export.left_out[:3])
    more = " …" if len(export.left_out) > 3 else ""
    count = len(export.left_out)
    title = f"Leave out {count} {'value' if count == 1 else 'values'} that {'is' if count == 1 else 'are'} no tensor"
    return Step("foreign", title, count, f"what is not plain data is not written: {names}{more}")


def _config(export: Export) -> Step | None:
    if not export.texts or (export.target.layout == "same" and not (export.plan.config or export.plan.adapter)):
        return None
    origin = export.plan.config.origin if export.plan.config else "the base folder"
    if export.plan.adapter is not None:
        return Step("config", "Write adapter_config.json", 1, "rank, alpha and modules as the adapter has them")
    names = " and ".join(export.texts)
    if found := config_of_known(export.plan):
        return Step("config", f"Write {names}", len(export.texts), told_config(export.plan), certain=found[1])
    evidence = f"from {origin}, sizes as the tensors have them"
    config = export.plan.config
    if config and not config.is_hf and config.max_positions is None and "config.json" in export.texts:
        evidence += "; max_position_embeddings is assumed, as params.json has no such field"
    return Step("config", f"Write {names}", len(export.texts), evidence)
