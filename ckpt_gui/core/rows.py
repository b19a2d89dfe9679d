"""The rows of a diff, made when somebody looks at them.

A model can have 500,000 tensors, and its diff a row for each. Most rows differ in nothing but their names: what they
have in common is kept once. The functions below say of many rows, `Rows` or a plain list, what is wanted without making
any.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from itertools import repeat
from typing import NamedTuple, overload

from ckpt_gui.core.bulk import blocks, build
from ckpt_gui.core.diff import Row, State
from ckpt_gui.core.tensors import TensorRef
from ckpt_gui.dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Told:
    """What many rows of stored tensors have in common.

    Attributes:
        state: As in `Row`, like all others.
        note: Why it is so.
        expected_shape: Shape expected.
        blocks: Name of the blocks of a quantised tensor.
    """

    state: State
    note: str = ""
    expected_shape: tuple[int | None, ...] | None = None
    blocks: str = ""


class Outline(NamedTuple):
    """What a row is apart from its names.

    Attributes:
        shape: Shape in the file; the expected one if missing.
        type_name: As in `Row`.
        file: The file that holds it; None if missing.
    """

    shape: tuple[int | None, ...] | None
    type_name: str
    file: str | None


OutlineKey = tuple["tuple[int | None, ...] | None", str, "str | None"]  # quicker to make than an `Outline`


class Rows(Sequence[Row]):
    """Rows that are made when they are asked for: two of the same number are equal, and not the same object.

    Args:
        told: For each stored tensor what its row has in common with others, or the row itself if it is like no other.
        refs: The tensors.
        expected: The name of each in the expected layout, empty for none; None if that holds of all.
        rest: The rows behind them, of what is not stored.
    """

    __slots__ = ("_expected", "_refs", "_rest", "_told")

    def __init__(
        self,
        told: Sequence[Told | Row],
        refs: Sequence[TensorRef],
        expected: Sequence[str] | None = None,
        rest: Sequence[Row] = (),
    ) -> None:
        self._told, self._refs, self._expected, self._rest = told, refs, expected, rest

    @property
    def refs(self) -> Sequence[TensorRef]:
        """The tensors of those rows that have one, which are the first."""
        return self._refs

    @property
    def rest(self) -> Sequence[Row]:
        """The rows that have none."""
        return self._rest

    def path(self, at: int) -> str:
        """Return the name of a row in the tree."""
        if at >= len(self._refs):
            return self._rest[at - len(self._refs)].path
        told = self._told[at]
        return told.path if isinstance(told, Row) else self._refs[at].key

    def states(self) -> list[State]:
        """Return the state of each row. This, and the next three, are quick where the rows themselves are not."""
        return [told.state for told in self._told] + [row.state for row in self._rest]

    def paths(self) -> list[str]:
        """Return the name of each row in the tree."""
        pairs = zip(self._told, self._refs, strict=True)
        return [
            *(told.path if isinstance(told, Row) else ref.key for told, ref in pairs),
            *(r.path for r in self._rest),
        ]

    def sizes(self) -> list[int]:
        """Return the bytes of each row."""
        return [ref.nbytes for ref in self._refs] + [row.nbytes for row in self._rest]

    def types(self) -> frozenset[str]:
        """Return the names of types that there are."""
        pairs = {(told.blocks, ref.dtype) for told, ref in zip(self._told, self._refs, strict=True)}
        return frozenset(blocks or dtype for blocks, dtype in pairs).union(row.type_name for row in self._rest)

    def outlines(self, numbers: Sequence[int]) -> Iterator[OutlineKey]:
        """Yield what some rows are apart from their names, as plain tuples."""
        count = len(self._refs)
        for number in numbers:
            if number < count:
                told, ref = self._told[number], self._refs[number]
                yield ref.shape or told.expected_shape, told.blocks or ref.dtype, ref.file
            else:
                yield _outline(self._rest[number - count])

    def names(self, numbers: Sequence[int]) -> tuple[list[str], list[str]]:
        """Return the names of some rows in the file, and the names that they are expected under."""
        count = len(self._refs)
        if self._expected is None or any(number >= count for number in numbers):
            rows = self.take(numbers)
            return [row.key for row in rows], [row.expected for row in rows]
        pairs = ((self._told[number], self._refs[number]) for number in numbers)
        keys = [told.key if isinstance(told, Row) else ref.key for told, ref in pairs]
        return keys, [self._expected[number] for number in numbers]

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._refs) + len(self._rest)

    @overload
    def __getitem__(self, at: int) -> Row: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[Row, ...]: ...
    def __getitem__(self, at: int | slice) -> Row | tuple[Row, ...]:
        """Return a row, or several."""
        if isinstance(at, slice):
            return tuple(self.take(range(len(self))[at]))
        at = range(len(self))[at]
        return self._rest[at - len(self._refs)] if at >= len(self._refs) else self._made(at)

    def __iter__(self) -> Iterator[Row]:
        """Yield all rows, made block by block."""
        for numbers in blocks(range(len(self))):
            yield from self.take(numbers)

    def __eq__(self, other: object) -> bool:
        """Return True if the rows are equal."""
        return isinstance(other, Rows) and len(self) == len(other) and all(map(Row.__eq__, self, other))

    __hash__ = None  # type: ignore[assignment]  # what they are may change, as that of a list

    def take(self, places: Sequence[int]) -> list[Row]:
        """Return some rows, made all at once."""
        told = [self._told[at] for at in places if at < len(self._refs)]
        if len(told) < len(places) or any(isinstance(one, Row) for one in told):
            return [self[at] for at in places]
        refs = [self._refs[at] for at in places]
        expected = [self._expected[at] for at in places] if self._expected is not None else repeat("")
        return build(
            Row, len(told), state=[one.state for one in told], key=[ref.key for ref in refs], expected=expected,
            shape=[ref.shape for ref in refs], expected_shape=[one.expected_shape for one in told],
            dtype=[ref.dtype for ref in refs], nbytes=[ref.nbytes for ref in refs], ref=refs,
            note=[one.note for one in told], blocks=[one.blocks for one in told], shard=repeat(""),
        )  # fmt: skip

    def _made(self, at: int) -> Row:
        told, ref = self._told[at], self._refs[at]
        if isinstance(told, Row):
            return told
        expected = self._expected[at] if self._expected is not None else ""
        return Row(
            told.state, ref.key, expected, ref.shape, told.expected_shape, ref.dtype, ref.nbytes, ref, told.note,
            told.blocks,
        )  # fmt: skip


class Picked(Sequence[Row]):
    """Some of the rows, by their numbers, made when they are looked at.

    Args:
        rows: All rows.
        numbers: Those that are picked, in the order wanted.
    """

    __slots__ = ("_numbers", "_rows")

    def __init__(self, rows: Sequence[Row], numbers: Sequence[int]) -> None:
        self._rows, self._numbers = rows, numbers

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._numbers)

    @overload
    def __getitem__(self, at: int) -> Row: ...
    @overload
    def __getitem__(self, at: slice) -> Picked: ...
    def __getitem__(self, at: int | slice) -> Row | Picked:
        """Return a row, or several."""
        return Picked(self._rows, self._numbers[at]) if isinstance(at, slice) else self._rows[self._numbers[at]]

    def __iter__(self) -> Iterator[Row]:
        """Yield the rows, made block by block."""
        for numbers in blocks(self._numbers):
            yield from take(self._rows, numbers)


def states_of(rows: Sequence[Row]) -> list[State]:
    """Return the states of many rows."""
    return rows.states() if isinstance(rows, Rows) else [row.state for row in rows]


def _outline(row: Row) -> OutlineKey:
    return row.shape or row.expected_shape, row.type_name, row.file if row.is_stored else None


def take(rows: Sequence[Row], numbers: Sequence[int]) -> list[Row]:
    """Return many of the rows."""
    return rows.take(numbers) if isinstance(rows, Rows) else [rows[number] for number in numbers]


def row_of(rows: Sequence[Row], ref: TensorRef) -> Row | None:
    """Return the row of a stored tensor; None if there is none."""
    return next((rows[at] for at, each in enumerate(refs_of(rows)) if each is ref), None)


def kinds_of(rows: Sequence[Row], numbers: Sequence[int]) -> tuple[array[int], list[Outline]]:
    """Return what some rows are apart from their names: for each a number, and what the numbers stand for."""
    found = rows.outlines(numbers) if isinstance(rows, Rows) else (_outline(rows[number]) for number in numbers)
    known: dict[OutlineKey, int] = {}
    kinds = array("I", [known.setdefault(each, len(known)) for each in found])
    return kinds, [Outline(*each) for each in known]


def names_of(rows: Sequence[Row], numbers: Sequence[int]) -> tuple[list[str], list[str]]:
    """Return the names of some rows in the file, and the names that they are expected under."""
    if isinstance(rows, Rows):
        return rows.names(numbers)
    return [rows[number].key for number in numbers], [rows[number].expected for number in numbers]


def without_ref(rows: Sequence[Row]) -> Sequence[Row]:
    """Return the rows of what is not stored."""
    return rows.rest if isinstance(rows, Rows) else [row for row in rows if row.ref is None]


def path_of(rows: Sequence[Row], number: int) -> str:
    """Return the name under which a row stands in the tree."""
    return rows.path(number) if isinstance(rows, Rows) else rows[number].path


def in_state(rows: Sequence[Row], state: str) -> Iterator[Row]:
    """Yield the rows of a state."""
    return (rows[at] for at, each in enumerate(states_of(rows)) if each == state)


def paths_of(rows: Sequence[Row]) -> list[str]:
    """Return the names under which many rows stand in the tree."""
    return rows.paths() if isinstance(rows, Rows) else [row.path for row in rows]


def refs_of(rows: Sequence[Row]) -> Sequence[TensorRef | None]:
    """Return the tensors of many rows; of those that have none, which are the last, some may be left out."""
    return rows.refs if isinstance(rows, Rows) else [row.ref for row in rows]


def sizes_of(rows: Sequence[Row]) -> list[int]:
    """Return the bytes of many rows."""
    return rows.sizes() if isinstance(rows, Rows) else [row.nbytes for row in rows]


def types_of(rows: Sequence[Row]) -> frozenset[str]:
    """Return the names of types of many rows."""
    return rows.types() if isinstance(rows, Rows) else frozenset(row.type_name for row in rows)
