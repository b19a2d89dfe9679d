"""Layers that look at an image, where a layout counts them by themselves.

Hugging Face counts all layers of a Llama 3.2 Vision in one row. Meta has two rows, and the places of the layers that
look at the image follow from how many there are of each (`spread`); torchtune has them in the layer that they stand
before, under its number (`beside`). A table can not say the numbers, as they depend on the model: here a layout gets
those of the model that is read or written. Sources: Meta llama-models `multimodal/model.py` (`_init_fusion_schedule`);
torchtune 0.6.1 `models/llama3_2_vision/_convert_weights.py`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from ckpt_gui.core.errors import Finding
from ckpt_gui.core.families.rule_schema import Numbers
from ckpt_gui.core.families.schema import Family, Layout
from ckpt_gui.core.keys import anonymous, bind, template
from ckpt_gui.dataclasses import replace

SELF, CROSS = "self", "cross"


def spread(others: int, crossing: int) -> list[int]:
    """Return before which of the other layers Meta's programs put those that look at the image.

    >>> spread(32, 8)
    [3, 7, 11, 15, 19, 23, 27, 31]
    """
    step = max(math.ceil(others / crossing), 1) if crossing else 1
    return list(range(others))[::-1][::step][:crossing][::-1]


def numbered_by_keys(layout: Layout, keys: Iterable[str]) -> Layout:
    """Return a layout with the numbers of a file in it.

    Args:
        layout: Of a family's table.
        keys: The stored keys.
    """
    if not layout.numbering:
        return layout
    found: dict[str, set[int]] = {SELF: set(), CROSS: set()}
    for key in keys:
        rule = layout.by_stored.get(template(key))
        if rule and rule.kind:
            stored = next(s for s in rule.storeds if anonymous(s) == template(key))
            found[rule.kind].add(bind(stored, key)["layer"])
    others = max(found[SELF], default=-1) + 1
    if layout.numbering == "beside":
        places = {n: n for n in sorted(found[CROSS])}
    else:
        crossing = max(found[CROSS], default=-1) + 1
        places = dict(enumerate(spread(others, crossing)))
        places |= dict.fromkeys(range(len(places), crossing), others)
    return _with_numbers(layout, others, places)


def _with_numbers(layout: Layout, others: int, places: Mapping[int, int]) -> Layout:
    """Return a layout with numbers.

    Args:
        layout: The layout.
        others: How many layers do not look at the image.
        places: For each stored number of one that does, the other layer that it stands before.
    """
    numbers: dict[str, list[tuple[int, int]]] = {SELF: [], CROSS: []}
    before: dict[int, list[int]] = {}
    for stored, place in places.items():
        before.setdefault(place, []).append(stored)
    hub = 0
    for layer in range(max([others, *(place + 1 for place in before)])):
        for stored in before.get(layer, ()):
            numbers[CROSS].append((stored, hub))
            hub += 1
        if layer < others:
            numbers[SELF].append((layer, hub))
            hub += 1
    return _numbered(layout, {kind: Numbers(tuple(pairs)) for kind, pairs in numbers.items()})


def _numbered(layout: Layout, numbers: Mapping[str, Numbers]) -> Layout:
    rules = tuple(replace(rule, numbers=numbers[rule.kind]) if rule.kind else rule for rule in layout.rules)
    return replace(layout, rules=rules)


def numbered_by_hub(layout: Layout, family: Family, keys: Iterable[str]) -> tuple[Layout, Finding | None]:
    """Return a layout with the numbers of a model in it, and why the model can not be written so, if it can not.

    Args:
        layout: Of the family's table.
        family: The family.
        keys: The hub keys of the model.
    """
    if not layout.numbering:
        return layout, None
    crossing: set[int] = set()
    total = 0
    for key in keys:
        slot = family.by_slot.get(template(key))
        if slot and "{layer}" in slot.key:
            layer = bind(slot.key, key)["layer"]
            total = max(total, layer + 1)
            crossing |= {layer} if slot.group == CROSS else set()
    others = [layer for layer in range(total) if layer not in crossing]
    places = [layer - n for n, layer in enumerate(sorted(crossing))]  # as many of the others stand before it
    stored = places if layout.numbering == "beside" else list(range(len(places)))
    layout = _numbered(
        layout,
        {SELF: Numbers(tuple(enumerate(others))), CROSS: Numbers(tuple(zip(stored, sorted(crossing), strict=True)))},
    )
    return layout, _misplaced(layout, len(others), places, sorted(crossing))


def _misplaced(layout: Layout, others: int, places: Sequence[int], crossing: Sequence[int]) -> Finding | None:
    """Return what is said of a model whose layers stand where the layout can not have them; None if it can."""
    here = ", ".join(map(str, crossing))
    if layout.numbering == "beside":
        if len(set(places)) == len(places) and others not in places:
            return None
        text = f"{layout.name} has no place for layers that look at the image ({here}) one behind the other, or last."
    else:
        wanted = spread(others, len(places))
        if list(places) == wanted:
            return None
        there = ", ".join(str(place + n) for n, place in enumerate(wanted))
        text = f"The layers {here} look at the image; Meta's programs would take layers {there} for them."
    return Finding("unknown-layout", "error", text, fix="Choose a layout that says where they are: hf.", blocking=True)
