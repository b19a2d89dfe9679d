"""What the members of families of keys have in common, asked of columns: a few milliseconds for 100,000 of them.

The columns are made once, for all rows. A filter cuts them, so that families of what it lets pass cost no more than
finding out what that is.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import compress

from ckpt_gui.core.diff import Row
from ckpt_gui.core.key_numbers import grouped, numbers_at, with_ranges
from ckpt_gui.core.row_tree import DOT
from ckpt_gui.core.rows import Outline, kinds_of, names_of
from ckpt_gui.dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Common:
    """What the members of a family have in common, and what not.

    Attributes:
        stored: How many are in the file.
        places: How many there would be if none were lacking anywhere.
        lacking: The places without one, as `3, 5-7`; of two numbers as `2.0-7, 5.1`. Empty if there are none.
        expected: The name expected, with ranges; empty where nothing is, or where there is more than one name.
        shapes: How many shapes there are.
        sizes: Least and greatest size in each dimension, None for one that is not known; None if ranks differ.
        dtypes: The types that there are, the most frequent first.
        files: The files that they lie in, in the order of the members.
    """

    stored: int
    places: int
    lacking: str
    expected: str
    shapes: int
    sizes: tuple[tuple[int | None, int | None], ...] | None
    dtypes: tuple[str, ...]
    files: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Renamed:
    """The names under which members are expected, where some are not called so.

    Attributes:
        own: 1 for each member that is called as expected.
        numbers: For each member the number of that name without its numbers; 0 for none.
        names: Those names, from 1 on.
        codes: The numbers in the name of each (see `key_numbers`).
    """

    own: bytes
    numbers: array[int]
    names: Sequence[str]
    codes: array[int]

    def some(self, chosen: bytes) -> Renamed:
        """Return that of the members which are marked with 1."""
        return Renamed(
            bytes(compress(self.own, chosen)),
            array("I", compress(self.numbers, chosen)),
            self.names,
            array("q", compress(self.codes, chosen)),
        )

    def expected(self, lo: int, hi: int, title: str) -> str:
        """Return the one name that members are expected under, with ranges; empty if there is none, or more than one.

        Args:
            lo: The first member.
            hi: The one after the last.
            title: Their own name with ranges, which is that name where all are called as expected.
        """
        if self.own.count(1, lo, hi) == hi - lo:
            return title
        found = set(self.numbers[lo:hi])
        if 0 in found or len(found) != 1:
            return ""
        codes = self.codes[lo:hi]
        return with_ranges(self.names[found.pop()].split(DOT), lambda place: numbers_at(codes, place))


@dataclass(frozen=True, slots=True, eq=False)
class Members:
    """Columns of what is asked of members, in the order of the members.

    Attributes:
        kinds: For each the number of its outline.
        outlines: What they are apart from their names.
        renamed: The names expected; None where all are called as expected.
    """

    kinds: array[int]
    outlines: Sequence[Outline]
    renamed: Renamed | None

    def some(self, chosen: bytes) -> Members:
        """Return those members which are marked with 1."""
        renamed = self.renamed.some(chosen) if self.renamed is not None else None
        return Members(array("I", compress(self.kinds, chosen)), self.outlines, renamed)

    def common(self, lo: int, hi: int, stored: int, places: int, lacking: str, title: str) -> Common:
        """Return what a range of members has in common.

        Args:
            lo: The first one.
            hi: The one after the last.
            stored: As in `Common`, like the next two.
            places: How many there would be.
            lacking: The places without one.
            title: Their own name with ranges.
        """
        kinds = {self.outlines[kind]: count for kind, count in Counter(self.kinds[lo:hi]).items()}
        shapes = {kind.shape for kind in kinds}
        known = [shape for shape in shapes if shape is not None]
        ranks = {len(shape) for shape in known}
        return Common(
            stored,
            places,
            lacking,
            self.renamed.expected(lo, hi, title) if self.renamed is not None else title,
            len(shapes),
            tuple(_span(sizes) for sizes in zip(*known, strict=True)) if len(ranks) == 1 else None,
            _most_first(kinds),
            tuple(dict.fromkeys(kind.file for kind in kinds if kind.file is not None)),
        )


def members_of(rows: Sequence[Row], numbers: Sequence[int]) -> Members:
    """Return the columns of rows, by their numbers."""
    kinds, outlines = kinds_of(rows, numbers)
    return Members(kinds, outlines, _renamed(*names_of(rows, numbers)))


def _renamed(keys: Sequence[str], expected: Sequence[str]) -> Renamed | None:
    if keys == expected:
        return None
    numbers, codes = array("I", bytes(4 * len(keys))), array("q", bytes(8 * len(keys)))
    names = [""]
    for name, (found, places) in grouped(expected, [at for at, each in enumerate(expected) if each]).items():
        for place, code in zip(places, found, strict=True):
            numbers[place], codes[place] = len(names), code
        names.append(name)
    return Renamed(bytes([key == name for key, name in zip(keys, expected, strict=True)]), numbers, names, codes)


def _span(sizes: Sequence[int | None]) -> tuple[int | None, int | None]:
    known = [size for size in sizes if size is not None]
    return (min(known), max(known)) if known else (None, None)


def _most_first(kinds: Mapping[Outline, int]) -> tuple[str, ...]:
    """Return the types, the most frequent first."""
    counts: Counter[str] = Counter()
    for kind, count in kinds.items():
        counts[kind.type_name] += count
    return tuple(name for name, _ in counts.most_common())
