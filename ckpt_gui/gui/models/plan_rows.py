"""The rows of the fix plan as plain values: steps, those ticked off included, what blocks, and examples."""

from __future__ import annotations

from ckpt_gui.core.errors import Finding
from ckpt_gui.core.export import Export
from ckpt_gui.core.keys import template
from ckpt_gui.core.plan import Step
from ckpt_gui.gui.wording import capital

EXAMPLES = 6
# Steps that the user asked for: to tick one off is to take the wish back.
WISHES = ("cast", "drop", "merge", "assigned")
PlanRow = Step | Finding


def all_steps(export: Export, unskipped: Export | None) -> tuple[Step, ...]:
    """Return the steps of an export, with those that were ticked off in their places.

    Args:
        export: What would be written.
        unskipped: The same with every step taken; None where none was ticked off.
    """
    if unskipped is None:
        return export.steps
    now, skip = {step.id: step for step in export.steps}, export.plan.policy.skip
    return tuple(now.get(step.id, step) for step in unskipped.steps if step.id in now or step.id in skip)


def examples(step: Step, export: Export) -> tuple[tuple[str, str], ...]:
    """Return a few (before, after) pairs of a step: its own, or read off the tensors that it concerns."""
    if step.examples:
        return step.examples
    keys = set(step.keys)
    found: dict[tuple[str, str], tuple[str, str]] = {}
    for entry in export.entries:
        if len(found) >= EXAMPLES:
            break
        if entry.ref.full_key in keys:
            before, after = entry.ref.key, entry.key
            words = [op.describe(export.plan.dims) for op in entry.ops if op.name == step.id]
            shown = "; ".join(words) or after
            if shown != before:
                found.setdefault((template(before), shown if words else template(after)), (before, shown))
    gone = [d for d in export.dropped if d.ref.full_key in keys][: EXAMPLES - len(found)]
    return (*found.values(), *((d.ref.key, f"– ({d.reason})") for d in gone))


def can_be_left(step: Step) -> bool:
    """Return whether a step can be ticked off."""
    return step.optional or step.id in WISHES


def row_name(row: PlanRow) -> str:
    """Return a name by which a row is known in the next snapshot."""
    return f"step:{row.id}" if isinstance(row, Step) else f"finding:{row.code}:{row.message}"


def sentence(text: str) -> str:
    """Return a text that starts with a capital and ends with a full stop.

    >>> sentence("all keys share it"), sentence("")
    ('All keys share it.', '')
    """
    return f"{capital(text)}{'' if text.endswith(('.', '!', '?')) else '.'}" if text else ""
