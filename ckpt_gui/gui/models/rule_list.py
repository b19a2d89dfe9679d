"""The user's rules for names as a list: taken out and moved, with those that are ticked off kept so."""

from __future__ import annotations

from collections.abc import Sequence

from ckpt_gui import dataclasses
from ckpt_gui.core.passes.by_hand import STEP
from ckpt_gui.core.policy import Policy


def rule_number(step: str) -> int | None:
    """Return which rule a step of the plan is, by its id; None for every other step.

    >>> rule_number("edit:2"), rule_number("rename")
    (2, None)
    """
    return int(step.removeprefix(f"{STEP}:")) if step.startswith(f"{STEP}:") else None


def without_rule(policy: Policy, number: int) -> Policy:
    """Return a policy without one of its rules."""
    return _reordered(policy, [n for n in range(len(policy.renames)) if n != number])


def with_rule_moved(policy: Policy, number: int, by: int) -> Policy:
    """Return a policy with one of its rules done earlier or later; unchanged at the ends."""
    order = list(range(len(policy.renames)))
    if 0 <= number + by < len(order):
        order.insert(number + by, order.pop(number))
    return _reordered(policy, order)


def _reordered(policy: Policy, order: Sequence[int]) -> Policy:
    rest = {step for step in policy.skip if rule_number(step) is None}
    skip = {f"{STEP}:{place}" for place, number in enumerate(order) if f"{STEP}:{number}" in policy.skip}
    return dataclasses.replace(
        policy, renames=tuple(policy.renames[number] for number in order), skip=frozenset(rest | skip)
    )
