"""Recognise adapters: LoRA pairs on their own, or beside the weights that they change.

A file of pairs alone is an adapter: it stays as it is, and says what it is made for. An un-merged model holds both:
there each weight takes its pair in (W + scale · B · A) and loses PEFT's names, and all later passes see a plain model.
"""

from __future__ import annotations

from ckpt_gui.core.adapter_names import has_adapter, read_adapter
from ckpt_gui.core.adapters import PREFIX, Adapter, Lora, Tokens
from ckpt_gui.core.entry import Entry, carried
from ckpt_gui.core.errors import CheckpointError, Finding
from ckpt_gui.core.exprs import Expr, make, shape_of
from ckpt_gui.core.families.schema import Layout
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.merge_ops import MergeBias, MergeLora
from ckpt_gui.core.ops import Cast
from ckpt_gui.core.passes.adapter_findings import BASE_LAYOUT, findings_of, scales, strange_rows, unbiased, unmatched
from ckpt_gui.core.plan import Dropped, Plan
from ckpt_gui.core.replace_ops import PutRows
from ckpt_gui.core.shape_ops import Transpose
from ckpt_gui.core.tensors import TensorRef, TensorSpec

LAYOUTS = {
    "peft": Layout("peft-adapter", (), source="peft 0.15 save_and_load.py"),
    "torchtune": Layout("torchtune-adapter", (), source="torchtune 0.6.1 modules/peft"),
    "litgpt": Layout("litgpt-adapter", (), source="litgpt 0.5.11 lora.py"),
}
# Name of an adapter's layout → that of the weights which its modules are called after, in whose order its rows are.
WEIGHTS = {layout.name: BASE_LAYOUT[style] for style, layout in LAYOUTS.items()}


def find_adapter(plan: Plan) -> Plan:
    """Set `adapter` if the file is one; merge what an un-merged model has inside."""
    if not has_adapter(plan.groups):
        return plan
    named = [(e.key, e.ref) for e in plan.entries]
    adapter = read_adapter(named, plan.source.sidecars.adapter, plan.policy.lora_alpha)
    if adapter is None:
        return _without_prefix(plan)
    plan = plan.found(*findings_of(plan, adapter))
    if adapter.inside:
        return plan if adapter.others else _merged_inside(plan, adapter)
    entries: tuple[Entry, ...] = plan.entries
    if adapter.bare:
        entries = tuple(e.renamed(PREFIX + e.key) for e in entries)
    return plan.replace(adapter=adapter, layout=LAYOUTS[adapter.style], entries=entries).explained(
        f"{len(adapter.loras):,} pairs of A and B, without the weights that they change."
        if not adapter.others
        else f"{len(adapter.others):,} tensors of an adapter of the kind {safe_text(adapter.kind, 40)}."
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


def with_rows(whole: Expr, dtype: str, tokens: Tokens) -> Expr:
    """Return an embedding, of that element type, with an adapter's trained rows in it."""
    rows: Expr = tokens.rows if tokens.rows.dtype == dtype else make(Cast(tokens.rows.dtype, dtype), tokens.rows)
    return make(PutRows(tokens.indices or ()), whole, rows)


def is_swapped(shape: tuple[int, ...], lora: Lora, adapter: Adapter) -> bool:
    """Return True if a weight is stored in × out: an embedding, or GPT-2's Conv1D (where square, the config tells)."""
    if lora.embedding:
        return True
    normal = (*lora.b.shape[:1], *lora.a.shape[1:])
    return shape == normal[::-1] and (shape != normal or adapter.config.get("fan_in_fan_out") is True)


def _merged_inside(plan: Plan, adapter: Adapter) -> Plan:
    """Merge every pair into the weight beside it."""
    loras = {f"{lora.module}.weight": lora for lora in adapter.loras}
    added = {f"{lora.module}.bias": lora for lora in adapter.loras if lora.bias is not None}
    tokens = {f"{t.module}.weight": t for t in adapter.tokens if t.indices is not None}
    entries: list[Entry] = []
    stuck: list[Lora] = [lora for name, lora in loras.items() if name not in adapter.whole]
    lost = [lora for name, lora in added.items() if name not in adapter.whole]
    odd = [t for name, t in tokens.items() if name not in adapter.whole]
    for name, ref in adapter.whole.items():
        expr: Expr = ref
        if lora := loras.get(name):
            expr = merged(ref, lora, swapped=is_swapped(ref.shape, lora, adapter))
        elif lora := added.get(name):
            expr = make(MergeBias(lora.scale or 0.0), ref, lora.bias or ref)
        if name in tokens:
            expr = with_rows(expr, ref.dtype, tokens[name])
        try:
            shape_of(expr, {})
        except CheckpointError:
            stuck += [loras[name]] if name in loras else []
            lost += [added[name]] if name in added else []
            odd += [tokens[name]] if name in tokens else []
            expr = ref
        why = "" if expr is ref else "merged with its adapter"
        entries.append(Entry(TensorSpec(name, ref.dtype, ref.shape), expr, why))
    reason = "is the weight as it was before training; the trained one beside it is taken"
    dropped = tuple(Dropped(ref, reason, "replaced", ref.key) for ref in adapter.replaced)
    used = {id(ref) for entry in entries for ref in entry.inputs}
    parts = (*adapter.odd, *(r for lora in adapter.loras for r in lora.refs), *(t.rows for t in adapter.tokens))
    loose = tuple(carried(ref) for ref in parts if id(ref) not in used)
    plan = plan.replace(entries=tuple(entries), unmapped=(*plan.unmapped, *loose), dropped=(*plan.dropped, *dropped))
    plan = plan.found(*([unmatched(stuck, len(loras), "the file")] if stuck else []))
    plan = plan.found(*([unbiased(lost, "the file")] if lost else []))
    plan = plan.found(*(strange_rows(t.module, "the file") for t in odd))
    return plan.replace(merged=adapter).found(_unmerged(adapter))


def _unmerged(adapter: Adapter) -> Finding:
    text = (
        f"The model was saved before its adapter was merged: {len(adapter.loras):,} weights have a pair of A and B "
        f"beside them ({scales(adapter)}); to leave the pairs out would throw the training away."
    )
    keys = (*(lora.a.key for lora in adapter.loras), *(t.rows.key for t in adapter.tokens))
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


def _without_prefix(plan: Plan) -> Plan:
    """Take PEFT's prefix off a model that has no pairs."""
    changed = [e for e in plan.entries if e.key.startswith(PREFIX)]
    if not changed:
        return plan
    entries = tuple(e.renamed(e.key.removeprefix(PREFIX).replace(".base_layer.", ".")) for e in plan.entries)
    text = f"{len(changed):,} of {len(entries):,} keys begin with `{PREFIX}`: PEFT's names, without an adapter."
    keys = tuple(e.ref.key for e in changed)
    return plan.replace(entries=entries).found(Finding("renamed", "warning", text, keys, "fix takes it off."))
