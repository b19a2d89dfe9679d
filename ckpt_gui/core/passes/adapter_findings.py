"""What there is to say of an adapter: its kind, ranks and scales, and what of it can not be used."""

from __future__ import annotations

from collections.abc import Sequence

from ckpt_gui.core.adapters import LORA, PREFIX, TOKENS, Adapter, Lora, stated_rank, untried_patterns
from ckpt_gui.core.errors import Finding
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.plan import Plan
from ckpt_gui.core.text import plural

BASE_LAYOUT = {"peft": "hf", "torchtune": "torchtune", "litgpt": "litgpt"}  # whose names an adapter's modules have
# Ways to begin (`init_lora_weights`) in which PEFT takes the first B · A away from the base when it loads an adapter:
# the change is not B · A then. Source: peft 0.15 `tuners/lora/layer.py`, `update_layer`.
_FROM_BASE = ("pissa", "olora", "corda", "loftq")
_ALPHA = "Give it with --lora-alpha N, as it was in training; adapter_config.json would have it as lora_alpha."


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


def unbiased(lost: Sequence[Lora], where: str) -> Finding:
    """Return the finding that modules have a trained bias and no bias to add it to."""
    text = (
        f"{plural(len(lost), 'module')} of the adapter such as `{safe_text(lost[0].module)}` have a trained bias "
        f"(lora_bias), and there is none in {where} to add it to."
    )
    keys = tuple(x.bias.key for x in lost if x.bias is not None)
    fix = "A model without biases can not hold it; train without lora_bias."
    return Finding("adapter-unmatched", "error", text, keys, fix, blocking=True)


def strange_rows(module: str, where: str) -> Finding:
    """Return the finding that trained rows fit no embedding."""
    text = f"The trained rows of `{safe_text(module)}` fit no embedding in {where}."
    fix = "Take the base that the adapter was trained on, with its vocabulary as it was then."
    return Finding("adapter-unmatched", "error", text, fix=fix, blocking=True)


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


def scales(adapter: Adapter) -> str:
    """Say rank, alpha and scale of an adapter, groups of modules one after the other.

    >>> scales(Adapter("peft"))
    'no modules'
    """
    groups = adapter.groups
    rows = [_scale(group[0]) + (f" in {len(group):,} modules" if len(groups) > 1 else "") for group in groups]
    more = ["; …"] if len(rows) > 6 else []
    trained = sum(t.rows.shape[0] for t in adapter.tokens if t.rows.shape)
    told = ["; ".join(rows[:6]) + "".join(more)] if rows else []
    told += [f"{plural(trained, 'row')} of embeddings"] if trained else []
    return "; ".join(told) or "no modules"


def _scale(lora: Lora) -> str:
    kind = "DoRA, " if lora.lengths is not None else ""
    if lora.scale is None or lora.alpha is None:
        return f"{kind}rank {lora.rank:,}, alpha not known"
    return f"{kind}rank {lora.rank:,}, alpha {lora.alpha:g}, scale {lora.scale:g}"


def findings_of(plan: Plan, adapter: Adapter) -> list[Finding]:
    """Return what there is to say of an adapter as it is, whatever is done with it."""
    if adapter.kind not in (LORA, TOKENS):
        return [_kind(adapter)]
    found = [
        _several(adapter),
        _odd(adapter),
        _empty(plan, adapter),
        _ranks(adapter),
        _lost_rows(adapter),
        _packed(adapter),
        from_base(adapter),
    ]
    if adapter.bare:
        text = f"The adapter's keys lack the leading `{PREFIX}`: PEFT would find none of them and use the base alone."
        keys = tuple(lora.a.key for lora in adapter.loras)
        found.append(Finding("renamed", "warning", text, keys, "fix puts it before them."))
    return [finding for finding in found if finding is not None]


def _kind(adapter: Adapter) -> Finding:
    """Name an adapter that is not merged here: whole as it is, but where it is wrapped around its base."""
    keys = tuple(ref.key for ref in adapter.others)
    by, how = ("litgpt", "litgpt merge_lora") if adapter.style == "litgpt" else ("PEFT", "merge_and_unload")
    what = f"This is an adapter of {by}'s kind {safe_text(adapter.kind, 40)}"
    if adapter.style == "litgpt":
        what = "These are litgpt's adapters, whose pairs of q, k and v are fused in a way that the file does not tell"
    text = f"{what}{', beside the weights that it wraps' if adapter.inside else ''}: only {by} itself can merge it."
    fix = f"Merge it with {by} ({how}) and save the model then."
    finding = Finding("adapter-unmatched", "warning", text, keys, fix)
    return finding.replace(severity="error", blocking=True) if adapter.inside else finding


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
        if adapter.whole or adapter.tokens:
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


def _lost_rows(adapter: Adapter) -> Finding | None:
    """Say that nothing tells which rows of an embedding were trained."""
    lost = tuple(t.rows.key for t in adapter.tokens if t.indices is None)
    if not lost:
        return None
    text = f"`{safe_text(lost[0])}` has trained rows of an embedding, and nothing says which they are"
    fix = "adapter_config.json has them as trainable_token_indices (or token_indices), one number a row."
    return Finding("adapter-unmatched", "error", text + ".", lost, fix, blocking=True)


def _packed(adapter: Adapter) -> Finding | None:
    """Say that pairs are on parameters which hold several matrices: how B and A are cut for each is PEFT's secret."""
    names = adapter.config.get("target_parameters")
    if not isinstance(names, list) or not names:
        return None
    text = (
        f"Pairs are on parameters that hold all experts of a layer (target_parameters: {safe_text(str(names[0]), 60)})"
    )
    text += ", and the file does not tell how they are cut for each: they are not merged here."
    return Finding("adapter-unmatched", "warning", text, fix="Merge it with the PEFT that made it (merge_and_unload).")


def from_base(adapter: Adapter) -> Finding | None:
    """Return the finding that an adapter began as a part of its base: a note, for an adapter as it is."""
    begun = adapter.config.get("init_lora_weights")
    if adapter.inside or not isinstance(begun, str) or not begun.lower().startswith(_FROM_BASE):
        return None
    text = (
        f"The adapter began as a part of its base (init_lora_weights: {safe_text(begun, 40)}): PEFT takes that part "
        "away from the base when it loads it, and what training changed is not B · A alone."
    )
    fix = (
        "Merge it with PEFT (merge_and_unload), or save it with path_initial_model_for_weight_conversion. If the base "
        "is what was left of it, set init_lora_weights to true in adapter_config.json."
    )
    return Finding("adapter-scale", "info", text, tuple(x.a.key for x in adapter.loras), fix)


def other_base(adapter: Adapter, kind: str) -> Finding | None:
    """Return the finding that an adapter was trained on a model of another class than its base's.

    Args:
        adapter: The adapter.
        kind: The class that the base's config names; empty where it names none.
    """
    told = adapter.config.get("auto_mapping")
    trained = told.get("base_model_class") if isinstance(told, dict) else None
    if not isinstance(trained, str) or not kind or trained == kind:
        return None
    text = f"adapter_config.json says that the adapter was trained on a {safe_text(trained, 60)}; the base is a "
    fix = "Take the base that the adapter was trained on; where shapes fit, nothing else tells."
    return Finding("adapter-unmatched", "warning", f"{text}{safe_text(kind, 60)}.", fix=fix)


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
