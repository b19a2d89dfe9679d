"""Which tensors a model should have, as few facts a slot (100,000 experts are two ranges of numbers), and how stored.

`check` looks for those that are not there, the diff for what each should be.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from math import prod

from ckpt_gui.core.families.layer_kinds import layer_kinds, stated_sets
from ckpt_gui.core.families.rule_schema import Rule
from ckpt_gui.core.families.schema import EXTRA, Layout, Slot
from ckpt_gui.core.key_groups import KeyGroup
from ckpt_gui.core.keys import anonymous, bind, index_names, indices, renaming, template
from ckpt_gui.core.model_config import FLAGS
from ckpt_gui.core.plan import Plan
from ckpt_gui.core.symbols import size_of, symbols_of
from ckpt_gui.dataclasses import dataclass

Wanted = tuple[int | None, ...]  # an expected shape; None where a size is not known


@dataclass(frozen=True, slots=True)
class Expected:
    """The tensors that are expected of a slot: one for each combination of numbers.

    Attributes:
        slot: The slot.
        shape: Their shape.
        axes: The numbers at each index of the slot's key.
        first: Which of the indices changes last from tensor to tensor: that of the layer.
    """

    slot: Slot
    shape: Wanted
    axes: tuple[Sequence[int], ...]
    first: int = 0

    @property
    def template(self) -> str:
        """The template of their keys."""
        return anonymous(self.slot.key)

    @property
    def name(self) -> Callable[[tuple[int, ...]], str]:
        """What makes a hub key of its numbers."""
        return renaming(self.slot.key, self.slot.key)

    def numbers(self) -> Iterator[tuple[int, ...]]:
        """Yield the numbers of each, layer by layer."""
        found = product(*self.axes) if self.first == 0 else product(*self.axes[::-1])
        return found if self.first == 0 else (numbers[::-1] for numbers in found)

    def holds(self, group: KeyGroup) -> bool:
        """Return True if all keys of a group are among them."""
        return all(set(axis).issuperset(column) for axis, column in zip(self.axes, group.columns, strict=True))

    def lacks(self, group: KeyGroup | None) -> Sequence[tuple[int, ...]]:
        """Return the numbers of those that are not in a group."""
        if group is None:
            return list(self.numbers())
        if group.distinct == prod(map(len, self.axes)) and self.holds(group):
            return ()
        there = set(group.numbers())
        return [numbers for numbers in self.numbers() if numbers not in there]


def expected(plan: Plan) -> Iterator[tuple[Slot, str, Wanted]]:
    """Yield each expected tensor: its slot, its hub key, and its shape (None where a size is not known)."""
    if plan.family is not None and plan.family.exact:
        yield from ((plan.family.by_slot[template(key)], key, shape) for key, shape in plan.family.exact)
    for found in expected_slots(plan):
        yield from ((found.slot, key, found.shape) for key in map(found.name, found.numbers()))


def expected_slots(plan: Plan) -> Iterator[Expected]:
    """Yield what is expected, slot by slot; nothing of a family that lists every tensor (`Family.exact`)."""
    if plan.family is None or plan.family.exact:
        return
    present = plan.groups
    sets = {slot.when for slot in plan.family.slots if slot.when and anonymous(slot.key) in present} - set(FLAGS)
    raw = plan.config.raw if plan.config and plan.config.is_hf else {}
    if not plan.entries:  # a config alone, as a reference
        sets |= stated_sets(plan.family, raw)
    kinds = layer_kinds(plan.family, raw, plan.dims.get("layers", 0)) | _kinds_of_layers(plan)
    for slot in plan.family.slots:
        if _wanted(slot, plan, anonymous(slot.key) in present or slot.when in sets):
            shape = tuple(_size(symbol, plan.dims) for symbol in slot.shape)
            names = index_names(slot.key)
            yield Expected(slot, shape, _axes(slot, plan, kinds), names.index("layer") if "layer" in names else 0)


def shapes_wanted(plan: Plan) -> list[Wanted | None]:
    """Return for each entry the shape that is expected of it; None where no such tensor is."""
    found: list[Wanted | None] = [None] * len(plan.entries)
    if plan.family is not None and plan.family.exact:
        known = dict(plan.family.exact)
        return [known.get(entry.key) for entry in plan.entries]
    for slot in expected_slots(plan):
        group = plan.groups.get(slot.template)
        if group is None:
            continue
        all_ = slot.holds(group)
        sets = [frozenset(axis) for axis in slot.axes]
        for place, numbers in zip(group.places, group.numbers(), strict=True):
            if all_ or all(number in axis for number, axis in zip(numbers, sets, strict=True)):
                found[place] = slot.shape
    return found


def shape_of_key(plan: Plan) -> Callable[[str], Wanted | None]:
    """Return what says for a hub key which shape is expected of it; None where no such tensor is."""
    exact: dict[str, Wanted] = dict(plan.family.exact) if plan.family is not None else {}
    slots = {slot.template: slot for slot in expected_slots(plan)}

    def wanted(key: str) -> Wanted | None:
        slot = slots.get(template(key))
        if slot is None:
            return exact.get(key)
        inside = all(number in axis for number, axis in zip(indices(key), slot.axes, strict=True))
        return slot.shape if inside else None

    return wanted


def _kinds_of_layers(plan: Plan) -> dict[int, set[str]]:
    """Return which kinds (`dense`, `moe`) each layer is of: those of which it has a tensor."""
    assert plan.family is not None
    kinds: dict[int, set[str]] = {}
    for slot in plan.family.slots:
        group = plan.groups.get(anonymous(slot.key))
        if slot.group and "{layer}" in slot.key and group is not None:
            for layer in set(group.columns[index_names(slot.key).index("layer")]):
                kinds.setdefault(layer, set()).add(slot.group)
    return dict(sorted(kinds.items()))


def _usual_kind(plan: Plan, kinds: Mapping[int, set[str]]) -> str:
    """Return the kind of layers that are most: a layer that has no tensor of any kind has lost those."""
    counts = Counter(kind for found in kinds.values() for kind in found if kind != EXTRA)
    groups = [slot.group for slot in plan.family.slots if slot.group] if plan.family else []
    return counts.most_common(1)[0][0] if counts else next(iter(groups), "")


def _axes(slot: Slot, plan: Plan, kinds: Mapping[int, set[str]]) -> tuple[Sequence[int], ...]:
    """Return the numbers under which a slot is expected, for each index of its key."""
    names = index_names(slot.key)
    if not names:
        return ()
    if "layer" not in names:  # blocks of another part of the model, such as an image encoder
        return (range(plan.dims.get(names[0] + "s", 0)),)
    usual = _usual_kind(plan, kinds)
    layers: Sequence[int] = range(plan.dims.get("layers", 0))
    if slot.group:
        layers = [layer for layer in layers if slot.group in (kinds.get(layer) or {usual})]
    return tuple(layers if name == "layer" else range(plan.dims.get("experts", 0)) for name in names)


def _wanted(slot: Slot, plan: Plan, present: bool) -> bool:
    if slot.when and plan.layout and slot.when in plan.layout.always:
        return True
    if slot.when:
        stated = plan.config.flags.get(slot.when) if plan.config and plan.config.is_hf else None
        return present if stated is None else stated or present
    if slot.role == "head":
        return (plan.tie.head is not None and plan.tie.embedding is not None) or plan.tie.tied is not True
    return True


def _size(symbol: str, dims: Mapping[str, int]) -> int | None:
    return size_of(symbol, dims) if set(symbols_of(symbol)) <= dims.keys() else None


def stored_name(layout: Layout, hub: str) -> str:
    """Return the stored key that is, or holds, a hub key in a layout; itself if it has no name there."""
    rule = layout.rule_of(hub)
    return stored_key(rule, hub) if rule else hub


def stored_key(rule: Rule, hub: str) -> str:
    """Return the stored key that a rule has for a hub key; the first of those that make it up."""
    return stored_keys(rule, hub)[0]


def stored_keys(rule: Rule, hub: str) -> tuple[str, ...]:
    """Return the stored keys that a rule has for a hub key."""
    slot = next(h for h in rule.hubs if anonymous(h) == template(hub))
    numbers = rule.to_stored_numbers(bind(slot, hub))
    return tuple(stored.format(**numbers) for stored in rule.storeds)
