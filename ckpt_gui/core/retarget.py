"""From a plan to an export: the tensors in a layout's own names, in files, with the config that fits them.

An `Export` is a frozen value like the plan: everything that will be written is known, and shown, before a byte is.
Ops that undo each other on the way (Meta → hub → torchtune) are gone, so that a step that is not needed asks for no
head count.
"""

from __future__ import annotations

from functools import reduce

from ckpt_gui import dataclasses
from ckpt_gui.core.adapter_layouts import CONFIG as ADAPTER_CONFIG
from ckpt_gui.core.adapter_layouts import adapter_layout, convert_adapter
from ckpt_gui.core.beside import Sidecars
from ckpt_gui.core.decoding import with_codes, with_plain_mxfp4
from ckpt_gui.core.dtypes import CASTABLE
from ckpt_gui.core.entry import Entries, Entry, as_entries, carried
from ckpt_gui.core.errors import CheckpointError, Finding, worst_first
from ckpt_gui.core.export import Export, Target
from ckpt_gui.core.export_config import export_config, json_file, with_files
from ckpt_gui.core.export_findings import heads_finding, refusals, settled, twins
from ckpt_gui.core.export_steps import export_steps
from ckpt_gui.core.export_tree import carries_tree, left_out
from ckpt_gui.core.exprs import make
from ckpt_gui.core.families.layouts import KINDS
from ckpt_gui.core.families.numbering import numbered_by_hub
from ckpt_gui.core.families.schema import Layout
from ckpt_gui.core.fp8 import with_plain_weights
from ckpt_gui.core.keys import anonymous, safe_text, template
from ckpt_gui.core.layouting import left_behind, to_layout
from ckpt_gui.core.ops import Cast
from ckpt_gui.core.passes import PIPELINE
from ckpt_gui.core.plan import Dropped, Plan
from ckpt_gui.core.tensors import TensorSpec
from ckpt_gui.core.tile_rows import lost_rows


def retarget(plan: Plan, target: Target) -> Export:
    """Return the export of a plan.

    Raises:
        CheckpointError: The target's words are not known.
    """
    _check_words(target)
    plan = with_base(plan, target.base)
    if plan.adapter is not None:
        return _adapter(plan, target)
    layout = plan.layout if target.layout == "same" else plan.family.layout(target.layout) if plan.family else None
    export = Export(plan, target, layout, _container(plan, target), Entries(), ranks=_rank_count(plan, target))
    if (target.layout != "same" and layout is None) or (target.layout == "same" and plan.source.container == "gguf"):
        findings = worst_first((*plan.findings, _no_layout(plan, target)))
        return dataclasses.replace(export, entries=as_entries(plan.weights), dropped=plan.dropped, findings=findings)
    plan = with_codes(plan) if target.layout == "same" else with_plain_mxfp4(with_plain_weights(plan))
    export = dataclasses.replace(export, plan=plan)
    entries, dropped = _tied(plan, layout, target)
    entries, left, told = left_behind(entries, layout, plan)
    layout, misplaced = _numbered(plan, layout)
    export = dataclasses.replace(export, layout=layout)
    entries, lacking = to_layout(entries, layout, plan)
    if target.dtype != "keep":
        own = _own_types(plan, layout)
        entries = tuple(e if template(e.key) in own else _cast(e, target.dtype) for e in entries)
    loose = tuple(_cast(e, target.dtype) for e in plan.unmapped)
    buffers, gone = _buffers(plan, target)
    aside = ("not-weights", "other-section") if carries_tree(export) else ()
    export = dataclasses.replace(
        export,
        entries=as_entries((*entries, *loose, *buffers) if loose or buffers else entries),
        dropped=(*(d for d in gone if d.kind not in aside), *dropped, *left),
        beside=tuple(d for d in gone if d.kind in aside),
        left_out=left_out(export),
    )
    config = export_config(plan, target)
    export = with_files(export, config)
    findings = (*settled(plan, export), *refusals(export, config), *lacking, *misplaced, *told)
    findings += tuple(lost_rows(export.entries, plan.evidence.rows))
    export = dataclasses.replace(export, findings=worst_first(findings))
    return dataclasses.replace(export, steps=export_steps(export))


def _check_words(target: Target) -> None:
    words = {
        "layout": (target.layout, (*KINDS, "same")),
        "dtype": (target.dtype, ("keep", "bf16", "fp16", "fp32")),
        "container": (target.container, (None, "safetensors", "torch")),
    }
    for name, (value, known) in words.items():
        if value not in known:
            text = f"{safe_text(str(value), 40)} is no {name}; choose {', '.join(str(k) for k in known if k)}."
            raise CheckpointError("unknown-layout", text)


def with_base(plan: Plan, base: Sidecars | None) -> Plan:
    """Understand a checkpoint that has no config by the base folder's: head counts, tie flag and family follow it."""
    if plan.config is not None or base is None or not (base.config or base.origin or base.params or base.lit):
        return plan
    sidecars = dataclasses.replace(
        plan.source.sidecars, config=base.config, origin=base.origin, params=base.params, lit=base.lit
    )
    source = plan.source.replace(sidecars=sidecars)
    start = Plan(source, plan.policy, plan.evidence, findings=source.problems)
    return reduce(lambda plan, step: step(plan), PIPELINE, start)


def _rank_count(plan: Plan, target: Target) -> int:
    same = len(plan.source.ranks) if target.layout == "same" and plan.layout and plan.layout.rank_dims else 1
    return target.model_parallel or max(same, 1)


def _adapter(plan: Plan, target: Target) -> Export:
    """Return the export of an adapter in its own or another tool's names."""
    layout = adapter_layout(plan, target.layout)
    container = target.container or (KINDS[layout.name].container if layout else "safetensors")
    if target.layout == "same" and target.container is None:
        container = _container(plan, target)
    export = Export(plan, target, layout, container, as_entries(plan.weights), plan.dropped)
    if layout is None:
        text = f"An adapter can not be written as {target.layout}."
        fix = "Write it as hf (PEFT) or torchtune, or merge it into its base: fix BASE --adapter DIR."
        finding = Finding("unknown-layout", "error", text, fix=fix, blocking=True)
        return dataclasses.replace(export, findings=worst_first((*plan.findings, finding)))
    entries, config, refused = convert_adapter(plan, layout)
    entries = tuple(_cast(e, target.dtype) for e in (*entries, *plan.unmapped))
    texts = {ADAPTER_CONFIG: json_file(config)} if config else {}
    export = dataclasses.replace(export, entries=as_entries(entries), texts=texts)
    findings = (*settled(plan, export), *(f for f in (heads_finding(export), twins(export)) if f), *refused)
    export = dataclasses.replace(export, findings=worst_first(findings))
    return dataclasses.replace(export, steps=export_steps(export))


def _container(plan: Plan, target: Target) -> str:
    if target.container:
        return target.container
    if target.layout == "same":
        return "safetensors" if plan.source.container == "safetensors" else "torch"
    return KINDS[target.layout].container


def _no_layout(plan: Plan, target: Target) -> Finding:
    if plan.source.container == "gguf" and target.layout == "same":
        text = "GGUF files are read and not written."
        return Finding("unknown-layout", "error", text, fix="Write it with --to hf.", blocking=True)
    fix = "Write it without wrappers with --to same."
    if plan.family is None:
        text = f"The family of this checkpoint is not known, so it can not be written as {target.layout}."
    else:
        text = f"{plan.family.title} has no layout {target.layout}."
        fix = f"Choose one that it has: {', '.join(layout.name for layout in plan.family.layouts)}."
    return Finding("unknown-layout", "error", text, fix=fix, blocking=True)


def _tied(plan: Plan, layout: Layout | None, target: Target) -> tuple[tuple[Entry, ...], tuple[Dropped, ...]]:
    """Add or leave out the output head as the layout and the policy want it."""
    if layout is None or plan.family is None:
        return plan.entries, ()
    hub = plan.family.role("head")
    head, embedding = plan.entry(hub), plan.entry(plan.family.role("embedding"))
    policy = plan.policy.tie
    if head and plan.tie.state in ("equal", "same-storage"):
        wanted = policy == "drop" or (policy == "auto" and "tie" not in plan.policy.skip)
        free = target.layout == "same" and plan.tie.state == "same-storage" and policy != "drop"
        if wanted and plan.tie.tied and not layout.head_always and not free:
            kept = tuple(e for e in plan.entries if e is not head)
            reason = "equals the embedding byte for byte, and the target ties the two"
            return kept, tuple(Dropped(ref, reason, "redundant", head.key) for ref in head.inputs)
    if head is None and embedding and hub and plan.tie.tied and (layout.head_always or policy == "copy"):
        copy = embedding.renamed(hub, why="the output head is the embedding")
        return (*plan.entries, copy), ()
    return plan.entries, ()


def _numbered(plan: Plan, layout: Layout | None) -> tuple[Layout | None, tuple[Finding, ...]]:
    """Return a layout with the numbers that the model's layers have in it, and why it has none for some."""
    if layout is None or plan.family is None or layout is plan.layout:
        return layout, ()
    layout, misplaced = numbered_by_hub(layout, plan.family, (e.key for e in plan.entries))
    return layout, (misplaced,) if misplaced else ()


def _own_types(plan: Plan, layout: Layout | None) -> set[str]:
    """Return the templates of stored keys that keep their type: what they hold is worth nothing with fewer bits."""
    slots = plan.family.by_slot if plan.family and layout else {}
    own = {hub for hub, slot in slots.items() if slot.own_type}
    return {anonymous(s) for hub in own if layout and (rule := layout.by_hub.get(hub)) for s in rule.storeds}


def _cast(entry: Entry, dtype: str) -> Entry:
    if dtype == "keep" or entry.output.dtype == dtype or entry.output.dtype not in CASTABLE:
        return entry
    spec = TensorSpec(entry.key, dtype, entry.output.shape)
    return Entry(spec, make(Cast(entry.output.dtype, dtype), entry.expr), entry.why)


def _buffers(plan: Plan, target: Target) -> tuple[tuple[Entry, ...], tuple[Dropped, ...]]:
    """Keep the buffers that belong to the layout when it stays the same."""
    if plan.layout is None or target.layout not in ("same", plan.layout.name):
        return (), plan.dropped
    normal = {t for t, ignored in plan.layout.by_ignored.items() if ignored.normal}
    kept = [d for d in plan.dropped if d.kind == "buffer" and template(d.key) in normal]
    entries = tuple(carried(d.ref, d.key, "kept as it is") for d in kept)
    return entries, tuple(d for d in plan.dropped if d not in kept)
