"""The key tree of a checkpoint beside a reference: the rows of its diff, told of by the comparison."""

from __future__ import annotations

from collections import Counter

from ckpt_gui import dataclasses
from ckpt_gui.core.against import WORDS, Against
from ckpt_gui.core.compare import Row as Compared
from ckpt_gui.core.diff import STATES, Diff, Row, State

# Of a comparison → of the tree. Names and shapes that fit are `same` there, whether values were compared or not.
_STATES: dict[str, State] = {
    "equal": "same", "fits": "same", "unread": "same", "tied": "tied", "cast": "dtype", "dtype": "dtype",
    "permuted": "transform", "renamed": "renamed", "shape": "shape", "vocab": "shape", "only-a": "extra",
    "only-b": "missing", "untied": "differs", "differs": "differs", "swapped": "differs",
}  # fmt: skip


def beside_rows(diff: Diff, beside: Against) -> Diff:
    """Return the rows of a diff as the reference has them expected; what it does not know of stays as it is."""
    found: dict[int, list[Compared]] = {}
    for row in beside.rows:
        for ref in row.a.entry.inputs if row.a and row.a.entry else ():
            found.setdefault(id(ref), []).append(row)
    rows = [_told(row, found[id(row.ref)]) if id(row.ref) in found else row for row in diff.rows if row.ref is not None]
    rows += [_missing(row) for row in beside.rows if row.a is None and row.b is not None]
    return Diff(tuple(rows), Counter(row.state for row in rows))


def _told(row: Row, compared: list[Compared]) -> Row:
    """Return a row in the worst of the states that its tensors have."""
    worst = min(compared, key=lambda each: STATES.index(_STATES[each.state]))
    other = worst.b
    words = WORDS[worst.state] + (f": {worst.note}" if worst.note else "")
    return dataclasses.replace(
        row,
        state=_STATES[worst.state],
        expected=other.key if other else "",
        expected_shape=other.shape if other and len(compared) == 1 else None,
        note=words,
    )


def _missing(row: Compared) -> Row:
    assert row.b is not None
    state: State = "tied" if row.state == "tied" else "missing"
    return Row(state, "", row.b.key, None, row.b.shape, row.b.dtype, 0, None, WORDS[row.state])
