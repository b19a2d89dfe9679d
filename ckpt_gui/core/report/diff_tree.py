"""The differences of two checkpoints as a tree of names, layers that are alike on one line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ckpt_gui.core.compare import WORDS, Delta, Fold, Row, State, Stored, fold
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.report.name_tree import name_tree
from ckpt_gui.core.text import Branch, Style, Text

MOST_LINES = 2000
MOST_MEMBERS = 200
_STYLES: Mapping[State, Style] = {
    "only-a": "error", "only-b": "error", "shape": "error", "untied": "error", "permuted": "error", "swapped": "error",
    "vocab": "warning", "differs": "warning", "renamed": "warning", "cast": "info", "dtype": "info", "unread": "info",
    "tied": "good", "fits": "good", "equal": "good",
}  # fmt: skip


def difference_tree(rows: Iterable[Row]) -> tuple[Branch | Text, ...]:
    """Return rows as branches, in natural order of names."""
    folds = fold(rows)
    more = len(folds) - MOST_LINES
    cut = (Text(f"… and {more:,} more lines; the JSON has every tensor.", "quiet"),) if more > 0 else ()
    return (*name_tree((one.key, _line(one)) for one in folds[:MOST_LINES]), *cut)


def _line(one: Fold) -> Branch:
    count = f"{len(one.rows):,} × " if len(one.rows) > 1 else ""
    note = f"{count}{WORDS[one.state]}" + "".join(f"; {more}" for more in _details(one))
    return Branch("", note, _STYLES[one.state], members=_members(one))


def _details(one: Fold) -> Iterable[str]:
    first = one.rows[0]
    a, b = first.a, first.b
    if a is not None and b is not None:
        if a.shape != b.shape:
            yield f"A {_shape(a)}, B {_shape(b)}"
        if a.dtype != b.dtype and a.dtype and b.dtype:
            yield f"A {a.dtype}, B {b.dtype}"
    elif (stored := a or b) is not None:
        yield f"{_shape(stored)} {stored.dtype}".rstrip()
    if names := [f"{side} `{name}`" for side, name in (("A", one.a), ("B", one.b)) if name and name != one.key]:
        yield " and ".join(names)
    if deltas := [row.delta for row in one.rows if row.delta is not None]:
        yield delta_text(deltas)
    if first.note and first.state in ("vocab", "permuted", "swapped", "unread", "renamed", "untied", "differs"):
        yield f"{first.note} and so on" if len(one.rows) > 1 and first.state == "swapped" else first.note


def delta_text(deltas: Sequence[Delta]) -> str:
    """Say how far tensors are apart: one, or many together."""
    parts = []
    skipped = sum(d.skipped for d in deltas)
    of_finite = any(d.norm for d in deltas) or not skipped  # else nothing but what is not finite has changed
    relative = sorted(d.relative for d in deltas if d.relative is not None) if of_finite else []
    if relative:
        low, high = digits(relative[0]), digits(relative[-1])
        parts.append(f"‖Δ‖/‖W‖ {low}" if low == high else f"‖Δ‖/‖W‖ {low} to {high}")
    largest = [d.max_diff for d in deltas if d.max_diff is not None] if of_finite else []
    if largest:
        parts.append(f"largest |Δ| {digits(max(largest))}")
    count, changed = sum(d.count for d in deltas), sum(d.changed for d in deltas)
    if count:
        parts.append(
            f"{changed:,} of {count:,} elements" if changed < 1000 else f"{changed / count:.1%} of the elements"
        )
    if skipped:
        parts.append(f"{skipped:,} not finite")
    return ", ".join(parts)


def digits(value: float) -> str:
    """Return a number with three digits that matter.

    >>> digits(0.0123456), digits(0)
    ('0.0123', '0')
    """
    return f"{value:.3g}"


def _shape(stored: Stored) -> str:
    return "[" + ", ".join("?" if s is None else str(s) for s in stored.shape) + "]"


def _members(one: Fold) -> tuple[tuple[str, str], ...]:
    """Return the single tensors of a line that stands for several."""
    if len(one.rows) == 1:
        return ()
    made = [(row.key, delta_text([row.delta]) if row.delta else safe_text(row.note, 200)) for row in one.rows]
    more = len(made) - MOST_MEMBERS
    return (*made[:MOST_MEMBERS], (f"… {more:,} more", "")) if more > 0 else tuple(made)
