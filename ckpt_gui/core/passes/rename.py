"""Give every tensor its hub name, with the ops that its values need.

Computed buffers are left out by the layout's own table, with its reason. What fits no slot is kept as unmapped: it is
never dropped because it is unknown.
"""

from __future__ import annotations

from ckpt_gui.core.errors import Finding
from ckpt_gui.core.families.common import common_ignored
from ckpt_gui.core.families.schema import Ignored, Layout
from ckpt_gui.core.keys import bind, safe_text, template
from ckpt_gui.core.plan import Dropped, Entry, Plan


def rename(plan: Plan) -> Plan:
    """Rename entries to hub names; sort out buffers and tensors that fit nothing."""
    entries: list[Entry] = []
    unmapped: list[Entry] = []
    dropped: list[Dropped] = []
    normal: dict[str, bool] = {}
    for entry in plan.entries:
        ignored = _ignored(entry.key, plan.layout, plan.prefix)
        if ignored and "buffers" not in plan.policy.skip:
            dropped.append(Dropped(entry.ref, ignored.reason, "buffer", entry.key))
            normal[entry.key] = ignored.normal
        elif renamed := _to_hub(entry, plan.layout, plan.prefix):
            entries.append(renamed)
        else:
            unmapped.append(entry)
    plan = plan.replace(entries=tuple(entries), unmapped=tuple(unmapped), dropped=(*plan.dropped, *dropped))
    return _settle_collisions(_note_buffers(plan, dropped, normal))


def _to_hub(entry: Entry, layout: Layout | None, prefix: str) -> Entry | None:
    if layout is None:
        return None
    key, shape = entry.key, template(entry.key)
    rule = layout.by_stored.get(shape)
    if rule is None and prefix:
        key, rule = prefix + key, layout.by_stored.get(prefix + shape)
    if rule is None:
        return None
    return entry.renamed(rule.hub.format(**bind(rule.stored, key)), why=f"{rule.stored} is {rule.hub}", ops=rule.ops)


def _ignored(key: str, layout: Layout | None, prefix: str) -> Ignored | None:
    if layout is not None:
        shape = template(key)
        found = layout.by_ignored.get(shape) or (layout.by_ignored.get(prefix + shape) if prefix else None)
        if found:
            return found
    return common_ignored(key)


def _note_buffers(plan: Plan, dropped: list[Dropped], normal: dict[str, bool]) -> Plan:
    for reason in dict.fromkeys(d.reason for d in dropped):
        keys = tuple(d.ref.key for d in dropped if d.reason == reason)
        usual = all(normal[d.key] for d in dropped if d.reason == reason)
        verb, _, rest = reason.partition(" ")
        one = f"`{safe_text(keys[0])}` {verb} {rest}."
        text = one if len(keys) == 1 else f"{len(keys)} tensors such as `{safe_text(keys[0])}` {verb[:-1]} {rest}."
        fix = "It is normal in this layout and not carried to another." if usual else "fix leaves it out."
        plan = plan.found(Finding("computed-buffer", "info" if usual else "warning", text, keys, fix))
    return plan


def _settle_collisions(plan: Plan) -> Plan:
    """Take entries that would have one name out of the model and block."""
    groups: dict[str, list[Entry]] = {}
    for entry in plan.entries:
        groups.setdefault(entry.key, []).append(entry)
    clashing = [group for group in groups.values() if len(group) > 1]
    if not clashing:
        return plan
    stuck = {id(e) for group in clashing for e in group}
    loose = tuple(e.renamed(e.ref.key, why="", ops=()) for group in clashing for e in group)
    findings = tuple(_collision(group) for group in clashing)
    entries = tuple(e for e in plan.entries if id(e) not in stuck)
    return plan.replace(entries=entries, unmapped=(*plan.unmapped, *loose)).found(*findings)


def _collision(group: list[Entry]) -> Finding:
    keys = tuple(e.ref.key for e in group)
    names = " and ".join(f"`{safe_text(k)}`" for k in keys)
    return Finding(
        "key-collision", "error", f"{names} stand for the same tensor, `{safe_text(group[0].key)}`.", keys,
        "Nothing is written until you leave one of them out.", blocking=True,
    )  # fmt: skip
