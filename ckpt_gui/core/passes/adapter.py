"""Recognise adapters: LoRA pairs on their own, or beside the weights that they change.

A file of pairs alone is an adapter: it stays as it is, and says what it is made for. An un-merged model holds both:
there each weight takes its pair in (W + scale · B · A) and loses PEFT's names, and all later passes see a plain model.
"""

from __future__ import annotations

from collections.abc import Sequence

from ckpt_gui.core.adapters import PREFIX, Adapter, Lora, has_adapter, read_adapter, stated_rank, untried_patterns
from ckpt_gui.core.errors import CheckpointError, Finding
from ckpt_gui.core.exprs import Expr, make, shape_of
from ckpt_gui.core.families.registry import FAMILIES
from ckpt_gui.core.families.schema import Family, Layout, Rule
from ckpt_gui.core.keys import safe_text, template
from ckpt_gui.core.merge_ops import MergeLora
from ckpt_gui.core.plan import Dropped, Entry, Plan, carried
from ckpt_gui.core.shape_ops import Transpose
from ckpt_gui.core.tensors import TensorRef, TensorSpec

LAYOUTS = {
    "peft": Layout("peft-adapter", (), source="peft 0.15 save_and_load.py"),
    "torchtune": Layout("torchtune-adapter", (), source="torchtune 0.6.1 modules/peft"),
}
BASE_LAYOUT = {"peft": "hf", "torchtune": "torchtune"}  # whose names an adapter's modules have
_ALPHA = "Give it with --lora-alpha N, as it was in training; adapter_config.json would have it as lora_alpha."


def find_adapter(plan: Plan) -> Plan:
    """Set `adapter` if the file is one; merge what an un-merged model has inside."""
    if not has_adapter(e.key for e in plan.entries):
        return plan
    named = [(e.key, e.ref) for e in plan.entries]
    adapter = read_adapter(named, plan.source.sidecars.adapter, plan.policy.lora_alpha)
    if adapter is None:
        return _without_prefix(plan)
    plan = plan.found(*_findings(plan, adapter))
    if adapter.inside:
        return _merged_inside(plan, adapter)
    entries = plan.entries
    if adapter.bare:
        entries = tuple(e.renamed(PREFIX + e.key) for e in entries)
    return plan.replace(adapter=adapter, layout=LAYOUTS[adapter.style], entries=entries).explained(
        f"{len(adapter.loras):,} pairs of A and B, without the weights that they change."
    )


def merged(weight: Expr, lora: Lora, *, swapped: bool = False) -> Expr:
    """Return a weight with a module's adapter in it.

    Args:
        weight: As it is stored in the layout whose names the adapter has.
        lora: The adapter.
        swapped: True if the weight is stored in × out.
    """
    scale, lengths = lora.scale or 0.0, lora.lengths
    if lengths is None and not swapped:
        return make(MergeLora(scale), weight, lora.a, lora.b)
    if lengths is None:
        return make(MergeLora(scale), weight, make(Transpose(), lora.b), make(Transpose(), lora.a))
    if not swapped:
        return make(MergeLora(scale, True), weight, lora.a, lora.b, lengths)
    return make(Transpose(), make(MergeLora(scale, True), make(Transpose(), weight), lora.a, lora.b, lengths))


def is_swapped(shape: tuple[int, ...], lora: Lora, adapter: Adapter) -> bool:
    """Return True if a weight is stored in × out: an embedding, or GPT-2's Conv1D (where square, the config tells)."""
    if lora.embedding:
        return True
    normal = (*lora.b.shape[:1], *lora.a.shape[1:])
    return shape == normal[::-1] and (shape != normal or adapter.config.get("fan_in_fan_out") is True)


def _merged_inside(plan: Plan, adapter: Adapter) -> Plan:
    """Merge every pair into the weight beside it."""
    loras = {f"{lora.module}.weight": lora for lora in adapter.loras}
    entries: list[Entry] = []
    stuck: list[Lora] = [lora for name, lora in loras.items() if name not in adapter.whole]
    for name, ref in adapter.whole.items():
        lora = loras.get(name)
        if lora is None:
            entries.append(carried(ref, name))
            continue
        expr = merged(ref, lora, swapped=is_swapped(ref.shape, lora, adapter))
        try:
            shape_of(expr, {})
        except CheckpointError:
            stuck.append(lora)
            entries.append(carried(ref, name))
            continue
        entries.append(Entry(TensorSpec(name, ref.dtype, ref.shape), expr, "merged with its adapter"))
    reason = "is the weight as it was before training; the trained one beside it is taken"
    dropped = tuple(Dropped(ref, reason, "replaced", ref.key) for ref in adapter.replaced)
    loose = tuple(carried(ref) for ref in (*adapter.odd, *(ref for lora in stuck for ref in lora.refs)))
    plan = plan.replace(entries=tuple(entries), unmapped=(*plan.unmapped, *loose), dropped=(*plan.dropped, *dropped))
    if stuck:
        plan = plan.found(unmatched(stuck, len(loras), "the file"))
    return plan.replace(merged=adapter).found(_unmerged(adapter))


def _unmerged(adapter: Adapter) -> Finding:
    text = (
        f"The model was saved before its adapter was merged: {len(adapter.loras):,} weights have a pair of A and B "
        f"beside them ({scales(adapter)}); to leave the pairs out would throw the training away."
    )
    keys = tuple(lora.a.key for lora in adapter.loras)
    return Finding("lora-unmerged", "warning", text, keys, "fix merges each pair into its weight.")


def keep_head(plan: Plan) -> Plan:
    """Keep the embedding of a tied un-merged model as its head: only the embedding was trained.

    The head is not stored where it was the embedding; what the embedding was before training is.
    """
    if plan.merged is None or not plan.merged.inside or plan.family is None or plan.config is None:
        return plan
    embedding, head = (plan.family.role(role) for role in ("embedding", "head"))
    entry = next((e for e in plan.entries if e.key == embedding), None)
    tied = plan.config.tie_flag(plan.family.tie_default)[0]
    if entry is None or head is None or not tied or any(e.key == head for e in plan.entries):
        return plan
    before = entry.ref if any(op.name == "merge" for op in entry.ops) else _before(plan.merged, entry.ref)
    if before is None:
        return plan
    kept = carried(before, head, "the head was the embedding before training")
    dropped = tuple(d for d in plan.dropped if d.ref is not before)
    return plan.replace(entries=(*plan.entries, kept), dropped=dropped)


def _before(adapter: Adapter, trained: TensorRef) -> TensorRef | None:
    """Return what a trained tensor (`modules_to_save`) was before, or None if it was not trained apart."""
    name = next((name for name in adapter.trained if adapter.whole[name] is trained), None)
    if name is None:
        return None
    return next((r for r in adapter.replaced if r.key.replace(".original_module.", ".").endswith(name)), None)


def unmatched(stuck: list[Lora], total: int, where: str) -> Finding:
    """Return the finding that modules have no weight, or one of another shape."""
    first = stuck[0]
    shape = " × ".join(f"{n:,}" for n in (*first.b.shape[:1], *first.a.shape[1:]))
    text = (
        f"{len(stuck):,} of {total:,} modules of the adapter fit no weight in {where}, such as "
        f"`{safe_text(first.module)}` ({shape})."
    )
    fix = "Take the base that the adapter was trained on, with its vocabulary as it was then."
    return Finding("adapter-unmatched", "error", text, tuple(x.a.key for x in stuck), fix, blocking=True)


def scaled_biases(adapter: Adapter, modules: Sequence[str]) -> Finding | None:
    """Return the finding that torchtune trained DoRA with another formula than it, or PEFT, merges by.

    Args:
        adapter: The adapter.
        modules: Those of its DoRA modules that have a bias.
    """
    if adapter.style != "torchtune" or not modules:
        return None
    text = (
        f"torchtune's DoRA scales biases too while it trains (`{safe_text(modules[0])}`), and neither its own merge "
        "nor PEFT does: the result is theirs, and not quite what was trained."
    )
    return Finding("adapter-scale", "warning", text, tuple(modules), "Compare a few answers with the trained model's.")


def _without_prefix(plan: Plan) -> Plan:
    """Take PEFT's prefix off a model that has no pairs."""
    changed = [e for e in plan.entries if e.key.startswith(PREFIX)]
    if not changed:
        return plan
    entries = tuple(e.renamed(e.key.removeprefix(PREFIX).replace(".base_layer.", ".")) for e in plan.entries)
    text = f"{len(changed):,} of {len(entries):,} keys begin with `{PREFIX}`: PEFT's names, without an adapter."
    keys = tuple(e.ref.key for e in changed)
    return plan.replace(entries=entries).found(Finding("renamed", "warning", text, keys, "fix takes it off."))


# ----------------------------------------------------------------------------------------------------------- findings


def scales(adapter: Adapter) -> str:
    """Say rank, alpha and scale of an adapter, groups of modules one after the other.

    >>> scales(Adapter("peft"))
    'no modules'
    """
    groups = adapter.groups
    rows = [_scale(group[0]) + (f" in {len(group):,} modules" if len(groups) > 1 else "") for group in groups]
    return "; ".join(rows[:6]) + ("; …" if len(rows) > 6 else "") if rows else "no modules"


def _scale(lora: Lora) -> str:
    kind = "DoRA, " if lora.lengths is not None else ""
    if lora.scale is None or lora.alpha is None:
        return f"{kind}rank {lora.rank:,}, alpha not known"
    return f"{kind}rank {lora.rank:,}, alpha {lora.alpha:g}, scale {lora.scale:g}"


def _findings(plan: Plan, adapter: Adapter) -> list[Finding]:
    found = [_kind(adapter), _several(adapter), _odd(adapter), _empty(plan, adapter), _ranks(adapter)]
    if adapter.bare:
        text = f"The adapter's keys lack the leading `{PREFIX}`: PEFT would find none of them and use the base alone."
        keys = tuple(lora.a.key for lora in adapter.loras)
        found.append(Finding("renamed", "warning", text, keys, "fix puts it before them."))
    return [finding for finding in found if finding is not None]


def _kind(adapter: Adapter) -> Finding | None:
    kind = str(adapter.config.get("peft_type", "LORA"))
    if kind == "LORA":
        return None
    text = f"adapter_config.json says that this is an adapter of the kind {safe_text(kind, 40)}; only LoRA is known."
    return Finding("adapter-unmatched", "error", text, fix="Merge it with PEFT.", blocking=True)


def _several(adapter: Adapter) -> Finding | None:
    if len(adapter.names) < 2:
        return None
    names = ", ".join(safe_text(name, 40) for name in adapter.names)
    text = f"The file holds several adapters ({names}); which of them is wanted can not be known."
    return Finding("several-sections", "error", text, fix="Save each on its own.", blocking=True)


def _odd(adapter: Adapter) -> Finding | None:
    if not adapter.odd or len(adapter.names) > 1:
        return None
    keys = tuple(ref.key for ref in adapter.odd)
    text = f"{len(keys):,} tensors of the adapter can not be merged: halves of pairs, or of a kind that is not known"
    fix = "Look for the other half in the other shards, or merge it with the library that made it."
    return Finding("adapter-unmatched", "error", f"{text} (`{safe_text(keys[0])}`).", keys, fix, blocking=True)


def _empty(plan: Plan, adapter: Adapter) -> Finding | None:
    if any(f.code == "adapter-empty" for f in plan.findings):
        return None
    keys = tuple(lora.a.key for lora in adapter.loras)
    if not keys:
        if adapter.whole:
            return None
        return Finding("adapter-empty", "error", "The adapter has no pair of A and B: it changes nothing.",
                       fix="Look for the adapter in another file.", blocking=True)  # fmt: skip
    if any(0 in ref.shape for lora in adapter.loras for ref in lora.refs):
        text = "The adapter has tensors without elements: what was trained is not in this file."
        return Finding("adapter-empty", "error", text, keys, "Save it again with the weights gathered.", blocking=True)
    unknown = tuple(lora.a.key for lora in adapter.loras if lora.scale is None)
    if unknown:
        text = (
            f"Nothing says by what the adapter's product is scaled: {len(unknown):,} modules have ranks and no alpha."
        )
        return Finding("adapter-empty", "error", text, unknown, _ALPHA, blocking=True)
    nothing = tuple(lora.a.key for lora in adapter.loras if not lora.scale)
    if nothing:
        text = f"Alpha is 0 for {len(nothing):,} of {len(keys):,} modules: merged, they change nothing."
        return Finding("adapter-empty", "error", text, nothing, _ALPHA, blocking=True)
    return None


def _ranks(adapter: Adapter) -> Finding | None:
    """Say where adapter_config.json and the tensors differ, or where a pattern in it can not be followed."""
    odd = untried_patterns(adapter.config)
    if odd:
        text = f"A pattern of adapter_config.json can not be followed: {safe_text(odd[0], 60)}."
        return Finding("adapter-scale", "warning", text, fix="Check the scales; --lora-alpha gives all of them.")
    wrong = [x for x in adapter.loras if stated_rank(adapter.config, x.module) not in (None, x.rank)]
    if not wrong:
        return None
    first = wrong[0]
    text = (
        f"adapter_config.json gives {len(wrong):,} of {len(adapter.loras):,} modules another rank than the tensors "
        f"have, such as `{safe_text(first.module)}` {stated_rank(adapter.config, first.module)} for {first.rank}: PEFT "
        "refuses to load it."
    )
    fix = "The scale is alpha over the rank of the tensors here; check alpha."
    return Finding("adapter-scale", "warning", text, tuple(x.a.key for x in wrong), fix)


# ------------------------------------------------------------------------------------------------------------- family


def adapter_family(plan: Plan) -> Plan:
    """Set the family of an adapter by its modules' names, its config, or the user."""
    if plan.adapter is None:
        return plan
    fitting = families_of(plan.adapter)
    wanted = plan.policy.family
    model_type = plan.config.model_type if plan.config else None
    if wanted is not None or model_type:
        named = [f for f in fitting if f.name == wanted or (wanted is None and model_type in f.model_types)]
        if named:
            return plan.replace(family=named[0])
        text = f"The adapter's modules do not fit the family {safe_text(str(wanted or model_type), 40)}."
        return plan.found(Finding("unknown-layout", "error" if wanted else "warning", text, blocking=bool(wanted)))
    if not fitting:
        return plan
    titles = ", ".join(f.title for f in fitting[:4]) + (f" and {len(fitting) - 4} more" if len(fitting) > 4 else "")
    if len(fitting) == 1:
        return plan.replace(family=fitting[0])
    if _agree(fitting, plan.adapter):
        text = f"The adapter's modules fit {titles} alike; taken as {fitting[0].title}, from which they do not differ."
        return plan.replace(family=fitting[0]).found(Finding("family-ambiguous", "info", text))
    text = f"The adapter's modules fit {titles}, whose rows are not in the same order."
    fix = "Name the family with --family, or the base with --base DIR; merging into a base needs neither."
    return plan.found(Finding("family-ambiguous", "info", text, fix=fix))


def families_of(adapter: Adapter) -> tuple[Family, ...]:
    """Return the families that have the most of an adapter's modules, in the registry's order."""
    shapes = {template(f"{lora.module}.weight") for lora in adapter.loras}
    name = BASE_LAYOUT[adapter.style]
    counts = {f.name: len(shapes & layout.by_stored.keys()) for f in FAMILIES if (layout := f.layout(name))}
    most = max(counts.values(), default=0)
    return tuple(f for f in FAMILIES if most and counts.get(f.name) == most)


def _agree(families: tuple[Family, ...], adapter: Adapter) -> bool:
    """Return True if all families would convert the adapter alike."""
    shapes = {template(f"{lora.module}.weight") for lora in adapter.loras}
    return len({_ways(f, adapter.style, shapes) for f in families}) == 1


def _ways(family: Family, style: str, shapes: set[str]) -> tuple[object, ...]:
    layout = family.layout(BASE_LAYOUT[style])
    rules = [layout.by_stored.get(shape) for shape in sorted(shapes)] if layout else []
    tune = family.layout("torchtune" if style == "peft" else "hf")
    others = [tune.by_hub.get(template(h)) if tune else None for r in rules if r for h in _hubs(r)]
    return tuple(repr(rule) for rule in (*rules, *others))


def _hubs(rule: Rule) -> tuple[str, ...]:
    return tuple(hub.replace("{layer}", "0").replace("{expert}", "0") for hub in rule.hubs)
