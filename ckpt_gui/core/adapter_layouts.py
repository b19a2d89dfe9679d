"""Adapters in another tool's names: PEFT ⇄ torchtune.

A family's own rules say how: where the rows of a weight change places, those of B and of DoRA's lengths do, and A,
which has no rows of the weight, does not. (torchtune's exporter reorders B for every family, also where the weights are
not reordered, and the lengths for none.) Where a layout fuses weights, B is cut into their rows and A goes with each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from ckpt_gui.core.adapters import PREFIX, Adapter, Lora
from ckpt_gui.core.entry import Entry
from ckpt_gui.core.errors import CheckpointError, Finding
from ckpt_gui.core.exprs import Expr, Made, shape_of
from ckpt_gui.core.families.rules import parted, to_hub, to_stored
from ckpt_gui.core.families.schema import Layout
from ckpt_gui.core.keys import anonymous, bind, indices, safe_text, template
from ckpt_gui.core.passes.adapter import LAYOUTS
from ckpt_gui.core.passes.adapter_findings import BASE_LAYOUT, from_base, scaled_biases, scales
from ckpt_gui.core.passes.expectation import stored_keys
from ckpt_gui.core.plan import Plan
from ckpt_gui.core.tensors import TensorSpec

_BY_ROWS = ("permute", "take")  # ops that move rows and nothing else
_STYLES = {"hf": "peft", "torchtune": "torchtune"}
CONFIG = "adapter_config.json"
_A = ".lora_A.weight"


class _Refused(Exception):
    """A module can not be written in the other layout; the text says why."""


def adapter_layout(plan: Plan, wanted: str) -> Layout | None:
    """Return the layout in which an adapter is written for `hf`, `torchtune` or `same`; None for another."""
    if plan.adapter is None:
        return None
    style = plan.adapter.style if wanted == "same" else _STYLES.get(wanted)
    return LAYOUTS[style] if style else None


def convert_adapter(plan: Plan, layout: Layout) -> tuple[tuple[Entry, ...], dict[str, Any], tuple[Finding, ...]]:
    """Return an adapter's tensors in another layout, its adapter_config.json, and what can not be expressed."""
    adapter = plan.adapter
    assert adapter is not None
    if layout is plan.layout:
        return plan.entries, _same_config(adapter), ()
    if adapter.others:
        return plan.entries, {}, tuple(f.replace(blocking=True) for f in plan.findings if f.code == "adapter-unmatched")
    if plan.family is None:
        return plan.entries, {}, (_no_family(plan),)
    entries: list[Entry] = []
    refused: dict[str, list[str]] = {}
    for lora in adapter.loras:
        try:
            entries += _converted(lora, plan, layout)
        except _Refused as reason:
            refused.setdefault(str(reason), []).append(lora.a.key)
    for name, ref in adapter.whole.items():
        try:
            ((stored, expr),) = _rows(f"{name}", ref, plan, layout)
            entries.append(_entry(_prefix(layout) + stored, expr, ref.dtype, plan))
        except (_Refused, ValueError):
            refused.setdefault("has no name there", []).append(ref.key)
    for tokens in adapter.tokens:
        refused.setdefault("are rows of an embedding, which torchtune does not train apart", []).append(tokens.rows.key)
    findings = [_refused(layout, reason, keys) for reason, keys in refused.items()]
    if layout.name == "torchtune-adapter" and len({(lora.rank, lora.scale) for lora in adapter.loras}) > 1:
        findings.append(_uneven(adapter))
    if (odd := scaled_biases(adapter, _biased(plan, adapter))) is not None:
        findings.append(odd)
    if (begun := from_base(adapter)) is not None:
        text = "torchtune adds B · A to the base as it is, and this adapter was trained beside what was left of it."
        findings.append(begun.replace(severity="error", message=text, blocking=True))
    if layout.name == "torchtune-adapter" and adapter.whole:
        findings.append(_whole_for_torchtune(adapter))
    config = _config(plan, entries, layout) if adapter.loras else dict(adapter.config)
    return tuple(entries), config, tuple(findings)


def _biased(plan: Plan, adapter: Adapter) -> list[str]:
    """Return the DoRA modules that have a bias in every model of the family."""
    layout = plan.family.layout(BASE_LAYOUT[adapter.style]) if plan.family else None
    if plan.family is None or layout is None:
        return []
    always = {t for t, rule in layout.by_stored.items() if not plan.family.by_slot[anonymous(rule.hubs[0])].when}
    return [x.module for x in adapter.loras if x.lengths is not None and template(f"{x.module}.bias") in always]


def _prefix(layout: Layout) -> str:
    return PREFIX if layout.name == "peft-adapter" else ""


def _converted(lora: Lora, plan: Plan, layout: Layout) -> list[Entry]:
    if lora.embedding:
        raise _Refused("is on an embedding, which torchtune's adapters can not be")
    if lora.bias is not None:
        raise _Refused("has a trained bias, for which torchtune's adapters have no place")
    name = f"{lora.module}.weight"
    lengths = _rows(name, lora.lengths, plan, layout) if lora.lengths is not None else []
    made: list[Entry] = []
    for i, (stored, b) in enumerate(_rows(name, lora.b, plan, layout)):
        module = _prefix(layout) + stored.removesuffix(".weight")
        peft = layout.name == "peft-adapter"
        a_name, b_name = ("lora_A.weight", "lora_B.weight") if peft else ("lora_a.weight", "lora_b.weight")
        made.append(_entry(f"{module}.{a_name}", lora.a, lora.a.dtype, plan))
        made.append(_entry(f"{module}.{b_name}", b, lora.b.dtype, plan))
        if lora.lengths is not None:
            last = "lora_magnitude_vector" if peft else "magnitude"
            made.append(_entry(f"{module}.{last}", lengths[i][1], lora.lengths.dtype, plan))
    return made


def _entry(key: str, expr: Expr, dtype: str, plan: Plan) -> Entry:
    try:
        shape = shape_of(expr, plan.dims)
    except KeyError:  # a head count is lacking: the export says so and is refused
        shape = next(iter(Entry(TensorSpec(key, dtype, ()), expr).inputs)).shape
    except CheckpointError as error:
        raise _Refused(f"does not fit the head counts ({error.message})") from error
    return Entry(TensorSpec(key, dtype, shape), expr, "the module has another name")


def _rows(name: str, expr: Expr, plan: Plan, layout: Layout) -> list[tuple[str, Expr]]:
    """Return the stored names in another layout of what a stored weight holds, with its rows in their order there."""
    assert plan.family is not None
    assert plan.adapter is not None
    before = plan.family.layout(BASE_LAYOUT[plan.adapter.style])
    after = plan.family.layout("hf" if layout.name == "peft-adapter" else "torchtune")
    rule = before.by_stored.get(template(name)) if before else None
    if rule is None or after is None or rule.stack:
        raise _Refused(f"is no module of {plan.family.title} in this layout")
    if rule.merges:
        raise _Refused("is a part of a fused one there, and a pair can not be put together with those of others")
    if rule.kind or after.numbering:
        raise _Refused("is in a layer that has another number there, which the adapter alone does not tell")
    made = []
    for hub, part in to_hub(rule, expr, bind(rule.name, name)):
        target = after.by_hub.get(template(hub))
        if target is None or not isinstance(target.hub, str) or target.stack:
            raise _Refused("is fused with others there, and a pair can not be put together with those of others")
        parts = parted(target, part) if target.merges else [to_stored(target, [part])]
        made += list(zip(stored_keys(target, hub), map(_by_rows, parts), strict=True))
    return made


def _by_rows(expr: Expr) -> Expr:
    """Return what moves rows and nothing else, as B and the lengths have rows and nothing else of the weight."""
    names = {op.name for op in Entry(TensorSpec("", "", ()), expr).ops} if isinstance(expr, Made) else set()
    if not names <= set(_BY_ROWS):
        raise _Refused("is stored in another shape there")
    return expr


# ------------------------------------------------------------------------------------------------ adapter_config.json


def _same_config(adapter: Adapter) -> dict[str, Any]:
    if adapter.config or not adapter.loras or adapter.loras[0].alpha is None:
        return dict(adapter.config)
    return {"r": adapter.loras[0].rank, "lora_alpha": _whole(adapter.loras[0].alpha)}


def _whole(alpha: float) -> float | int:
    return int(alpha) if alpha.is_integer() else alpha


def _config(plan: Plan, entries: Sequence[Entry], layout: Layout) -> dict[str, Any]:
    """Return adapter_config.json: modules by their Hugging Face names, in both layouts (torchtune writes it so)."""
    adapter = plan.adapter
    assert adapter is not None
    ranks = {lora.module: lora.rank for lora in adapter.loras}
    alphas = {lora.module: _whole((lora.scale or 0.0) * lora.rank) for lora in adapter.loras}  # without rslora's root
    rank, alpha = (Counter(values.values()).most_common(1)[0][0] for values in (ranks, alphas))
    config = {
        "peft_type": "LORA", "task_type": "CAUSAL_LM", "base_model_name_or_path": "", "bias": "none",
        "fan_in_fan_out": False, "inference_mode": True, "lora_dropout": 0.0,
    }  # fmt: skip
    config |= {name: value for name, value in adapter.config.items() if value is not None}
    config |= {"r": rank, "lora_alpha": alpha, "use_dora": adapter.dora, "use_rslora": False}
    if adapter.style == "peft":
        names = {lora.module: lora.module for lora in adapter.loras}
    else:
        modules = [e.key.removeprefix(PREFIX)[: -len(_A)] for e in entries if e.key.endswith(_A)]
        names = dict(zip(ranks, modules, strict=False))
    if adapter.style != "peft" or not config.get("target_modules"):
        config["target_modules"] = _targets(list(names.values()), plan.dims)
    config["rank_pattern"] = {names[m]: value for m, value in ranks.items() if value != rank and m in names}
    config["alpha_pattern"] = {names[m]: value for m, value in alphas.items() if value != alpha and m in names}
    return config


def _targets(names: Sequence[str], dims: Mapping[str, int]) -> list[str]:
    """Return target_modules: the last names, or whole ones where not every layer has the module."""
    layers: dict[str, set[tuple[int, ...]]] = {}
    for name in names:
        layers.setdefault(name.rpartition(".")[2], set()).add(indices(name)[:1])
    numbers = {n for found in layers.values() for n in found if n}
    count = dims.get("layers") or len(numbers)
    wanted = {(i,) for i in range(count)}
    if all(found in (wanted, {()}) for found in layers.values()):
        return sorted(layers)
    return sorted(names)


# ----------------------------------------------------------------------------------------------------------- findings


def _no_family(plan: Plan) -> Finding:
    text = "The family of the adapter's base is not known, so its names and rows can not be written for another tool."
    fix = "Name the family with --family, or the base with --base DIR."
    return Finding("unknown-layout", "error", text, fix=fix, blocking=True)


def _refused(layout: Layout, reason: str, keys: Sequence[str]) -> Finding:
    text = f"{len(keys):,} tensors of the adapter can not be written as {layout.name}: `{safe_text(keys[0])}` {reason}."
    fix = "Merge the adapter into its base instead: fix BASE --adapter DIR."
    return Finding("unknown-layout", "error", text, tuple(keys), fix, blocking=True)


def _uneven(adapter: Adapter) -> Finding:
    text = f"The modules have several ranks or scales ({scales(adapter)}); torchtune has one of each for all of them."
    fix = "Merge the adapter into its base instead: fix BASE --adapter DIR."
    return Finding("adapter-scale", "error", text, fix=fix, blocking=True)


def _whole_for_torchtune(adapter: Adapter) -> Finding:
    keys = tuple(ref.key for ref in adapter.whole.values())
    text = f"{len(keys):,} tensors are stored whole, such as `{safe_text(keys[0])}`: torchtune reads pairs only."
    return Finding("unexpected-tensor", "warning", text, keys, "Merge the adapter into its base instead.")
