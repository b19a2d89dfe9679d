"""What can be done about a finding that blocks the export, as data: each is a button and a line of a menu."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ckpt_gui.core.errors import Finding
from ckpt_gui.core.export import Export
from ckpt_gui.gui.models.finding_actions import actions_for

MOST = 6  # tensors of a clash that are offered one by one


@dataclass(frozen=True, slots=True)
class Resolution:
    """One way out.

    Attributes:
        kind: `action` triggers an action of the window; `drop` leaves a tensor out; `take` does a skipped step again;
            `tie` lets the tied pair be as the layout wants it.
        value: Name of the action, full key of the tensor, or id of the step.
        text: What the button says; `{name}` stands for the key.
        name: The key in it, if there is one.
    """

    kind: Literal["action", "drop", "take", "tie"]
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
    if finding.code == "tied-conflict":
        ways.append(Resolution("tie", "auto", "Decide as the layout wants it"))
    return tuple(ways)
