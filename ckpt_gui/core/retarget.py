"""From a plan to an export: the tensors in a layout's own names, in files, with the config that fits them.

An `Export` is a frozen value like the plan: everything that will be written is known, and shown, before a byte is.
Ops that undo each other on the way (Meta → hub → torchtune) are gone, so that a step that is not needed asks for no
head count.
"""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

from ckpt_gui.core.adapter_layouts import CONFIG as ADAPTER_CONFIG
from ckpt_gui.core.adapter_layouts import adapter_layout, convert_adapter
from ckpt_gui.core.config_write import hf_config, meta_params, with_flag
from ckpt_gui.core.dtypes import BY_NAME, CASTABLE
from ckpt_gui.core.errors import CheckpointError, Finding, worst_first
from ckpt_gui.core.export_steps import export_steps
from ckpt_gui.core.exprs import Made, check_heads, make, needed_dims
from ckpt_gui.core.families.layouts import KINDS
from ckpt_gui.core.families.numbering import numbered_by_hub
from ckpt_gui.core.families.schema import Layout
from ckpt_gui.core.flat_yaml import dump
from ckpt_gui.core.formats.quantised import can_be_carried
from ckpt_gui.core.fp8 import with_plain_weights
from ckpt_gui.core.keys import anonymous, safe_text, template
from ckpt_gui.core.layouting import left_behind, to_layout
from ckpt_gui.core.litgpt_config import NAME as LIT
from ckpt_gui.core.litgpt_config import lit_config, no_lit_config
from ckpt_gui.core.model_config import FLAGS, ModelConfig
from ckpt_gui.core.openai_config import to_openai
from ckpt_gui.core.ops import Cast
from ckpt_gui.core.passes import PIPELINE
from ckpt_gui.core.passes.recognise import config_of_known, told_config
from ckpt_gui.core.plan import Dropped, Entry, Plan, Step, carried
from ckpt_gui.core.program_limits import limits
from ckpt_gui.core.rank_cut import refuse_ranks
from ckpt_gui.core.tensors import ForeignObject, Sidecars, TensorSpec
from ckpt_gui.core.tile_rows import lost_rows
from ckpt_gui.core.vision_config import vision_findings

GB = 10**9


@dataclass(frozen=True, slots=True)
class Target:
    """What the user wants.

    Attributes:
        layout: `hf`, `meta`, `torchtune` or `same`.
        container: `safetensors` or `torch`; None for the layout's usual one.
        dtype: `keep`, `bf16`, `fp16` or `fp32`.
        max_shard_bytes: A safetensors file gets no larger, unless one tensor is.
        base: Config, tokenizer and generation files of another folder, for what the source lacks.
        model_parallel: Number of tensor-parallel ranks that the files are cut for; None for one file, or as many as the
            source has where the layout stays the `same`.
    """

    layout: str = "same"
    container: str | None = None
    dtype: str = "keep"
    max_shard_bytes: int = 5 * GB
    base: Sidecars | None = None
    model_parallel: int | None = None


@dataclass(frozen=True, slots=True)
class Export:
    """Everything that will be written.

    Attributes:
        plan: Where it comes from.
        target: What was wanted.
        layout: The layout of the names; None where `same` keeps unknown names.
        container: `safetensors` or `torch`.
        entries: The tensors in writing order, under the names they will have.
        dropped: Tensors that are left out, with reasons.
        beside: Tensors that are not weights and are carried as they are, in the nesting of the source.
        texts: Small files to write: name → content.
        carried: Files to copy: name → path.
        steps: The rows of the fix plan.
        findings: What the user should know of this export; a blocking one refuses it.
        left_out: Values in the source that are not tensors and will not be written.
        ranks: Tensor-parallel ranks that the files are cut for; the entries are whole all the same.
    """

    plan: Plan
    target: Target
    layout: Layout | None
    container: str
    entries: tuple[Entry, ...]
    dropped: tuple[Dropped, ...] = ()
    beside: tuple[Dropped, ...] = ()
    texts: Mapping[str, str] = field(default_factory=dict)
    carried: Mapping[str, str] = field(default_factory=dict)
    steps: tuple[Step, ...] = ()
    findings: tuple[Finding, ...] = ()
    left_out: tuple[str, ...] = ()
    ranks: int = 1

    @property
    def blocked(self) -> tuple[Finding, ...]:
        """The findings that refuse it."""
        return tuple(f for f in self.findings if f.blocking)

    @property
    def certain(self) -> bool:
        """True if no step is guessed and nothing blocks: one click may do it."""
        return not self.blocked and all(s.certain for s in self.steps)

    @property
    def nbytes(self) -> int:
        """Bytes of tensor data to be written; aliases in a torch file counted once."""
        if self.container == "torch":
            return sum({e.identity: e.output.nbytes for e in self.entries}.values())
        return sum(e.output.nbytes for e in self.entries)


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
    export = Export(plan, target, layout, _container(plan, target), (), ranks=_rank_count(plan, target))
    if (target.layout != "same" and layout is None) or (target.layout == "same" and plan.source.container == "gguf"):
        findings = worst_first((*plan.findings, _no_layout(plan, target)))
        return dataclasses.replace(export, entries=plan.weights, dropped=plan.dropped, findings=findings)
    if target.layout != "same":
        plan = with_plain_weights(plan)
        export = dataclasses.replace(export, plan=plan)
    entries, dropped = _tied(plan, layout, target)
    entries, left, told = left_behind(entries, layout, plan)
    layout, misplaced = _numbered(plan, layout)
    export = dataclasses.replace(export, layout=layout)
    entries, lacking = to_layout(entries, layout, plan)
    own = _own_types(plan, layout)
    entries = tuple(e if template(e.key) in own else _cast(e, target.dtype) for e in entries)
    loose = tuple(_cast(e, target.dtype) for e in plan.unmapped)
    buffers, gone = _buffers(plan, target)
    aside = ("not-weights", "other-section") if carries_tree(export) else ()
    export = dataclasses.replace(
        export,
        entries=(*entries, *loose, *buffers),
        dropped=(*(d for d in gone if d.kind not in aside), *dropped, *left),
        beside=tuple(d for d in gone if d.kind in aside),
        left_out=_left_out(export),
    )
    config = _config(plan, target)
    export = _with_files(export, config)
    findings = (*_settled(plan, export), *_refusals(export, config), *lacking, *misplaced, *told)
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
    export = Export(plan, target, layout, container, plan.weights, plan.dropped)
    if layout is None:
        text = f"An adapter can not be written as {target.layout}."
        fix = "Write it as hf (PEFT) or torchtune, or merge it into its base: fix BASE --adapter DIR."
        finding = Finding("unknown-layout", "error", text, fix=fix, blocking=True)
        return dataclasses.replace(export, findings=worst_first((*plan.findings, finding)))
    entries, config, refused = convert_adapter(plan, layout)
    entries = tuple(_cast(e, target.dtype) for e in (*entries, *plan.unmapped))
    texts = {ADAPTER_CONFIG: _json(config)} if config else {}
    export = dataclasses.replace(export, entries=entries, texts=texts)
    findings = (*_settled(plan, export), *(f for f in (_heads(export), _twins(export)) if f), *refused)
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
    if plan.family is None:
        text = f"The family of this checkpoint is not known, so it can not be written as {target.layout}."
    else:
        text = f"{plan.family.title} has no layout {target.layout}."
    return Finding("unknown-layout", "error", text, fix="Write it without wrappers with --to same.", blocking=True)


def _tied(plan: Plan, layout: Layout | None, target: Target) -> tuple[tuple[Entry, ...], tuple[Dropped, ...]]:
    """Add or leave out the output head as the layout and the policy want it."""
    if layout is None or plan.family is None:
        return plan.entries, ()
    hub = plan.family.role("head")
    head = next((e for e in plan.entries if e.key == hub), None)
    embedding = next((e for e in plan.entries if e.key == plan.family.role("embedding")), None)
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


def carries_tree(export: Export) -> bool:
    """Return True if the export keeps the nesting of the source, and what is not a weight where it is inert."""
    source = export.plan.source
    one = source.tree is not None and len(source.files) == 1
    return one and export.target.layout == "same" and export.container == "torch"


def _left_out(export: Export) -> tuple[str, ...]:
    """Return the places of values that are not tensors and that an export in the same layout does not carry."""
    source = export.plan.source
    if export.target.layout != "same":
        return ()  # weights alone are what is wanted
    if not carries_tree(export):
        return tuple(".".join(extra.path) for extra in source.extras)
    found = _foreign(source.tree)
    return tuple(sorted(f"{'.'.join(where) or 'the whole'} ({name})" for where, name in found))


def _foreign(tree: Any, limit: int = 1000) -> list[tuple[tuple[str, ...], str]]:
    """Return place and class of the foreign objects in a tree, up to a limit."""
    found: list[tuple[tuple[str, ...], str]] = []
    stack: list[tuple[Any, tuple[str, ...]]] = [(tree, ())]
    while stack and len(found) < limit:
        item, where = stack.pop()
        if isinstance(item, ForeignObject):
            found.append((where, item.name))
        elif isinstance(item, dict):
            stack += [(v, (*where, str(k))) for k, v in item.items()]
        elif type(item) in (list, tuple):
            stack += [(v, (*where, str(i))) for i, v in enumerate(item)]
    return found


def export_dtype(export: Export) -> str:
    """Return the element type of most of the weights."""
    counts: Counter[str] = Counter()
    for entry in export.entries:
        if BY_NAME[entry.output.dtype].kind == "float":
            counts[entry.output.dtype] += entry.output.numel
    return counts.most_common(1)[0][0] if counts else "bf16"


def _config(plan: Plan, target: Target) -> ModelConfig | None:
    """Return the source's config; where it has none, that of the published model that has its sizes."""
    found = config_of_known(plan) if target.layout != "same" else None
    return found[0] if found else plan.config


def _with_files(export: Export, config: ModelConfig | None) -> Export:
    """Add the config files to write and the sidecars to carry."""
    texts: dict[str, str] = {}
    plan, name = export.plan, export.layout.name if export.layout else None
    enough = {"heads", "kv_heads", "hidden", "ffn"} <= plan.dims.keys()
    codes = export.target.layout == "same" and any(f.code == "quantised" for f in plan.findings)  # shapes tell no size
    if config and plan.family and not codes and (enough or (config.is_hf and not _stated_heads(plan))):
        if name and KINDS[name].config == "config.json":
            made = _hf(export, config)
            texts["config.json"] = _json(to_openai(made) if name == "openai" else made)
            if name == "litgpt" and (lit := lit_config(plan.family, config, made, plan.dims)) is not None:
                texts[LIT] = dump(lit)
        elif name in ("meta", "mixtral-release") and enough:
            heads = max(plan.dims["kv_heads"], export.ranks)  # copies count, in files for more ranks than heads
            texts["params.json"] = _json(meta_params(plan.family, config, {**plan.dims, "kv_heads": heads}))
    elif config and export.target.layout == "same":
        known = config.is_hf and plan.tie.tied is not None
        raw = with_flag(config.raw, bool(plan.tie.tied)) if known else config.raw
        texts["params.json" if config.origin == "params.json" else "config.json"] = _json(raw)
    carried = _carried(export, texts)
    return dataclasses.replace(export, texts=texts, carried=carried)


def _hf(export: Export, config: ModelConfig) -> dict[str, Any]:
    plan = export.plan
    assert plan.family is not None
    present = {template(e.key) for e in plan.entries}
    biases = {s.when for s in plan.family.slots if s.when in FLAGS and anonymous(s.key) in present}
    return hf_config(
        plan.family, config, plan.dims, dtype=export_dtype(export), tied=bool(plan.tie.tied), biases=frozenset(biases)
    )


def _carried(export: Export, texts: Mapping[str, str]) -> dict[str, str]:
    """Return the sidecar files to copy; the base folder fills what the source lacks."""
    found: dict[str, str] = {}
    for sidecars in (export.target.base, export.plan.source.sidecars):
        if sidecars and sidecars.folder:
            found |= {name: f"{sidecars.folder}/{name}" for name in sidecars.carried if name not in texts}
    return found


def _json(value: Mapping[str, Any]) -> str:
    return json.dumps(value, indent=2, ensure_ascii=True, default=str) + "\n"


# Findings of the plan that say what an export mends; in the export they are steps.
_MENDED = frozenset(
    {
        "wrapper-prefix",
        "index-missing",
        "index-stale",
        "renamed",
        "tied-redundant",
        "tied-renamed",
        "nested-state-dict",
        "computed-buffer",
        "config-mismatch",
        "lora-unmerged",
    }
)


def _settled(plan: Plan, export: Export) -> tuple[Finding, ...]:
    """Return the plan's findings that still hold for the export."""
    said_again = {"config-missing"} if export.target.layout != "same" else frozenset()
    kept = (f for f in plan.findings if f.code not in _MENDED | said_again)
    return tuple(_codes_kept(f, plan, export) if f.code == "quantised" else f for f in kept)


def _codes_kept(finding: Finding, plan: Plan, export: Export) -> Finding:
    """Let quantised weights through where every byte of them stays as it is, under names that still fit together."""
    stored = {ref.full_key for ref in plan.source.refs}
    same = export.target.layout == "same" and export.target.dtype == "keep" and not plan.prefix
    if not same or not can_be_carried(finding, stored):
        return finding
    return finding.replace(blocking=False, severity="info", fix="Codes and scales are carried as they are.")


def _refusals(export: Export, config: ModelConfig | None) -> list[Finding]:
    """Return what stands in the way of this export, and what it will lack."""
    found = [f for f in (_heads(export), _row_order(export), _drop_refused(export), _twins(export)) if f]
    if export.ranks > 1:
        found += refuse_ranks(export.entries, export.ranks, export.layout, export.container, export.plan)
    name = export.layout.name if export.layout else None
    if told := told_config(export.plan) if config else "":
        found.append(_known_config(export, told))
    if config is None and name and export.target.layout != "same":
        text = f"No config is known, so the {name} folder gets none: its weights load, but not by folder name alone."
        found.append(Finding("config-missing", "info", text, fix="Name a folder that has one with --base DIR."))
    if config and config.rope_unknown and name and KINDS[name].config == "config.json":
        found.append(_rope_factor())
    if config and export.plan.family and export.layout:
        writes = name is not None and KINDS[name].config == "config.json"
        found += vision_findings(export.plan.family, config, export.plan.dims, export.layout, writes_config=writes)
    if config and name == "meta" and (config.rope_scaling or {}).get("rope_type", "llama3") != "llama3":
        found.append(_rope_kind(config))
    if config and name == "litgpt" and (lost := no_lit_config(config)):
        found.append(lost)
    if name == "hf" and export.target.layout != "same" and not _has_tokenizer(export):
        text = "No tokenizer lies beside the weights, so text can not go in and out of the export yet."
        found.append(Finding("tokenizer-missing", "info", text, fix="Name a folder that has one with --base DIR."))
    found += limits(export.plan, export.layout)
    return found


def _heads(export: Export) -> Finding | None:
    needing = [e for e in export.entries if set(needed_dims(e.expr)) - export.plan.dims.keys()]
    if needing:
        rows = " × ".join(str(s) for s in needing[0].output.shape)
        text = (
            f"The rows of {len(needing)} q and k tensors must be reordered head by head, and "
            f"{_stated_heads(export.plan) or 'head counts are not known'} "
            f"(`{safe_text(needing[0].ref.key)}` is {rows})."
        )
        fix = "Give a config.json or params.json with --config, or the counts with --heads and --kv-heads."
        return Finding("heads-unknown", "error", text, tuple(e.ref.key for e in needing), fix, blocking=True)
    stated = _stated_heads(export.plan)
    if stated and export.target.layout != "same":
        text = f"The export needs a config.json or params.json with true head counts, and {stated}."
        fix = "Give the right counts with --heads and --kv-heads, or the right config.json with --config."
        return Finding("heads-unknown", "error", text, fix=fix, blocking=True)
    return _unfitting(export)


def _unfitting(export: Export) -> Finding | None:
    """Return what is wrong with the first tensor whose shape its ops do not take."""
    for entry in export.entries:
        if isinstance(entry.expr, Made):
            try:
                check_heads(entry.expr, export.plan.dims)
            except CheckpointError as error:
                return error.as_finding().replace(blocking=True)
    return None


def _stated_heads(plan: Plan) -> str:
    """Return which head counts were given that do not fit the tensors; empty if none were, or if they fit."""
    policy, given = plan.policy, plan.config.dims if plan.config else {}
    heads = policy.heads or given.get("heads")
    if plan.family is None or heads is None or "heads" in plan.dims:
        return ""
    kv_heads = policy.kv_heads or (None if policy.heads else given.get("kv_heads"))
    size = None if policy.heads else given.get("head_dim")
    origin = plan.config.origin if plan.config and not policy.heads else "your choice"
    text = f"the head counts of {origin} ({heads:,} heads"
    text += f", {kv_heads:,} key/value heads" if kv_heads else ""
    return text + (f", {size:,} rows each" if size else "") + ") do not fit the tensors"


def _row_order(export: Export) -> Finding | None:
    if "permute" not in export.plan.policy.skip:
        return None
    layout, plan = export.layout, export.plan
    orders = dict(plan.family.row_order) if plan.family else {}
    if layout is None or plan.layout is None or orders.get(layout.name) == orders.get(plan.layout.name):
        return None
    text = f"Without the reordering of q and k rows the {layout.name} export would load and produce gibberish."
    return Finding("rope-permuted", "error", text, fix="Tick the reordering step again.", blocking=True)


def _drop_refused(export: Export) -> Finding | None:
    tie = export.plan.tie
    if export.plan.policy.tie != "drop" or tie.state not in ("different", "unchecked"):
        return None
    assert tie.head is not None
    text = f"`{safe_text(tie.head.key)}` is not known to equal the embedding, so it is not dropped."
    return Finding("tied-conflict", "error", text, (tie.head.key,), "Use --tie auto or keep.", blocking=True)


def _twins(export: Export) -> Finding | None:
    counts = Counter(e.key for e in export.entries)
    twice = [key for key, n in counts.items() if n > 1]
    if not twice:
        return None
    keys = tuple(e.ref.key for e in export.entries if e.key == twice[0])
    text = (
        f"{len(keys)} tensors would be written as `{safe_text(twice[0])}`: {', '.join(safe_text(k) for k in keys[:4])}."
    )
    return Finding("key-collision", "error", text, keys, "Leave all but one of them out.", blocking=True)


def _known_config(export: Export, told: str) -> Finding:
    text = f"No config lies beside the weights; {' and '.join(export.texts) or 'the config'} is {told}."
    found = config_of_known(export.plan)
    certain = found is not None and found[1]
    fix = "Give the model's own config with --config if it was trained otherwise."
    return Finding("config-missing", "info" if certain else "warning", text, fix=fix)


def _rope_factor() -> Finding:
    text = "params.json asks for scaled rotary frequencies (use_scaled_rope) and does not say by which factor."
    fix = "Give the model's config.json with --config, or add rope_scaling_factor (8 for Llama 3.1, 32 for 3.2) to it."
    return Finding("config-mismatch", "error", text, fix=fix, blocking=True)


def _rope_kind(config: ModelConfig) -> Finding:
    kind = safe_text(str((config.rope_scaling or {}).get("rope_type")), 40)
    text = f"Meta's programs know no rotary scaling of the kind {kind}: they would compute other logits."
    return Finding("config-mismatch", "warning", text, fix="params.json keeps it for the way back to hf or torchtune.")


def _has_tokenizer(export: Export) -> bool:
    base = export.target.base
    return bool(export.plan.source.sidecars.tokenizer or (base and base.tokenizer))
