"""What a rule for names would do, worked out while it is typed: how many keys it changes, and a few of them."""

from __future__ import annotations

import re

from ckpt_gui.core.edits import Rename
from ckpt_gui.core.passes.by_hand import STEP
from ckpt_gui.core.passes.unwrap import unwrap_keys
from ckpt_gui.core.plan import Plan
from ckpt_gui.core.policy import Policy
from ckpt_gui.core.renames import changes
from ckpt_gui.dataclasses import dataclass

SHOWN = 3
_EXPERTS = ("experts", "expert")


@dataclass(frozen=True, slots=True)
class RulePreview:
    """What a rule would do.

    Attributes:
        count: Tensors that it renames.
        pairs: The first of them: before, after.
    """

    count: int
    pairs: tuple[tuple[str, str], ...]


def preview_rule(plan: Plan, rule: Rename, number: int) -> RulePreview:
    """Return what a rule would do at its turn.

    Args:
        plan: The checkpoint, understood with the rules that there are.
        rule: The rule.
        number: How many of the plan's rules come before it.

    Raises:
        CheckpointError: The rule, or one before it, can not be used.
    """
    names = rule_names(plan)
    for _, before in _ticked(plan.policy, number):
        made = changes(before, names)
        names = [made.get(name, name) for name in names]
    made = changes(rule, names)
    if not made and rule.kind == "key":  # the name as it stands in the file
        made = {ref.key: rule.new for ref in plan.source.refs if rule.old in (ref.key, ref.full_key)}
    return RulePreview(len(made), tuple(list(made.items())[:SHOWN]))


def rule_names(plan: Plan) -> list[str]:
    """Return the names that rules are about: inside the section that holds the weights, without wrappers."""
    depth = len(plan.section)
    inside = [ref for ref in plan.source.refs if ref.path[:depth] == plan.section]
    keys = [".".join(ref.path[depth:]) for ref in inside]
    bare = unwrap_keys(keys).names
    return [bare[key] for key in keys]


def start_rule(plan: Plan, key: str) -> tuple[Rename, int | None]:
    """Return the rule to begin with for a key of the file, and its number if the plan has it already.

    A key that a rule has given its name is called otherwise by changing that rule; any other gets a new one, for all
    layers at once if it has numbers.

    >>> _with_places("layers.3.experts.12.w1.weight")
    'layers.{layer}.experts.{expert}.w1.weight'

    Raises:
        CheckpointError: A rule of the plan can not be used.
    """
    name = unwrap_keys([key]).names[key] if plan.wrappers else key
    last = None
    for number, rule in _ticked(plan.policy, None):
        made = changes(rule, [name]).get(name)
        if made is None and rule.kind == "key" and rule.old == key:  # the name as it stands in the file
            made = rule.new
        if made is not None:
            name, last = made, number
    if last is not None and plan.policy.renames[last].kind != "regex":
        return plan.policy.renames[last], last
    text = _with_places(name)
    return Rename(text, text, "template" if text != name else "key"), None


def _ticked(policy: Policy, end: int | None) -> list[tuple[int, Rename]]:
    """Return the first rules with their numbers, without those that are ticked off."""
    rules = enumerate(policy.renames[:end])
    return [(number, rule) for number, rule in rules if f"{STEP}:{number}" not in policy.skip]


def _with_places(name: str) -> str:
    """Return a name with a place for each of its numbers."""
    parts, words = name.split("."), iter(("layer", "n", "m", "k"))
    for place, part in enumerate(parts):
        if re.fullmatch(r"0|[1-9][0-9]{0,8}", part):
            expert = place > 0 and parts[place - 1] in _EXPERTS and "{expert}" not in parts
            word = "expert" if expert else next(words, None)
            parts[place] = f"{{{word}}}" if word else part
    return ".".join(parts)
