"""Tensors in each other's place: exchanged within a layer, or under another name.

A digest of the first bytes tells which tensors may be equal; only those are read whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ckpt_gui.core.compare.blocks import Asked, Watch, prefix, same
from ckpt_gui.core.compare.pairing import Sides
from ckpt_gui.core.compare.result import Row, State, Stored
from ckpt_gui.core.errors import Cancelled, CheckpointError
from ckpt_gui.core.keys import indices
from ckpt_gui.core.ops import Stream

SAME_BYTES = "equal byte for byte under another name"


def find_places(sides: Sides, rows: Sequence[Row], cancelled: Asked) -> tuple[Row, ...]:
    """Return the rows with tensors found that have the bytes of another.

    Args:
        sides: Both checkpoints.
        rows: Rows whose values have been compared.
        cancelled: Asked before each block.

    Raises:
        Cancelled: `cancelled` said so.
    """
    made = list(rows)
    groups: dict[object, list[int]] = {}
    for i, row in enumerate(rows):
        if row.state == "differs" and row.a and row.b and row.how == "name":
            groups.setdefault((indices(row.key), row.a.shape), []).append(i)
    for group in groups.values():
        if len(group) > 1:
            _exchanged(sides, made, group, cancelled)
    return _renamed(sides, made, cancelled)


def _exchanged(sides: Sides, rows: list[Row], group: Sequence[int], cancelled: Asked) -> None:
    """Mark rows of one layer and shape of which one side has what the other has elsewhere."""
    left = _by_digest(group, lambda i: sides.both(rows[i])[0], cancelled)
    right = _by_digest(group, lambda i: sides.both(rows[i])[1], cancelled)
    in_b: dict[int, int] = {}  # row → where B has what A has in it
    in_a: dict[int, int] = {}  # row → where A has what B has in it
    for kind in left.keys() & right.keys():
        ours, theirs = left[kind], right[kind]
        for i, j in dict.fromkeys([*((i, theirs[0]) for i in ours), *((ours[0], j) for j in theirs)]):
            if i != j and same(sides.both(rows[i])[0], sides.both(rows[j])[1], Watch(None, cancelled)):
                in_b.setdefault(i, j)
                in_a.setdefault(j, i)
    for i in in_b.keys() | in_a.keys():
        rows[i] = rows[i].replace(state="swapped", note=_places(rows, in_b.get(i), in_a.get(i)), delta=None)


def _places(rows: Sequence[Row], in_b: int | None, in_a: int | None) -> str:
    """Say where the other side has a row's values."""
    if in_b is not None and in_b == in_a:
        return f"has changed places with `{_key(rows[in_b].a)}`"
    notes = [f"has in A the values of `{_key(rows[in_b].b)}` in B"] if in_b is not None else []
    notes += [f"has in B the values of `{_key(rows[in_a].a)}` in A"] if in_a is not None else []
    return "; ".join(notes)


def _renamed(sides: Sides, rows: list[Row], cancelled: Asked) -> tuple[Row, ...]:
    """Put together what is on one side only and has the same bytes under another name, if nothing else has."""
    left, right = (_alone(sides, rows, i, cancelled) for i in (0, 1))
    gone = set()
    for kind, ours in left.items():
        theirs = right.get(kind, [])
        if len(ours) != 1 or len(theirs) != 1:
            continue
        row = rows[ours[0]].replace(state="renamed", b=rows[theirs[0]].b, how="bytes", note=SAME_BYTES)
        if same(*sides.both(row), Watch(None, cancelled)):
            rows[ours[0]] = row
            gone.add(theirs[0])
    return tuple(row for i, row in enumerate(rows) if i not in gone)


def _alone(sides: Sides, rows: Sequence[Row], which: int, cancelled: Asked) -> dict[bytes, list[int]]:
    """Return the rows of A (0) or B (1) that stand alone, by digest."""
    state: State = "only-b" if which else "only-a"
    numbers = [i for i, row in enumerate(rows) if row.state == state]
    return _by_digest(numbers, lambda i: sides.one(which, rows[i].b if which else rows[i].a), cancelled)


def _by_digest(numbers: Sequence[int], stream_of: Callable[[int], Stream], cancelled: Asked) -> dict[bytes, list[int]]:
    """Return row numbers by the digest of their tensors."""
    found: dict[bytes, list[int]] = {}
    for i, kind in _digests(numbers, stream_of, cancelled):
        found.setdefault(kind, []).append(i)
    return found


def _digests(
    numbers: Sequence[int], stream_of: Callable[[int], Stream], cancelled: Asked
) -> Iterator[tuple[int, bytes]]:
    """Yield the digests of what can be read; what can not stays as it is."""
    for i in numbers:
        if cancelled():
            raise Cancelled
        try:
            yield i, prefix(stream_of(i))
        except (KeyError, CheckpointError):  # head counts are not known, or the bytes can not be read
            continue


def _key(stored: Stored | None) -> str:
    return stored.key if stored else ""
