"""What can be done about a row of the fix plan, as data: each way is a button and a line of a menu."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ckpt_gui.core.errors import Finding
from ckpt_gui.core.export import Export
from ckpt_gui.core.plan import Step
from ckpt_gui.gui.models.finding_actions import actions_for
from ckpt_gui.gui.models.rule_list import rule_number

MOST = 6  # tensors of a clash that are offered one by one


@dataclass(frozen=True, slots=True)
class Resolution:
    """One way out.

    Attributes:
        kind: `action` triggers an action of the window; `drop` leaves a tensor out; `take` does a skipped step again;
            `tie` lets the tied pair be as the layout wants it; `edit`, `remove`, `up` and `down` are for a rule,
            `field` is for a field of the config.
        value: Name of the action, full key of the tensor, id of the step, number of the rule, or name of the field.
        text: What the button says; `{name}` stands for the key.
        name: The key in it, if there is one.
    """

    kind: Literal["action", "drop", "take", "tie", "edit", "remove", "up", "down", "field"]
    value: str
    text: str
    name: str = ""


def resolutions(finding: Finding, export: Export) -> tuple[Resolution, ...]:
    """Return the ways out of a finding, the best first; none where only another file helps."""
    ways = [Resolution("action", action.id, action.text) for action in actions_for(finding.code)]
    if finding.code == "key-collision":
        wanted = set(finding.keys)
        refs = [ref for ref in export.plan.source.refs if ref.key in wanted or ref.full_key in wanted]
        ways += [Resolution("drop", ref.full_key, "Leave out {name}", ref.full_key) for ref in refs[:MOST]]
    if finding.code == "rope-permuted" and "permute" in export.plan.policy.skip:
        ways.append(Resolution("take", "permute", "Reorder the rows after all"))
    if finding.code == "missing-tensor" and export.plan.unmapped:
        ways.append(Resolution("action", "map", "Map one of them…"))
    if finding.code == "tied-conflict":
        ways.append(Resolution("tie", "auto", "Decide as the layout wants it"))
    return tuple(ways)


def step_ways(step: Step, rules: int) -> tuple[Resolution, ...]:
    """Return what can be done with a step that the user has made.

    Args:
        step: The step.
        rules: How many rules there are.
    """
    if step.id in ("fields", "metadata"):
        return (Resolution("field", "", "Edit…"),)
    number = rule_number(step.id)
    if number is None:
        return ()
    ways = [Resolution("edit", str(number), "Edit…"), Resolution("remove", str(number), "Remove")]
    ways += [Resolution("up", str(number), "Earlier")] if number > 0 else []
    ways += [Resolution("down", str(number), "Later")] if number < rules - 1 else []
    return tuple(ways)
