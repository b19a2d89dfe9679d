"""Say what a model is for where that is no next token: a classifier, or a backbone of which no head is wanted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from ckpt_gui.core.families.tasks import architecture_of, backbone, classifier, holds_head, is_backbone
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.ops import Shape
from ckpt_gui.core.plan import Plan


def with_task(plan: Plan, counts: Counter[str], shapes: Mapping[str, Shape]) -> Plan:
    """Take the family for a classifier or a bare backbone where keys, config or the user say so."""
    family, layout, config = plan.family, plan.layout, plan.config
    assert family is not None
    assert layout is not None
    raw = config.raw if config and config.is_hf else {}
    found = classifier(family, layout, counts, shapes, raw)
    if found is None and (why := _headless(plan)) and not holds_head(family, layout, counts):
        tied = plan.policy.tie != "none" and bool(config and config.tie_flag(family.tie_default)[0])
        bare = plan.prefix if layout.name == "hf" and is_backbone(architecture_of(raw), family) else ""
        found = backbone(family, layout, bare, tied=tied, why=why)
        plan = plan.replace(prefix="") if bare else plan
    return plan.replace(family=found.family, layout=found.layout).explained(found.why) if found else plan


def _headless(plan: Plan) -> str:
    """Return what tells that the model has no output head and is to have none; empty if nothing does."""
    if plan.policy.tie == "none":
        return "It has no output head, by your choice."
    assert plan.family is not None
    name = architecture_of(plan.config.raw) if plan.config and plan.config.is_hf else ""
    if is_backbone(name, plan.family):
        return f"The config names {safe_text(name, 60)}, a model without output head."
    if plan.source.sidecars.embeds:
        return "modules.json lies beside it: a model that makes embeddings of texts, and has no output head."
    return ""
