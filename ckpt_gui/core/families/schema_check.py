"""Hold the tables of a family to their own rules; a test does so for all families."""

from __future__ import annotations

from ckpt_gui.core.families.rule_schema import Rule
from ckpt_gui.core.families.schema import Family
from ckpt_gui.core.keys import anonymous, index_names


def check_family(family: Family) -> list[str]:
    """Return what is wrong with a family's tables, one sentence each; empty if all is well."""
    faults = []
    slots = family.by_slot
    if len(slots) != len(family.slots):
        faults.append(f"{family.name}: two slots share a template")
    for layout in family.layouts:
        if len(layout.by_stored) != sum(len(r.storeds) for r in layout.rules):
            faults.append(f"{family.name}/{layout.name}: a stored key is claimed twice")
        if layout.by_stored.keys() & layout.by_ignored.keys():
            faults.append(f"{family.name}/{layout.name}: a key is both a weight and ignored")
        if layout.by_rank.keys() - layout.by_stored.keys():
            faults.append(f"{family.name}/{layout.name}: ranks cut a tensor that has no rule")
        if not layout.source:
            faults.append(f"{family.name}/{layout.name}: no source given")
        faults += [
            f"{family.name}/{layout.name}: {hub} is no slot, or its indices differ"
            for rule in layout.rules
            for hub in rule.hubs
            if anonymous(hub) not in slots or not _same_indices(rule, hub)
        ]
        faults += [f"{family.name}/{layout.name}: the parts of {r.name} do not add up" for r in layout.rules if _odd(r)]
        made = [(anonymous(hub), r.kind) for r in layout.rules if not r.also for hub in r.hubs]
        if len(set(made)) != len(made):
            faults.append(f"{family.name}/{layout.name}: a hub key is made twice")
    return faults


def _same_indices(rule: Rule, hub: str) -> bool:
    """Return True if a hub key has the stored key's indices, and that of the stack besides."""
    found = set(index_names(hub)) - {rule.stack}
    return all(found == set(index_names(stored)) for stored in rule.storeds) and (
        not rule.stack or rule.stack in index_names(hub)
    )


def _odd(rule: Rule) -> bool:
    """Return True if a rule's parts, chains and slots are not equally many."""
    parts = len(rule.split.sizes) if rule.split else 1
    if rule.merges and (rule.stack or rule.ops or len(rule.hubs) != 1):
        return True
    return parts != len(rule.storeds if rule.merges else rule.hubs) or (bool(rule.each) and len(rule.each) != parts)
