"""Which tensor of A stands beside which of B, and what names, shapes and types alone tell of the two.

Tensors meet under their hub names, whatever their layouts call them. Those that fit no slot of a family meet by name,
and then by a shape and type that no other of what is left has: a guess, which the row says.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

from ckpt_gui.core.compare.result import Row, Side, State, Stored
from ckpt_gui.core.keys import in_natural_order


def match(a: Side, b: Side) -> tuple[Row, ...]:
    """Return a row for every tensor of either side, judged by names, shapes and types."""
    keys = chain(a.tensors, (key for key in b.tensors if key not in a.tensors))
    rows = {key: row for key in keys if (row := _row(key, a, b)) is not None}
    for key_a, key_b in _alone(tuple(rows.values())):
        row = by_headers(Row(key_a, "renamed", rows[key_a].a, rows.pop(key_b).b, "shape"))
        note = "no other tensor has this shape and type; the names differ"
        rows[key_a] = row.replace(state="renamed" if row.state == "fits" else row.state, note=note)
    return tuple([rows.pop(key) for key in in_natural_order(rows)])


def by_headers(row: Row) -> Row:
    """Return a row that has both tensors with the state that their shapes and types tell."""
    assert row.a is not None
    assert row.b is not None
    if row.a.shape != row.b.shape and (state := shape_state(row.a, row.b)) != "fits":
        return row.replace(state=state)
    types = {row.a.dtype, row.b.dtype} - {""}
    return row.replace(state="dtype" if len(types) > 1 else "fits")


def shape_state(one: Stored, two: Stored) -> State:
    """Tell another number of vocabulary rows from another shape; sizes that a config does not tell fit."""
    if len(one.shape) != len(two.shape):
        return "shape"
    symbols: Sequence[str] = next((s for s in (one.symbols, two.symbols) if len(s) == len(one.shape)), ())
    pairs = list(zip(one.shape, two.shape, strict=True))
    wrong = [i for i, (x, y) in enumerate(pairs) if x is not None and y is not None and x != y]
    if not wrong:
        return "fits"
    return "vocab" if wrong == [0] and symbols and symbols[0] == "vocab" else "shape"


def _row(key: str, a: Side, b: Side) -> Row | None:
    one, two = a.tensors.get(key), b.tensors.get(key)
    if one is not None and two is not None:
        return by_headers(Row(key, "fits", one, two))
    short, full = (a, b) if one is None else (b, a)
    stand_in = short.tensors.get(short.embedding or "")
    if key == (short.head or full.head) and short.tied is True and stand_in is not None:
        return _tied(Row(key, "tied", one or stand_in, two or stand_in), short is a, full)
    return Row(key, "only-b" if one is None else "only-a", one, two)


def _tied(row: Row, in_a: bool, full: Side) -> Row:
    """Judge a head that one side leaves out, with the embedding that it shares in its place."""
    here, there = ("A", "B") if in_a else ("B", "A")
    state = by_headers(row).state
    if state in ("shape", "vocab"):
        return row.replace(state=state, note=f"{here} is tied: its head is its embedding")
    if full.tied is False:
        return row.replace(state="untied", note=f"{here} is tied: its head is its embedding; {there} is not")
    what = "stores a copy" if full.tied else "stores one, of which it is not known whether it is a copy"
    return row.replace(note=f"{here} leaves the head out, as it is the embedding; {there} {what}")


def _alone(rows: Iterable[Row]) -> list[tuple[str, str]]:
    """Return the keys of unmatched tensors of A and of B that fit no slot and have a shape and type of their own."""
    left, right = _by_header(rows, "only-a"), _by_header(rows, "only-b")
    return [(left[kind][0], right[kind][0]) for kind in left if len(left[kind]) == len(right.get(kind, ())) == 1]


def _by_header(rows: Iterable[Row], state: State) -> Mapping[object, list[str]]:
    found: dict[object, list[str]] = {}
    for row in rows:
        stored = row.a or row.b
        if row.state == state and stored is not None and not stored.symbols:
            found.setdefault((stored.shape, stored.dtype), []).append(row.key)
    return found
