"""Find the family of an adapter: by its modules' names, a config beside it, or the user."""

from __future__ import annotations

from ckpt_gui.core.adapters import Adapter
from ckpt_gui.core.errors import Finding
from ckpt_gui.core.families.registry import FAMILIES
from ckpt_gui.core.families.rule_schema import Rule
from ckpt_gui.core.families.schema import Family
from ckpt_gui.core.keys import safe_text, template
from ckpt_gui.core.passes.adapter_findings import BASE_LAYOUT
from ckpt_gui.core.plan import Plan


def adapter_family(plan: Plan) -> Plan:
    """Set the family of an adapter by its modules' names, its config, or the user."""
    if plan.adapter is None or plan.adapter.others:
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
