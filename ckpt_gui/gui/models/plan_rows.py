"""The rows of the fix plan as plain values: steps, those ticked off included, what blocks, what changes."""

from __future__ import annotations

from collections.abc import Iterator

from ckpt_gui.core.errors import Finding
from ckpt_gui.core.export import Export
from ckpt_gui.core.folding import fold_names, folded
from ckpt_gui.core.keys import indices, template
from ckpt_gui.core.passes.by_hand import STEP
from ckpt_gui.core.plan import Step
from ckpt_gui.dataclasses import dataclass
from ckpt_gui.gui.wording import capital

# Steps that the user asked for: to tick one off is to take the wish back.
WISHES = ("cast", "drop", "merge", "assigned", "fields", "metadata")
PlanRow = Step | Finding


def all_steps(export: Export, unskipped: Export | None) -> tuple[Step, ...]:
    """Return the steps of an export, with those that were ticked off in their places.

    Args:
        export: What would be written.
        unskipped: The same with every step taken; None where none was ticked off.
    """
    return _with_idle_rules(_all_steps(export, unskipped), export)


def _with_idle_rules(steps: tuple[Step, ...], export: Export) -> tuple[Step, ...]:
    """Add a row for every rule of the user's that renames nothing here: it can be changed or taken out as well."""
    there = {step.id for step in steps}
    idle = [
        Step(
            f"{STEP}:{n}", f"Rename `{rule.old}` to `{rule.new}`", 0, "fits no tensor of this checkpoint", optional=True
        )
        for n, rule in enumerate(export.plan.policy.renames)
        if f"{STEP}:{n}" not in there
    ]
    return (*idle, *steps)


def _all_steps(export: Export, unskipped: Export | None) -> tuple[Step, ...]:
    if unskipped is None:
        return export.steps
    now, skip = {step.id: step for step in export.steps}, export.plan.policy.skip
    return tuple(now.get(step.id, step) for step in unskipped.steps if step.id in now or step.id in skip)


@dataclass(frozen=True, slots=True)
class Change:
    """What a step makes of some tensors whose names differ in their numbers only.

    Attributes:
        before: Name in the file, with ranges in the place of numbers.
        after: Name or value after the step, or that it is left out.
        count: Tensors that are folded into this line.
    """

    before: str
    after: str
    count: int


def changes(step: Step, export: Export) -> tuple[Change, ...]:
    """Return what a step changes, folded; those of a step that names no tensors are its examples."""
    pairs = list(_pairs(step, export))
    if not pairs:
        return tuple(Change(before, after, 1) for before, after in step.examples)
    # Names are folded where the numbers before are those after, and where the same is said of all.
    kinds = [template(after) if indices(before) == indices(after) else after for before, after in pairs]
    folds = fold_names((before, kind) for (before, _), kind in zip(pairs, kinds, strict=True))
    made = []
    for texts, members in sorted(folds, key=lambda fold: min(fold[1])):
        before, after = pairs[members[0]]
        if len(members) > 1:
            before, after = folded(before, texts), folded(after, texts) if indices(before) == indices(after) else after
        made.append(Change(before, after, len(members)))
    return tuple(made)


def _pairs(step: Step, export: Export) -> Iterator[tuple[str, str]]:
    """Yield the (before, after) of every tensor that a step changes."""
    keys, dims = set(step.keys), export.plan.dims
    for entry in export.entries:
        if keys.isdisjoint(ref.full_key for ref in entry.inputs):
            continue
        words = [op.describe(dims) for op in entry.ops if op.name == step.id]
        after = "; ".join(words) or entry.key
        if after != entry.ref.key:
            yield entry.ref.key, after
    yield from ((d.ref.key, f"– ({d.reason})") for d in export.dropped if d.ref.full_key in keys)


def can_be_left(step: Step) -> bool:
    """Return whether a step can be ticked off."""
    return step.optional or step.id in WISHES


def asks_for_tick(step: Step) -> bool:
    """Return whether a step is done only once the user agrees to it: nothing proves it, and it can not be left out."""
    return not step.certain and not can_be_left(step)


def row_name(row: PlanRow) -> str:
    """Return a name by which a row is known in the next snapshot."""
    return f"step:{row.id}" if isinstance(row, Step) else f"finding:{row.code}:{row.message}"


def sentence(text: str) -> str:
    """Return a text that starts with a capital and ends with a full stop.

    >>> sentence("all keys share it"), sentence("")
    ('All keys share it.', '')
    """
    return f"{capital(text)}{'' if text.endswith(('.', '!', '?')) else '.'}" if text else ""
