"""Give tensors the names that the user wants, before the layout is told: so that a name that was wrong is understood.

A tensor is renamed as it stands after the wrappers have gone. Where two would get one name, both keep theirs and the
export is blocked; a rule that matches nothing is told, as in a plan that was made for another checkpoint.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from ckpt_gui.core.edits import Rename
from ckpt_gui.core.entry import Entry
from ckpt_gui.core.errors import CheckpointError, Finding
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.plan import Edited, Plan
from ckpt_gui.core.renames import changes

STEP = "edit"  # the steps of the rules are edit:0, edit:1 and so on


def rename_by_hand(plan: Plan) -> Plan:
    """Apply the user's rules in their order."""
    made: list[tuple[Edited, ...]] = []
    for number, rule in enumerate(plan.policy.renames):
        if f"{STEP}:{number}" in plan.policy.skip:
            made.append(())
            continue
        try:
            plan, pairs = _apply(plan, rule)
        except CheckpointError as error:
            plan, pairs = plan.found(error.as_finding().replace(blocking=True)), ()
        made.append(pairs)
    plan = plan.replace(edited=tuple(made)) if made else plan
    return plan.found(*_not_there(plan))


def _not_there(plan: Plan) -> list[Finding]:
    """Tell of tensors that shall be left out and are not there, as in a plan that was made for another checkpoint."""
    if not plan.policy.dropped:
        return []
    gone = sorted(plan.policy.dropped - {ref.full_key for ref in plan.source.refs})
    if not gone:
        return []
    some = f"`{safe_text(gone[0], 80)}`" + (f" and {len(gone) - 1:,} more" if len(gone) > 1 else "")
    text = f"The plan leaves out {some}, and this checkpoint has no such tensor."
    return [Finding("edit-unmatched", "warning", text, fix="Nothing has to be done; the plan is another checkpoint's.")]


def _apply(plan: Plan, rule: Rename) -> tuple[Plan, tuple[Edited, ...]]:
    names = [entry.key for entry in plan.entries]
    new = changes(rule, names)
    if not new and rule.kind == "key":  # the name as it stands in the file
        new = {entry.key: rule.new for entry in plan.entries if rule.old in (entry.ref.key, entry.ref.full_key)}
        new = {old: name for old, name in new.items() if old != name}
    if not new:
        return plan.found(_nothing(rule)), ()
    clashing = _clashing(plan, new)
    if clashing:
        return plan.found(*(_clash(rule, name, entries) for name, entries in clashing.items())), ()
    entries = tuple(entry.renamed(new[entry.key]) if entry.key in new else entry for entry in plan.entries)
    done = tuple(Edited(e.key, new[e.key], e.ref.full_key) for e in plan.entries if e.key in new)
    return plan.replace(entries=entries), done


def _clashing(plan: Plan, new: Mapping[str, str]) -> dict[str, list[Entry]]:
    """Return the names that two tensors would have by now and did not have before, with those tensors."""
    counts = Counter(new.get(entry.key, entry.key) for entry in plan.entries)
    twice = {name for name in set(new.values()) if counts[name] > 1}
    groups: dict[str, list[Entry]] = {}
    for entry in plan.entries if twice else ():
        name = new.get(entry.key, entry.key)
        if name in twice:
            groups.setdefault(name, []).append(entry)
    return groups


def _nothing(rule: Rename) -> Finding:
    text = f"The rule `{safe_text(rule.old, 80)}` → `{safe_text(rule.new, 80)}` fits no tensor of this checkpoint."
    return Finding("edit-unmatched", "warning", text, fix="Correct it, or leave it out.")


def _clash(rule: Rename, name: str, entries: list[Entry]) -> Finding:
    keys = tuple(entry.ref.key for entry in entries)
    some = " and ".join(f"`{safe_text(key, 80)}`" for key in keys[:3])
    text = f"The rule `{safe_text(rule.old, 80)}` would give {some} one name, `{safe_text(name, 80)}`."
    fix = "Correct the rule, or leave all but one of the tensors out."
    return Finding("key-collision", "error", text, keys, fix, blocking=True)
