"""What a family expects of a checkpoint: every tensor with its name and shape, and how a layout stores a name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from ckpt_gui.core.families.layer_kinds import layer_kinds, stated_sets
from ckpt_gui.core.families.rule_schema import Rule
from ckpt_gui.core.families.schema import EXTRA, Layout, Slot
from ckpt_gui.core.keys import anonymous, bind, index_names, indices, renaming, template
from ckpt_gui.core.model_config import FLAGS
from ckpt_gui.core.plan import Plan
from ckpt_gui.core.symbols import size_of, symbols_of


def expected(plan: Plan) -> Iterator[tuple[Slot, str, tuple[int | None, ...]]]:
    """Yield each expected tensor: its slot, its hub key, and its shape (None where a size is not known)."""
    return ((slot, key, shape) for slot, keys, shape in expected_slots(plan) for key in keys)


def expected_slots(plan: Plan) -> Iterator[tuple[Slot, Sequence[str], tuple[int | None, ...]]]:
    """Yield expected tensors of one slot and shape together: the slot, their hub keys, and their shape."""
    if plan.family is None:
        return
    if plan.family.exact:
        yield from ((plan.family.by_slot[template(key)], (key,), shape) for key, shape in plan.family.exact)
        return
    present = {template(e.key) for e in plan.entries}
    sets = {slot.when for slot in plan.family.slots if slot.when and anonymous(slot.key) in present} - set(FLAGS)
    raw = plan.config.raw if plan.config and plan.config.is_hf else {}
    if not plan.entries:  # a config alone, as a reference
        sets |= stated_sets(plan.family, raw)
    kinds = layer_kinds(plan.family, raw, plan.dims.get("layers", 0)) | _kinds_of_layers(plan)
    for slot in plan.family.slots:
        if not _wanted(slot, plan, anonymous(slot.key) in present or slot.when in sets):
            continue
        shape = tuple(_size(symbol, plan.dims) for symbol in slot.shape)
        yield slot, list(map(renaming(slot.key, slot.key), _numbers(slot, plan, kinds))), shape


def _kinds_of_layers(plan: Plan) -> dict[int, set[str]]:
    """Return which kinds (`dense`, `moe`) each layer is of: those of which it has a tensor."""
    assert plan.family is not None
    kinds: dict[int, set[str]] = {}
    places = {
        anonymous(slot.key): (slot.group, index_names(slot.key).index("layer"))
        for slot in plan.family.slots
        if slot.group and "{layer}" in slot.key
    }
    if not places:
        return kinds
    for entry in plan.entries:
        found = places.get(template(entry.key))
        if found:
            group, place = found
            kinds.setdefault(indices(entry.key)[place], set()).add(group)
    return kinds


def _usual_kind(plan: Plan, kinds: Mapping[int, set[str]]) -> str:
    """Return the kind of layers that are most: a layer that has no tensor of any kind has lost those."""
    counts = Counter(kind for found in kinds.values() for kind in found if kind != EXTRA)
    groups = [slot.group for slot in plan.family.slots if slot.group] if plan.family else []
    return counts.most_common(1)[0][0] if counts else next(iter(groups), "")


def _numbers(slot: Slot, plan: Plan, kinds: Mapping[int, set[str]]) -> Iterator[tuple[int, ...]]:
    """Yield the indices under which a slot is expected, in the order in which its key has them."""
    names = index_names(slot.key)
    if not names:
        yield ()
        return
    if "layer" not in names:  # blocks of another part of the model, such as an image encoder
        yield from ((number,) for number in range(plan.dims.get(names[0] + "s", 0)))
        return
    usual = _usual_kind(plan, kinds)
    layers = range(plan.dims.get("layers", 0))
    for layer in layers:
        if slot.group and slot.group not in (kinds.get(layer) or {usual}):
            continue
        if "expert" not in names:
            yield (layer,)
        elif names == ("layer", "expert"):
            yield from ((layer, expert) for expert in range(plan.dims.get("experts", 0)))
        else:
            yield from ((expert, layer) for expert in range(plan.dims.get("experts", 0)))


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
