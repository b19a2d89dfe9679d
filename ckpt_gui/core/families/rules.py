"""Apply a rule in either direction: a stored tensor to the hub tensors it holds, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ckpt_gui.core.exprs import Expr, chain, inverse, make
from ckpt_gui.core.families.rule_schema import Rule
from ckpt_gui.core.ops import Op
from ckpt_gui.core.part_ops import Concat, Pick, Stack, Take

Indices = Mapping[str, int]


def to_hub(rule: Rule, stored: Expr, indices: Indices, count: int = 0) -> list[tuple[str, Expr]]:
    """Return the hub keys that a stored tensor holds, and how each is made.

    Args:
        rule: The rule.
        stored: The stored tensor.
        indices: The numbers in its key.
        count: Slices of its first dimension, where the rule has a stack.
    """
    whole = chain(rule.ops, stored)
    indices = rule.to_hub_numbers(indices)
    if not rule.stack:
        return _parts(rule, whole, indices)
    slices = ((make(Pick(i, count), whole), {**indices, rule.stack: i}) for i in range(count))
    return [pair for slice_, numbers in slices for pair in _parts(rule, slice_, numbers)]


def _parts(rule: Rule, whole: Expr, indices: Indices) -> list[tuple[str, Expr]]:
    split = rule.split
    parts = [make(Take(split.dim, i, split.sizes), whole) for i in range(len(rule.hubs))] if split else [whole]
    chains = _chains(rule, len(parts))
    return [(hub.format(**indices), chain(ops, part)) for hub, part, ops in zip(rule.hubs, parts, chains, strict=True)]


def to_stored(rule: Rule, parts: Sequence[Expr]) -> Expr:
    """Return how a stored tensor is made of its hub tensors.

    Args:
        rule: The rule.
        parts: The hub tensors: slice after slice where the rule has a stack, and in each the slots in order.
    """
    width = len(rule.hubs)
    slices = [_whole(rule, parts[i : i + width]) for i in range(0, len(parts), width)]
    whole = make(Stack(), *slices) if rule.stack else slices[0]
    return chain(inverse(rule.ops), whole)


def _whole(rule: Rule, parts: Sequence[Expr]) -> Expr:
    chains = _chains(rule, len(parts))
    undone = [chain(inverse(ops), part) for ops, part in zip(chains, parts, strict=True)]
    return make(Concat(rule.split.dim, rule.split.sizes), *undone) if rule.split else undone[0]


def joined(rule: Rule, parts: Sequence[Expr]) -> Expr:
    """Return how a hub tensor is made of the stored tensors that make it up, in order."""
    assert rule.split is not None
    done = [chain(ops, part) for ops, part in zip(_chains(rule, len(parts)), parts, strict=True)]
    return make(Concat(rule.split.dim, rule.split.sizes), *done)


def parted(rule: Rule, hub: Expr) -> list[Expr]:
    """Return how the stored tensors that make up a hub tensor are made of it, in order."""
    split = rule.split
    assert split is not None
    parts = [make(Take(split.dim, i, split.sizes), hub) for i in range(len(rule.storeds))]
    return [chain(inverse(ops), part) for ops, part in zip(_chains(rule, len(parts)), parts, strict=True)]


def _chains(rule: Rule, count: int) -> tuple[tuple[Op, ...], ...]:
    return rule.each or ((),) * count
