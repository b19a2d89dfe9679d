"""Which stored tensor could be which expected one: candidates, the likeliest first, and the rule that says so.

A tensor under a wrong name has as a rule the shape of what is missing, the number of its layer, and a name that is
nearly right.
"""

from __future__ import annotations

from difflib import SequenceMatcher

from ckpt_gui.core.diff import Diff, Row
from ckpt_gui.core.edits import Rename
from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.export import Export
from ckpt_gui.core.keys import indices, safe_text
from ckpt_gui.core.passes.expectation import stored_name
from ckpt_gui.core.rows import in_state
from ckpt_gui.core.tensors import TensorRef
from ckpt_gui.dataclasses import dataclass

MOST = 20
LOOKED_AT = 2000  # names that are compared letter by letter


@dataclass(frozen=True, slots=True)
class Candidate:
    """One of them.

    Attributes:
        row: The other row of the diff.
        same_shape: True if the shapes agree.
        same_type: True if the element types do.
        likeness: How much the names are alike, from 0 to 1.
    """

    row: Row
    same_shape: bool
    same_type: bool
    likeness: float

    @property
    def key(self) -> str:
        """The name: the expected one of a missing row, else the stored one."""
        return self.row.key or self.row.expected


def candidates(diff: Diff, row: Row, most: int = MOST) -> tuple[Candidate, ...]:
    """Return what a row could belong to, the likeliest first.

    For a row with a stored tensor these are the expected tensors that are missing; for a missing one the stored tensors
    that nothing is expected of. Those of another shape come last, and only where few are alike.
    """
    wanted = "extra" if row.ref is None else "missing"
    others = [other for other in in_state(diff.rows, wanted) if other != row]
    alike = [other for other in others if _fits(row, other)]
    numbers = indices(row.path)
    near = [o for o in alike if indices(o.path) == numbers] or alike
    pool = near if len(near) >= most else [*near, *(o for o in others if o not in near)] if len(others) < 500 else near
    found = [_candidate(row, other) for other in pool[:LOOKED_AT]]
    found.sort(key=lambda c: (not c.same_shape, indices(c.key) != numbers, -c.likeness, not c.same_type))
    return tuple(found[:most])


def rule_for(export: Export, ref: TensorRef, expected: str) -> Rename:
    """Return the rule that makes a stored tensor the one that is expected under a name of the export's layout.

    Raises:
        CheckpointError: It is not expected, or is stored in parts, so that no name alone can stand for it.
    """
    plan = export.plan
    layout = export.layout or plan.layout
    for spec in plan.missing:
        name = stored_name(layout, spec.key) if layout else spec.key
        if name == expected:
            own = stored_name(plan.layout, spec.key) if plan.layout else spec.key
            own = own.removeprefix(plan.prefix) if plan.prefix else own
            return Rename(_name_now(export, ref), own)
    text = f"`{safe_text(expected, 80)}` is not missing in this checkpoint."
    raise CheckpointError("bad-edit", text, fix="Choose a tensor that is expected and not there.")


def _name_now(export: Export, ref: TensorRef) -> str:
    """Return the name that a rule finds a stored tensor by."""
    loose = (entry.key for entry in export.plan.unmapped if entry.ref is ref)
    return next(loose, ref.key)


def _fits(row: Row, other: Row) -> bool:
    stored, expected = (row.shape, other.expected_shape) if row.ref is not None else (other.shape, row.expected_shape)
    if stored is None or expected is None:
        return False
    return len(stored) == len(expected) and all(e in (None, s) for s, e in zip(stored, expected, strict=True))


def _candidate(row: Row, other: Row) -> Candidate:
    return Candidate(other, _fits(row, other), row.dtype == other.dtype, _likeness(row.path, other.path))


def _likeness(one: str, other: str) -> float:
    return SequenceMatcher(None, one, other, autojunk=False).ratio()
