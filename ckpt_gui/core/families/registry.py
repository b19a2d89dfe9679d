"""All families, and which of them a set of keys fits.

A new family is one file beside this one and one line in `MODULES`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from ckpt_gui.core.families import (
    cohere,
    deepseek,
    gemma,
    gemma3_vision,
    gpt2,
    gpt_neox,
    gpt_oss,
    llama,
    llama4,
    mixtral,
    mllama,
    olmo2,
    phi,
    qwen,
    qwen_moe,
    smollm3,
    starcoder2,
)
from ckpt_gui.core.families.schema import EXTRA, Family, Layout
from ckpt_gui.core.families.tasks import stem_of
from ckpt_gui.core.keys import anonymous
from ckpt_gui.core.ops import Shape
from ckpt_gui.dataclasses import dataclass, replace

MODULES = (
    *(llama, mixtral, llama4, mllama, qwen, qwen_moe, gemma, gemma3_vision, phi, deepseek, gpt_oss),
    *(smollm3, olmo2, cohere, starcoder2, gpt2, gpt_neox),
)
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
        misfits: Sizes that contradict each other when the shapes are read as the layout's: layouts with the same names
            are told apart by them.
    """

    family: Family
    layout: Layout
    prefix: str
    matched: int
    total: int
    lacking: int
    misfits: int = 0


def count_matches(counts: Counter[str], layout: Layout, prefix: str = "") -> int:
    """Return how many keys are weights of a layout when `prefix` is put before each that has no slot without it."""
    table = layout.by_stored
    return sum(n for t, n in counts.items() if t in table or (prefix and prefix + t in table))


def best_matches(counts: Counter[str], shapes: Mapping[str, Shape] | None = None) -> tuple[Match, ...]:
    """Return the families and layouts that fit most keys: those first that lack least, then in the registry's order.

    Args:
        counts: How many keys have each template.
        shapes: The shape of one tensor of each template; of layouts that differ in nothing else, the one that it fits
            comes first.
    """
    found = [
        Match(family, layout, prefix, count_matches(counts, layout, prefix), counts.total(), 0)
        for family in FAMILIES
        for layout in family.layouts
        for prefix in (("", _backbone(family)) if layout.name == "hf" else ("",))
    ]
    best = max((m.matched for m in found), default=0)
    top = [m for m in found if m.matched == best and best > 0]
    plain = [m for m in top if not m.prefix]
    judged = [replace(m, lacking=_lacking(counts, m), misfits=_misfits(shapes or {}, m)) for m in plain or top]
    return tuple(sorted(judged, key=lambda m: (m.lacking, m.misfits)))


def _backbone(family: Family) -> str:
    """Return what a bare backbone's names lack: the first segment of the embedding's (`model.`, `transformer.`)."""
    return (family.role("embedding") or "").partition(".")[0] + "."


def _misfits(shapes: Mapping[str, Shape], match: Match) -> int:
    """Return how many sizes are given twice, and not alike, when the shapes are read as those of the layout."""
    rules, slots = match.layout.by_stored, match.family.by_slot
    sizes: dict[str, set[int]] = {}
    for stored, shape in shapes.items():
        rule = rules.get(stored) or rules.get(match.prefix + stored)
        if rule is None or rule.merges or rule.split or rule.stack or any(op.needs for op in rule.ops):
            continue
        symbols = slots[anonymous(rule.hubs[0])].shape
        if len(symbols) != len(shape):
            continue
        for op in rule.ops:
            shape = op.shape([shape], {})
        for symbol, size in zip(symbols, shape, strict=True):
            sizes.setdefault(symbol, set()).add(size)
    return sum(len(found) - 1 for found in sizes.values())


def best_of_family(counts: Counter[str], family: Family, shapes: Mapping[str, Shape] | None = None) -> Match:
    """Return the layout of one family that fits most keys, its own names before a backbone's."""
    found = [
        Match(family, layout, prefix, count_matches(counts, layout, prefix), counts.total(), 0)
        for layout in family.layouts
        for prefix in (("", _backbone(family)) if layout.name == "hf" else ("",))
    ]
    best = max(found, key=lambda m: (m.matched, not m.prefix, -_misfits(shapes or {}, m)))
    return replace(best, lacking=_lacking(counts, best))


def _lacking(counts: Counter[str], match: Match) -> int:
    """Return how many kinds of expected tensors are not there; optional ones count once one of their set is.

    A kind of layers of which there is none counts once: dense layers alone are rather a dense family's.
    """
    rules = match.layout.by_stored
    named = (t if t in rules else match.prefix + t for t in counts)
    present = {anonymous(hub) for t in named if t in rules for hub in rules[t].hubs}
    slots = [(anonymous(slot.key), slot) for slot in match.family.slots]
    sets = {slot.when or slot.group for key, slot in slots if key in present}
    wanted = [key for key, slot in slots if slot.role != "head" and (slot.when or slot.group) in sets | {""}]
    kinds = {slot.group for _, slot in slots if slot.group} - {EXTRA}
    absent = kinds - {slot.group for key, slot in slots if key in present}
    return len(set(wanted) - present) + len(absent)


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


def for_class(name: str) -> Family | None:
    """Return the family that a class of transformers belongs to, whatever its head; None if not just one does.

    >>> [family.name for family in map(for_class, ("MistralForSequenceClassification", "GPT2Model")) if family]
    ['mistral', 'gpt2']
    >>> for_class("AutoModel"), for_class("")
    (None, None)
    """
    exact = [family for family in FAMILIES if family.architecture == name]
    alike = exact or [family for family in FAMILIES if stem_of(family.architecture) == stem_of(name)]
    return alike[0] if len(alike) == 1 else None
