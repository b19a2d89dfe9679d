"""All families, and which of them a set of keys fits.

A new family is one file beside this one and one line in `MODULES`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

from ckpt_gui.core.families import cohere, gemma, llama, olmo2, qwen, smollm3, starcoder2
from ckpt_gui.core.families.schema import Family, Layout
from ckpt_gui.core.keys import anonymous, template

MODULES = (llama, qwen, gemma, smollm3, olmo2, cohere, starcoder2)
FAMILIES: tuple[Family, ...] = tuple(family for module in MODULES for family in module.FAMILIES)
BY_NAME: dict[str, Family] = {family.name: family for family in FAMILIES}
LAYOUTS: tuple[str, ...] = tuple(dict.fromkeys(layout.name for family in FAMILIES for layout in family.layouts))


@dataclass(frozen=True, slots=True)
class Match:
    """How well keys fit a layout.

    Attributes:
        family: The family.
        layout: Its layout.
        prefix: What has to be put before each key to fit.
        matched: Keys that are weights of the layout.
        total: Keys in all.
        lacking: Kinds of tensors that the family expects and the keys lack.
    """

    family: Family
    layout: Layout
    prefix: str
    matched: int
    total: int
    lacking: int


def templates(keys: Iterable[str]) -> Counter[str]:
    """Return how many keys have each template."""
    return Counter(map(template, keys))


def count_matches(counts: Counter[str], layout: Layout, prefix: str = "") -> int:
    """Return how many keys are weights of a layout when `prefix` is put before each that has no slot without it."""
    table = layout.by_stored
    return sum(n for t, n in counts.items() if t in table or (prefix and prefix + t in table))


def best_matches(counts: Counter[str]) -> tuple[Match, ...]:
    """Return the families and layouts that fit most keys: those first that lack least, then in the registry's order."""
    found = [
        Match(family, layout, prefix, count_matches(counts, layout, prefix), counts.total(), 0)
        for family in FAMILIES
        for layout in family.layouts
        for prefix in (("", "model.") if layout.name == "hf" else ("",))
    ]
    best = max((m.matched for m in found), default=0)
    top = [m for m in found if m.matched == best and best > 0]
    plain = [m for m in top if not m.prefix]
    judged = [replace(m, lacking=_lacking(counts, m)) for m in plain or top]
    return tuple(sorted(judged, key=lambda m: m.lacking))


def best_of_family(counts: Counter[str], family: Family) -> Match:
    """Return the layout of one family that fits most keys, its own names before a backbone's."""
    found = [
        Match(family, layout, prefix, count_matches(counts, layout, prefix), counts.total(), 0)
        for layout in family.layouts
        for prefix in (("", "model.") if layout.name == "hf" else ("",))
    ]
    best = max(found, key=lambda m: (m.matched, not m.prefix))
    return replace(best, lacking=_lacking(counts, best))


def _lacking(counts: Counter[str], match: Match) -> int:
    """Return how many kinds of expected tensors are not there; optional ones count once one of their set is."""
    rules = match.layout.by_stored
    named = (t if t in rules else match.prefix + t for t in counts)
    present = {anonymous(hub) for t in named if t in rules for hub in rules[t].hubs}
    slots = [(anonymous(slot.key), slot) for slot in match.family.slots]
    sets = {slot.when or slot.group for key, slot in slots if key in present}
    wanted = [key for key, slot in slots if slot.role != "head" and (slot.when or slot.group) in sets | {""}]
    return len(set(wanted) - present)


def fits_beside(counts: Counter[str], others: Counter[str]) -> bool:
    """Return True if other keys are weights of the layout, or of each of the layouts, that `counts` fit best."""
    layouts = [layout for family in FAMILIES for layout in family.layouts]
    most = max((count_matches(counts, layout) for layout in layouts), default=0)
    best = [layout for layout in layouts if count_matches(counts, layout) == most]
    return all(count_matches(others, layout) for layout in best)


def fits(counts: Counter[str]) -> int:
    """Return how many keys the best layout knows under their own names."""
    return max((count_matches(counts, layout) for f in FAMILIES for layout in f.layouts), default=0)


def for_model_type(model_type: str | None) -> Family | None:
    """Return the family that a config's `model_type` names, or None."""
    return next((f for f in FAMILIES if model_type in f.model_types), None)
