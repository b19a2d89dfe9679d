"""Give keys the names that the user gave them, before anything is concluded from names."""

from __future__ import annotations

from ckpt_gui.core.edits import KeyRule, apply_rules
from ckpt_gui.core.errors import Finding
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.plan import Plan

BY_HAND = "renamed by hand"


def edit_keys(plan: Plan) -> Plan:
    """Rename entries by the user's rules, and tell of edits that fit nothing in this checkpoint."""
    plan = plan.found(*_unknown_keys(plan))
    rules = plan.policy.key_rules
    if not rules or not plan.entries:
        return plan
    found = apply_rules([entry.key for entry in plan.entries], rules)
    changed = {place for hits in found.hits for place in hits}
    entries = tuple(
        entry.renamed(name, why=BY_HAND) if place in changed else entry
        for place, (entry, name) in enumerate(zip(plan.entries, found.names, strict=True))
    )
    keys = tuple(tuple(plan.entries[place].ref.full_key for place in hits) for hits in found.hits)
    idle = [rule for rule, hits in zip(rules, found.hits, strict=True) if rule.enabled and not hits]
    return plan.replace(entries=entries, edited=keys).found(*map(_idle, idle))


def _idle(rule: KeyRule) -> Finding:
    text = f"The rule `{safe_text(rule.find)}` → `{safe_text(rule.to)}` fits no key of this checkpoint."
    return Finding("edit-unmatched", "warning", text, fix="Change the rule, or take it out of the plan.")


def _unknown_keys(plan: Plan) -> list[Finding]:
    """Tell of keys that are to be left out or kept and that are not there: the plan is another checkpoint's."""
    wanted = plan.policy.dropped | plan.policy.kept
    absent = sorted(wanted - {ref.full_key for ref in plan.source.refs}) if wanted else []
    if not absent:
        return []
    names = ", ".join(f"`{safe_text(key)}`" for key in absent[:3]) + (" …" if len(absent) > 3 else "")
    text = f"The plan names {len(absent)} tensors that are not in this checkpoint: {names}."
    if len(absent) == 1:
        text = f"The plan names a tensor that is not in this checkpoint: {names}."
    return [Finding("edit-unmatched", "warning", text, fix="It has no effect here.")]
