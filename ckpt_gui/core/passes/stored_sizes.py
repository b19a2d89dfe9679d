"""Sizes that the stored tensors show before they have hub names: what some need to be seen in another shape.

A stack of experts is stored as one matrix by some programs; how many it holds another tensor shows. What the config
says is believed first, as head counts are nowhere to be seen.
"""

from __future__ import annotations

from ckpt_gui.core.keys import anonymous, template
from ckpt_gui.core.plan import Plan


def stored_sizes(plan: Plan, *, slices: bool = False) -> dict[str, int]:
    """Return sizes by symbol: those that the config and the user give, then those that the shapes tell.

    Args:
        plan: With its layout.
        slices: True if what ranks share has not been put together yet; then only what each holds whole tells.
    """
    sizes = dict(plan.config.dims) if plan.config else {}
    chosen = {"heads": plan.policy.heads, "kv_heads": plan.policy.kv_heads}
    return _shown(plan, slices) | sizes | {name: count for name, count in chosen.items() if count}


def _shown(plan: Plan, slices: bool) -> dict[str, int]:
    layout, slots = plan.layout, plan.family.by_slot if plan.family else {}
    found: dict[str, int] = {}
    if layout is None or not any(op.needs for rule in layout.rules for op in (*rule.ops, *sum(rule.each, ()))):
        return found
    for entry in plan.entries:
        key = template(entry.key)
        rule = layout.by_stored.get(key)
        if rule is None or rule.merges or rule.split or rule.stack or (slices and key in layout.by_rank):
            continue
        if any(op.needs for op in rule.ops):
            continue
        shape = entry.output.shape
        for op in rule.ops:
            shape = op.shape([shape], {})
        symbols = slots[anonymous(rule.hubs[0])].shape
        if len(symbols) == len(shape):
            found |= {s: n for s, n in zip(symbols, shape, strict=True) if s.isidentifier() and s not in found}
    return found
