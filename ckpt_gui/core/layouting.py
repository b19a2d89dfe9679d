"""Hub tensors in a layout's own names, shapes and row order.

Most rules are one to one. A fused tensor waits until all its parts are there; if some are missing nothing of it is
written, and the export says so.
"""

from __future__ import annotations

from collections.abc import Sequence

from ckpt_gui.core.entry import Entries, Entry, renamed_all
from ckpt_gui.core.errors import CheckpointError, Finding
from ckpt_gui.core.exprs import Expr, Made, shape_of
from ckpt_gui.core.families.layouts import title_of
from ckpt_gui.core.families.rule_schema import Rule
from ckpt_gui.core.families.rules import parted, to_stored
from ckpt_gui.core.families.schema import EXTRA, Layout
from ckpt_gui.core.keys import anonymous, bind, renaming, safe_text, template
from ckpt_gui.core.passes.expectation import stored_key, stored_keys
from ckpt_gui.core.plan import Dropped, Plan
from ckpt_gui.core.tensors import TensorSpec
from ckpt_gui.dataclasses import dataclass


def to_layout(
    entries: Sequence[Entry], layout: Layout | None, plan: Plan
) -> tuple[tuple[Entry, ...], tuple[Finding, ...]]:
    """Return the tensors of a layout, in the order of their first parts, and what can not be made."""
    if layout is None:
        return tuple(entries), ()
    own = entries if isinstance(entries, Entries) else Entries(entries)
    if "permute" not in plan.policy.skip and all(_stays(layout, shape) for shape in own.groups):
        return own, _without(layout, own, plan)  # every name stands for itself
    made: list[Entry | _Group] = []
    groups: dict[str, _Group] = {}
    nameless: list[Entry] = []
    moved: list[tuple[int, str]] = []  # places of what gets a name and nothing else: made all at once
    for entry, rule, key in zip(own, *_named(own, layout), strict=True):
        if rule is not None and not (rule.plain and "permute" not in plan.policy.skip):
            name = stored_key(rule, entry.key)
            group = groups.get(name)
            if group is None:
                made.append(group := groups.setdefault(name, _Group(name, rule, [])))
            group.parts.append(entry)
            continue
        if rule is None:
            nameless.append(entry)
        elif rule.stored != rule.hub:
            moved.append((len(made), key))
        made.append(entry)
    _move(made, moved)
    lacking: list[str] = []
    whole = [one for item in made for one in (_grouped(item, plan, lacking) if isinstance(item, _Group) else (item,))]
    return tuple(whole), (
        *_lacking(layout, lacking),
        *_nameless(layout, nameless, plan),
        *_without(layout, own, plan),
    )


def _stays(layout: Layout, shape: str) -> bool:
    """Return True if hub tensors of a template are stored as they are, under their own names."""
    rule = layout.by_hub.get(shape)
    return rule is not None and rule.plain and rule.stored == rule.hub


def _named(entries: Entries, layout: Layout) -> tuple[list[Rule | None], list[str]]:
    """Return the rule of each entry, and the stored key of each that only gets another name."""
    rules: list[Rule | None] = [None] * len(entries)
    keys = [""] * len(entries)
    for shape, group in entries.groups.items():
        for place, numbers in zip(group.places, group.numbers(), strict=True):
            rule = rules[place] = layout.rule_like(shape, numbers)
            if rule is not None and rule.plain and rule.stored != rule.hub:
                keys[place] = renaming(rule.hubs[0], rule.name)(numbers)
    return rules, keys


@dataclass(frozen=True, slots=True)
class _Group:
    """Hub tensors that become one stored tensor, or one hub tensor that becomes several.

    Attributes:
        name: The stored name, or the first.
        rule: How they become it.
        parts: The hub tensors, in the order in which they were found.
    """

    name: str
    rule: Rule
    parts: list[Entry]


def _move(made: list[Entry | _Group], moved: Sequence[tuple[int, str]]) -> None:
    """Give the entries at some places their names."""
    waiting = [entry for place, _ in moved if isinstance(entry := made[place], Entry)]
    for (place, _), entry in zip(moved, renamed_all(waiting, [key for _, key in moved]), strict=True):
        made[place] = entry


def _grouped(group: _Group, plan: Plan, lacking: list[str]) -> list[Entry]:
    """Return what becomes of a group; the keys of one that is not complete are added to those that are lacking."""
    rule, parts = group.rule, group.parts
    if rule.merges:
        return [one for part in parts for one in _parted(part, rule, plan)]
    if isinstance(rule.hub, str) and not rule.stack:
        return [_single(part, rule, group.name, plan) for part in parts]
    if (fused := _fused(parts, rule, group.name, plan)) is None:
        lacking += [e.ref.key for e in parts]
        return []
    return [fused]


def left_behind(
    entries: tuple[Entry, ...], layout: Layout | None, plan: Plan
) -> tuple[tuple[Entry, ...], tuple[Dropped, ...], tuple[Finding, ...]]:
    """Take out the parts of a model that the layout's programs do not have.

    Args:
        entries: Hub tensors.
        layout: Where they go; one that keeps its own names has all parts.
        plan: What is exported.

    Returns:
        What stays, what is left out with the reason, and what is said of it.
    """
    if layout is None or not layout.leaves or layout is plan.layout:
        return entries, (), ()
    gone: list[Dropped] = []
    found: list[Finding] = []
    stays = list(entries)
    for begin, what in layout.leaves:
        beyond = _beyond(plan) if begin == EXTRA else frozenset()
        out = [e for e in stays if _layer(e.key, plan) in beyond or (begin != EXTRA and e.key.startswith(begin))]
        if not out:
            continue
        taken = {e.key for e in out}
        stays = [e for e in stays if e.key not in taken]
        keys = tuple(e.ref.key for e in out)
        reason = f"is of {what}, which {layout.name} has no place for"
        gone += [Dropped(ref, reason, "not-held", e.key) for e in out for ref in e.inputs]
        text = (
            f"{len(out)} tensors of {what}, such as `{safe_text(keys[0])}`, are left out: {title_of(layout.name)} has "
        )
        found.append(
            Finding("unknown-layout", "warning", text + "no place for them.", keys, "Only hf keeps all parts.")
        )
    return tuple(stays), tuple(gone), tuple(found)


def _beyond(plan: Plan) -> frozenset[int | None]:
    """Return the numbers of the layers behind those that the config counts."""
    slots = plan.family.by_slot if plan.family else {}
    extra = {t for t, slot in slots.items() if slot.group == EXTRA}
    return frozenset(_layer(e.key, plan) for e in plan.entries if template(e.key) in extra)


def _layer(key: str, plan: Plan) -> int | None:
    """Return the number of the layer that a hub tensor is in; None if it is in none."""
    slot = plan.family.by_slot.get(template(key)) if plan.family else None
    return bind(slot.key, key).get("layer") if slot else None


def _single(entry: Entry, rule: Rule, name: str, plan: Plan) -> Entry:
    expr = _without_permutation(to_stored(rule, [entry.expr]), plan)
    shape = entry.output.shape if not rule.reshapes else shape_of(expr, plan.dims)
    return Entry(TensorSpec(name, entry.output.dtype, shape), expr, entry.why)


def _parted(entry: Entry, rule: Rule, plan: Plan) -> list[Entry]:
    """Return the stored tensors that make up a hub tensor; where sizes are not known, the export asks for them."""
    made = []
    for name, expr in zip(stored_keys(rule, entry.key), parted(rule, entry.expr), strict=True):
        expr = _without_permutation(expr, plan)
        try:
            shape = shape_of(expr, plan.dims)
        except (CheckpointError, KeyError):
            shape = entry.output.shape
        made.append(Entry(TensorSpec(name, entry.output.dtype, shape), expr, f"{rule.hub} holds {template(name)}"))
    return made


def _fused(parts: Sequence[Entry], rule: Rule, name: str, plan: Plan) -> Entry | None:
    """Return the fused tensor, or None if some of its parts are not there or do not fit."""
    ordered = sorted(parts, key=lambda e: _place(rule, e.key))
    width = len(rule.hubs)
    slices = [_place(rule, e.key)[0] for e in ordered[::width]]
    complete = len(ordered) % width == 0 and len({_place(rule, e.key) for e in ordered}) == len(ordered)
    if not complete or slices != list(range(len(slices))):
        return None
    expr = _without_permutation(to_stored(rule, [e.expr for e in ordered]), plan)
    try:
        shape = shape_of(expr, plan.dims)
    except (CheckpointError, KeyError):
        return None
    return Entry(TensorSpec(name, ordered[0].output.dtype, shape), expr, f"{rule.name} holds {', '.join(rule.hubs)}")


def _place(rule: Rule, hub: str) -> tuple[int, int]:
    """Return the slice and the part of a hub tensor in its fused one."""
    part = next(i for i, h in enumerate(rule.hubs) if anonymous(h) == template(hub))
    return (bind(rule.hubs[part], hub)[rule.stack] if rule.stack else 0), part


def _without_permutation(expr: Expr, plan: Plan) -> Expr:
    """Leave out the reordering of rows if the user unticked it (the export is blocked then, and shows why)."""
    if "permute" not in plan.policy.skip or not isinstance(expr, Made):
        return expr
    parts = tuple(_without_permutation(part, plan) for part in expr.parts)
    return parts[0] if expr.op.name == "permute" else Made(expr.op, parts)


def _nameless(layout: Layout, entries: Sequence[Entry], plan: Plan) -> list[Finding]:
    """Refuse tensors of the model for which the layout has no name: its programs would not compute with them."""
    slots = plan.family.by_slot if plan.family else {}
    keys = tuple(e.ref.key for e in entries if template(e.key) in slots)
    if not keys:
        return []
    are = "is 1 tensor" if len(keys) == 1 else f"are {len(keys)} tensors"
    text = f"There {are} that {layout.name} has no name for, such as `{safe_text(keys[0])}`."
    fix = "Choose a layout that holds them, such as hf; same keeps the names as they are."
    return [Finding("unknown-layout", "error", text, keys, fix, blocking=True)]


def _without(layout: Layout, entries: Entries, plan: Plan) -> tuple[Finding, ...]:
    """Refuse a model that lacks what the layout's programs do not do without, such as biases."""
    present = entries.groups
    slots = plan.family.slots if plan.family else ()
    lost = [s.key for s in slots if s.when in layout.always and s.when and anonymous(s.key) not in present]
    if not lost or layout is plan.layout:
        return ()  # in the layout itself they are missing, and that is said
    text = f"The model has no {lost[0].rpartition('.')[2]} tensors, and {layout.name} does not do without them."
    return (Finding("unknown-layout", "error", text, fix="Choose another layout.", blocking=True),)


def _lacking(layout: Layout, keys: Sequence[str]) -> list[Finding]:
    if not keys:
        return []
    text = f"{layout.name} stores {len(keys)} of these tensors fused, and their other parts are missing or do not fit"
    text += f" (such as for `{safe_text(keys[0])}`)."
    fix = "Choose another layout, or look for the missing parts."
    return [Finding("missing-tensor", "error", text, tuple(keys), fix, blocking=True)]
