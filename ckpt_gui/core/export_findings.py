"""What should be known of an export: what refuses it, what it lacks, and what still holds of the plan."""

from __future__ import annotations

from collections import Counter

from ckpt_gui.core.entry import changing
from ckpt_gui.core.errors import CheckpointError, Finding
from ckpt_gui.core.export import Export
from ckpt_gui.core.exprs import check_heads, needed_dims
from ckpt_gui.core.families.layouts import KINDS
from ckpt_gui.core.formats.quantised import can_be_carried
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.litgpt_config import no_lit_config
from ckpt_gui.core.model_config import ModelConfig
from ckpt_gui.core.passes.recognise import config_of_known, told_config
from ckpt_gui.core.plan import Plan
from ckpt_gui.core.program_limits import limits
from ckpt_gui.core.rank_cut import refuse_ranks
from ckpt_gui.core.stated_heads import stated_heads
from ckpt_gui.core.vision_config import vision_findings

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


def settled(plan: Plan, export: Export) -> tuple[Finding, ...]:
    """Return the plan's findings that still hold for the export."""
    said_again = {"config-missing"} if export.target.layout != "same" else frozenset()
    kept = (f for f in plan.findings if f.code not in _MENDED | said_again)
    return tuple(_codes_kept(f, plan, export) if f.code == "quantised" else f for f in kept)


def _codes_kept(finding: Finding, plan: Plan, export: Export) -> Finding:
    """Let quantised weights through where every byte of them stays as it is, under names that still fit together."""
    stored = {ref.full_key for ref in plan.source.refs}
    if export.target.layout != "same":
        return finding
    changed = export.target.dtype != "keep" or any(
        op.name == "dequantise" for e in changing(export.entries) for op in e.ops
    )
    if changed or plan.prefix or not can_be_carried(finding, stored):
        return finding.replace(blocking=True, severity="error")
    return finding.replace(blocking=False, severity="info", fix="Codes and scales are carried as they are.")


def refusals(export: Export, config: ModelConfig | None) -> list[Finding]:
    """Return what stands in the way of this export, and what it will lack."""
    found = [f for f in (heads_finding(export), _row_order(export), _drop_refused(export), twins(export)) if f]
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
    rope = (config.rope_scaling or {}).get("rope_type", "default") if config else "default"
    if config and name == "meta" and rope not in ("llama3", "default"):
        found.append(_rope_kind(config))
    if config and name == "litgpt" and (lost := no_lit_config(config)):
        found.append(lost)
    if name == "hf" and export.target.layout != "same" and not _has_tokenizer(export):
        text = "No tokenizer lies beside the weights, so text can not go in and out of the export yet."
        found.append(Finding("tokenizer-missing", "info", text, fix="Name a folder that has one with --base DIR."))
    found += limits(export.plan, export.layout)
    return found


def heads_finding(export: Export) -> Finding | None:
    """Return why rows can not be reordered: head counts that are not known, or do not fit; None if they can."""
    needing = [e for e in changing(export.entries) if set(needed_dims(e.expr)) - export.plan.dims.keys()]
    if needing:
        rows = " × ".join(str(s) for s in needing[0].output.shape)
        text = (
            f"The rows of {len(needing)} q and k tensors must be reordered head by head, and "
            f"{stated_heads(export.plan) or 'head counts are not known'} "
            f"(`{safe_text(needing[0].ref.key)}` is {rows})."
        )
        fix = "Give a config.json or params.json with --config, or the counts with --heads and --kv-heads."
        return Finding("heads-unknown", "error", text, tuple(e.ref.key for e in needing), fix, blocking=True)
    stated = stated_heads(export.plan)
    if stated and export.target.layout != "same":
        text = f"The export needs a config.json or params.json with true head counts, and {stated}."
        fix = "Give the right counts with --heads and --kv-heads, or the right config.json with --config."
        return Finding("heads-unknown", "error", text, fix=fix, blocking=True)
    return _unfitting(export)


def _unfitting(export: Export) -> Finding | None:
    """Return what is wrong with the first tensor whose shape its ops do not take."""
    for entry in changing(export.entries):
        try:
            check_heads(entry.expr, export.plan.dims)
        except CheckpointError as error:
            return error.as_finding().replace(blocking=True)
    return None


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


def twins(export: Export) -> Finding | None:
    """Return what would be written twice under one name; None if nothing would."""
    if all(group.distinct == len(group.places) for group in export.entries.groups.values()):
        return None
    counts = Counter(e.key for e in export.entries)
    twice = [key for key, n in counts.items() if n > 1]
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
