"""Give every tensor its hub name, with the ops that its values need.

Computed buffers are left out by the layout's own table, with its reason. What fits no slot is kept as unmapped: it is
never dropped because it is unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ckpt_gui.core.entry import Entries, Entry, carried, explained_all, renamed_all
from ckpt_gui.core.errors import CheckpointError, Finding
from ckpt_gui.core.exprs import chain, shape_of
from ckpt_gui.core.families.common import common_ignored
from ckpt_gui.core.families.layouts import title_of
from ckpt_gui.core.families.rule_schema import Rule
from ckpt_gui.core.families.rules import joined, to_hub
from ckpt_gui.core.families.schema import Ignored, Layout
from ckpt_gui.core.keys import anonymous, bind, renaming, safe_text, template
from ckpt_gui.core.passes.stored_sizes import stored_sizes
from ckpt_gui.core.plan import Dropped, Plan
from ckpt_gui.core.tensors import TensorSpec
from ckpt_gui.dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class _Way:
    """What becomes of the keys of one template.

    Attributes:
        rule: The rule that they follow, if any.
        ignored: Why they are left out, if they are.
        keeps: Whether they are hub keys as they stand, and their values, too.
        name: What makes the hub key of a tensor that only gets another name, from the numbers in its key.
    """

    rule: Rule | None
    ignored: Ignored | None
    keeps: bool = False
    name: Callable[[tuple[int, ...]], str] | None = None


_NO_WAY = _Way(None, None)


class _Named:
    """Tensors that need no more than a name, made all at once, each in its place among the others."""

    def __init__(self, entries: list[Entry]) -> None:
        self._entries = entries
        self._kept: list[int] = []
        self._moved: list[int] = []
        self._keys: list[str] = []

    def keep(self, entry: Entry) -> None:
        """Take a tensor whose key is right."""
        self._kept.append(len(self._entries))
        self._entries.append(entry)

    def move(self, entry: Entry, key: str) -> None:
        """Take a tensor that gets another key."""
        self._moved.append(len(self._entries))
        self._keys.append(key)
        self._entries.append(entry)

    def finish(self, why: str) -> None:
        """Put the tensors with their names and the reason in their places."""
        kept, moved = ([self._entries[at] for at in places] for places in (self._kept, self._moved))
        for at, entry in zip(self._kept, explained_all(kept, why), strict=True):
            self._entries[at] = entry
        for at, entry in zip(self._moved, renamed_all(moved, self._keys, why), strict=True):
            self._entries[at] = entry


def rename(plan: Plan) -> Plan:
    """Rename entries to hub names; sort out buffers and tensors that fit nothing."""
    if plan.adapter is not None:
        return plan
    why = f"{title_of(plan.layout.name)}'s name for it" if plan.layout else ""
    if all(_way(plan.entries[group.places[0]].key, plan).keeps for group in plan.groups.values()):
        kept = Entries(explained_all(plan.entries, why)).under(plan.groups)
        return _settle_collisions(plan.replace(entries=kept))
    entries: list[Entry] = []
    unmapped: list[Entry] = []
    dropped: list[Dropped] = []
    stuck: list[Entry] = []
    waiting: dict[str, dict[str, Entry]] = {}
    normal: dict[str, bool] = {}
    sizes = stored_sizes(plan)
    named = _Named(entries)
    for entry, way, hub in zip(plan.entries, *_ways(plan), strict=True):
        rule, ignored = way.rule, way.ignored
        if way.keeps:
            named.keep(entry)
        elif way.name is not None:
            named.move(entry, hub)
        elif ignored and "buffers" not in plan.policy.skip and entry.ref.full_key not in plan.policy.kept:
            dropped.append(Dropped(entry.ref, ignored.reason, "buffer", entry.key))
            normal[entry.key] = ignored.normal
        elif rule is None:
            unmapped.append(entry)
        elif rule.merges:
            _wait(entry, rule, plan, waiting, entries, sizes)
        else:
            try:
                entries += _to_hub(entry, rule, plan, sizes)
            except (KeyError, CheckpointError):
                stuck.append(entry)
    named.finish(why)
    unmapped += [part for parts in waiting.values() for part in parts.values()]
    plan = plan.replace(
        entries=tuple(entries), unmapped=(*plan.unmapped, *unmapped, *stuck), dropped=(*plan.dropped, *dropped)
    ).found(*_fused(stuck))
    return _settle_collisions(_note_buffers(plan, dropped, normal))


def _ways(plan: Plan) -> tuple[list[_Way], list[str]]:
    """Return what becomes of each entry, and the hub key of each that only gets another name."""
    ways: list[_Way] = [_NO_WAY] * len(plan.entries)
    hubs = [""] * len(plan.entries)
    for group in plan.groups.values():
        way = _way(plan.entries[group.places[0]].key, plan)
        for place in group.places:
            ways[place] = way
        if way.name is not None:
            for place, hub in zip(group.places, map(way.name, group.numbers()), strict=True):
                hubs[place] = hub
    return ways, hubs


def _way(key: str, plan: Plan) -> _Way:
    """Return what becomes of a key, and of all others of its template."""
    rule = _rule(key, plan.layout, plan.prefix)
    if rule is None:
        return _Way(None, _ignored(key, plan.layout, plan.prefix))
    if not rule.plain or not isinstance(rule.hub, str):
        return _Way(rule, None)
    as_it_is = rule.stored == rule.hub and template(key) == anonymous(rule.hub)
    return _Way(rule, None, as_it_is, None if as_it_is else renaming(rule.name, rule.hub))


def _rule(key: str, layout: Layout | None, prefix: str) -> Rule | None:
    if layout is None:
        return None
    shape = template(key)
    return layout.by_stored.get(shape) or (layout.by_stored.get(prefix + shape) if prefix else None)


def _wait(
    entry: Entry,
    rule: Rule,
    plan: Plan,
    waiting: dict[str, dict[str, Entry]],
    entries: list[Entry],
    sizes: Mapping[str, int],
) -> None:
    """Keep a part until all that make up its hub tensor are there, and add that one then."""
    shape = template(entry.key)
    stored = next((s for s in rule.storeds if anonymous(s) == shape), None)
    if stored is None:
        shape = plan.prefix + shape
        stored = next(s for s in rule.storeds if anonymous(s) == shape)
    key = entry.key if anonymous(stored) == template(entry.key) else plan.prefix + entry.key
    hub = rule.hubs[0].format(**rule.to_hub_numbers(bind(stored, key)))
    parts = waiting.setdefault(hub, {})
    if stored in parts:  # twice the same part: a collision, told under the hub's name
        entries += [parts[stored].renamed(hub), entry.renamed(hub)]
        del parts[stored]
        return
    parts[stored] = entry
    if len(parts) < len(rule.storeds):
        return
    title = title_of(plan.layout.name) if plan.layout else ""
    ordered = [parts[s] for s in rule.storeds]
    try:
        expr = joined(rule, [e.expr for e in ordered])
        spec = TensorSpec(hub, entry.output.dtype, shape_of(expr, sizes))
    except (CheckpointError, KeyError):
        return  # they do not fit together: the hub tensor is missing, and its parts stay as they are
    del waiting[hub]
    entries.append(Entry(spec, expr, f"{title}'s {len(ordered)} tensors in one"))


def _to_hub(entry: Entry, rule: Rule, plan: Plan, sizes: Mapping[str, int]) -> list[Entry]:
    """Return the hub tensors that a stored tensor holds: one, or several where it is a fused one.

    Raises:
        KeyError: A size that is needed to take it apart is not known.
        CheckpointError: It is not as long as its parts.
    """
    key = entry.key if template(entry.key) == anonymous(rule.name) else plan.prefix + entry.key
    title = title_of(plan.layout.name) if plan.layout else ""
    count = _slices(entry, rule, sizes)
    made = to_hub(rule, entry.expr, bind(rule.name, key), count)
    if isinstance(rule.hub, str) and not rule.stack:  # the shape is that of the stored tensor, unless an op says else
        (name, expr) = made[0]
        shape = entry.output.shape if not rule.reshapes else shape_of(expr, sizes)
        return [Entry(TensorSpec(name, entry.output.dtype, shape), expr, f"{title}'s name for it")]
    return [
        Entry(TensorSpec(name, entry.output.dtype, shape_of(expr, sizes)), expr, f"part of {title}'s fused tensor")
        for name, expr in made
    ]


def _slices(entry: Entry, rule: Rule, sizes: Mapping[str, int]) -> int:
    """Return how many slices a stacked tensor has."""
    if not rule.stack or not entry.output.shape:
        return 0
    shape = shape_of(chain(rule.ops, entry.expr), sizes) if rule.ops else entry.output.shape
    return shape[0]


def _fused(stuck: list[Entry]) -> list[Finding]:
    """Say which fused tensors can not be taken apart."""
    if not stuck:
        return []
    keys = tuple(e.ref.key for e in stuck)
    text = (
        f"{len(keys)} fused tensors such as `{safe_text(keys[0])}` can not be taken apart: head counts are not known,"
    )
    fix = "Give a config.json with --config, or the counts with --heads and --kv-heads."
    return [Finding("heads-unknown", "error", text + " or do not fit the rows.", keys, fix, blocking=True)]


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
    clashing = _clashing(plan)
    if not clashing:
        return plan
    stuck = {id(r): r for group in clashing for e in group for r in e.inputs}
    while more := {id(r): r for e in plan.entries if _uses(e, stuck) for r in e.inputs if id(r) not in stuck}:
        stuck |= more  # the other parts of a fused tensor, and what they are put together with
    loose = tuple(carried(ref) for ref in stuck.values())
    findings = tuple(_collision(group) for group in clashing)
    entries = tuple(e for e in plan.entries if not _uses(e, stuck))
    return plan.replace(entries=entries, unmapped=(*plan.unmapped, *loose)).found(*findings)


def _clashing(plan: Plan) -> list[list[Entry]]:
    """Return the entries that have one key, in the order of the first of them."""
    found: dict[str, list[Entry]] = {}
    for group in plan.groups.values():
        if group.distinct < len(group.places):
            for place in group.places:
                found.setdefault(plan.entries[place].key, []).append(plan.entries[place])
    order = {id(entry): place for place, entry in enumerate(plan.entries)} if found else {}
    return sorted((same for same in found.values() if len(same) > 1), key=lambda same: order[id(same[0])])


def _uses(entry: Entry, refs: Mapping[int, object]) -> bool:
    return any(id(r) in refs for r in entry.inputs)


def _collision(group: list[Entry]) -> Finding:
    keys = tuple(e.ref.key for e in group)
    files = tuple(dict.fromkeys(e.ref.file for e in group))
    if len(set(keys)) == 1 and len(files) == len(keys):
        places = " and ".join(safe_text(name, 80) for name in files)
        message = f"`{safe_text(keys[0])}` stands in {places}; which of them is meant is not known."
        fix = "Remove the file that does not belong, or take only what the index names with --assigned-only."
        return Finding("key-collision", "error", message, keys, fix, blocking=True)
    names = " and ".join(f"`{safe_text(k)}`" for k in keys)
    return Finding(
        "key-collision", "error", f"{names} stand for the same tensor, `{safe_text(group[0].key)}`.", keys,
        "Nothing is written until you leave one of them out, with --drop KEY or in the window.", blocking=True,
    )  # fmt: skip
