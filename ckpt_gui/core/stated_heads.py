"""Head counts that were given, and whether the tensors bear them out."""

from __future__ import annotations

from ckpt_gui.core.plan import Plan


def stated_heads(plan: Plan) -> str:
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
