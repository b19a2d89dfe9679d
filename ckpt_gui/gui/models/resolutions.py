"""What can be done about a row of the fix plan, as data: each way is a button and a line of a menu."""

from __future__ import annotations

from typing import Literal

from ckpt_gui.core.conflicts import Resolution, conflicts
from ckpt_gui.core.errors import Finding
from ckpt_gui.core.export import Export
from ckpt_gui.core.plan import Step
from ckpt_gui.dataclasses import dataclass
from ckpt_gui.gui.models.finding_actions import actions_for
from ckpt_gui.gui.models.rule_list import rule_number

Kind = Literal["action", "decide", "edit", "remove", "up", "down", "field"]


@dataclass(frozen=True, slots=True)
class Way:
    """One thing to do.

    Attributes:
        kind: `action` triggers an action of the window; `decide` takes decisions; `edit`, `remove`, `up` and `down` are
            for a rule, `field` is for fields of the config and the metadata.
        text: What the button says.
        value: Name of the action, or number of the rule.
        decided: The decisions to take.
    """

    kind: Kind
    text: str
    value: str = ""
    decided: Resolution | None = None


def ways_out(finding: Finding, export: Export) -> tuple[Way, ...]:
    """Return what can be done about a finding that blocks, the best first; nothing where only another file helps."""
    ways = [Way("action", action.text, action.id) for action in actions_for(finding.code)]
    found = (each.resolutions for each in conflicts(export) if each.finding == finding)
    ways += [Way("decide", each.label, decided=each) for each in next(found, ())]
    if finding.code == "missing-tensor" and export.plan.unmapped:
        ways.append(Way("action", "Map one of them…", "map"))
    return tuple(ways)


def step_ways(step: Step, rules: int) -> tuple[Way, ...]:
    """Return what can be done with a step that the user has made.

    Args:
        step: The step.
        rules: How many rules there are.
    """
    if step.id in ("fields", "metadata"):
        return (Way("field", "Edit…"),)
    number = rule_number(step.id)
    if number is None:
        return ()
    ways = [Way("edit", "Edit…", str(number)), Way("remove", "Remove", str(number))]
    ways += [Way("up", "Earlier", str(number))] if number > 0 else []
    ways += [Way("down", "Later", str(number))] if number < rules - 1 else []
    return tuple(ways)
