"""A comparison as a table for the window: the look of its states, and rows that fold what is alike."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType

from ckpt_gui.core.compare import SAME, STATES, WORDS, Fold, Row, State, Stored, fold
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.text import plural
from ckpt_gui.dataclasses import dataclass
from ckpt_gui.gui.looks import StateStyle
from ckpt_gui.gui.wording import figure_text, shape_text

# state → glyph, word, colour role, bold
_LOOKS: Mapping[State, tuple[str, str, str, bool]] = {
    "only-a": ("−", "only in A", "orange", True),
    "only-b": ("+", "only in B", "teal", True),
    "shape": ("≠", "shape", "orange", True),
    "vocab": ("≠", "vocabulary", "orange", False),
    "untied": ("⚮", "untied", "orange", True),
    "differs": ("Δ", "differs", "violet", True),
    "swapped": ("⇄", "swapped", "red", True),
    "permuted": ("⟲", "other order", "violet", True),
    "renamed": ("↦", "renamed", "blue", False),
    "cast": ("~", "after a cast", "blue", False),
    "dtype": ("~", "type", "blue", False),
    "unread": ("○", "not read", "grey", False),
    "tied": ("⚭", "tied", "text", False),
    "fits": ("·", "fits", "text", False),
    "equal": ("=", "equal", "text", False),
}
COMPARE_STYLES: Mapping[str, StateStyle] = MappingProxyType({
    state: StateStyle(state, glyph, word, colour, WORDS[state], bold)
    for state, (glyph, word, colour, bold) in _LOOKS.items()
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the table: a fold, or one of its rows.

    Attributes:
        state: Its state.
        a: Name in A.
        b: Name in B.
        shape: Sizes, both where they differ.
        change: ‖Δ‖/‖W‖, of a fold the largest.
        largest: Largest |Δ|.
        share: Share of the elements that have changed, in percent.
        note: More, in a sentence.
        rows: What it stands for.
    """

    state: State
    a: str
    b: str
    shape: str
    change: str
    largest: str
    share: str
    note: str
    rows: tuple[Row, ...]


COLUMNS = (
    ("State", "How the two compare"),
    ("In A", "The key in the first checkpoint"),
    ("In B", "The key in the second"),
    ("‖Δ‖/‖W‖", "Length of the difference beside that of A's tensor; of a group the largest"),
    ("Changed", "Share of the elements that have changed"),
    ("Largest |Δ|", "The largest difference of two elements"),
    ("Shape", "Sizes and type; both where they differ"),
)
FIELDS = ("state", "a", "b", "change", "share", "largest", "shape")


def lines(rows: Iterable[Row]) -> tuple[Line, ...]:
    """Return the lines of a comparison, folded, in the order of attention. Takes a while for 100,000 rows."""
    place = {state: number for number, state in enumerate(STATES)}
    return tuple(sorted(map(_folded, fold(rows)), key=lambda line: place[line.state]))


def in_states(found: Sequence[Line], states: Collection[str]) -> Sequence[Line]:
    """Return the lines in one of the states, or all where none is named: a line has one state only."""
    return tuple(line for line in found if line.state in states) if states else found


def parts(line: Line) -> tuple[Line, ...]:
    """Return the lines below a fold: one for each of its rows; nothing below a single row."""
    return tuple(_line(row) for row in line.rows) if len(line.rows) > 1 else ()


def differences(found: Iterable[Line]) -> list[int]:
    """Return the places of the lines that are different."""
    return [place for place, line in enumerate(found) if line.state not in SAME]


def _folded(each: Fold) -> Line:
    if len(each.rows) == 1:
        return _line(each.rows[0])
    first = _line(each.rows[0])
    deltas = [row.delta for row in each.rows if row.delta]
    changed, count = sum(d.changed for d in deltas), sum(d.count for d in deltas)
    note = plural(len(each.rows), "tensor")
    return Line(
        each.state,
        safe_text(each.a, 300),
        safe_text(each.b, 300),
        first.shape,
        _largest(d.relative for d in deltas),
        _largest(d.max_diff for d in deltas),
        _percent(changed, count) if deltas else "",
        f"{note}. {first.note}".strip() if first.note else note,
        each.rows,
    )


def _line(row: Row) -> Line:
    delta = row.delta
    return Line(
        row.state,
        safe_text(row.a.key, 300) if row.a else "",
        safe_text(row.b.key, 300) if row.b else "",
        _shape(row.a, row.b),
        figure_text(delta.relative) if delta and delta.relative is not None else "",
        figure_text(delta.max_diff) if delta and delta.max_diff is not None else "",
        _percent(delta.changed, delta.count) if delta else "",
        row.note or f"{WORDS[row.state][:1].upper()}{WORDS[row.state][1:]}.",
        (row,),
    )


def _largest(figures: Iterable[float | None]) -> str:
    known = [figure for figure in figures if figure is not None]
    return figure_text(max(known)) if known else ""


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.3g} %" if whole else ""


def _shape(a: Stored | None, b: Stored | None) -> str:
    """Return sizes and type, both where they differ."""
    sides = [side for side in (a, b) if side is not None]
    shapes = list(dict.fromkeys(shape_text(side.shape) for side in sides))
    types = list(dict.fromkeys(side.dtype for side in sides if side.dtype))
    return "  ".join(filter(None, (" | ".join(shapes), " | ".join(types))))
