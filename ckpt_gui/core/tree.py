"""The rows of a diff as a tree of names, sorted once, and a filter over them."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence

from ckpt_gui.core.diff import Row
from ckpt_gui.core.filtering import Query, Subject, Subjects, subject, text_of
from ckpt_gui.core.key_families import FamilyTree, families
from ckpt_gui.core.row_tree import CODE, RowFacts, RowTree, counted, in_order
from ckpt_gui.core.rows import names_of, paths_of, refs_of, types_of
from ckpt_gui.dataclasses import dataclass, field

# States that `next difference` stops at.
DIFFERENT = frozenset({"error", "missing", "shape", "extra", "differs", "transform", "renamed", "dtype"})


@dataclass(frozen=True, slots=True)
class Hits:
    """What a filter found.

    Attributes:
        rows: Numbers of the rows, in the diff's order.
        codes: The codes of their states.
        counts: Rows of each state that the rest of the filter lets pass, whichever states it asks for.
    """

    rows: Sequence[int]
    codes: bytes = b""
    counts: Mapping[str, int] = field(default_factory=dict)


class CheckpointIndex(RowTree):
    """All rows of a diff, sorted once, as a lazy tree.

    Args:
        rows: The rows of the diff.
        places: Under which name each row stands in the tree, if not under its own path (see `tree_places`).

    Attributes:
        rows: The rows, in the diff's order.
        root: The node that holds everything.
        types: The element types that there are.
    """

    def __init__(self, rows: Sequence[Row], places: Sequence[str] | None = None) -> None:
        keys = paths_of(rows) if places is None else places
        order = array("l", in_order(keys))
        super().__init__(RowFacts(rows), order, [keys[number] for number in order])
        self.types = types_of(rows) - {""}  # an index alone tells of none
        self._subjects: Subjects | None = None
        self._families: FamilyTree | None = None

    def only(self, numbers: Sequence[int]) -> RowTree:
        """Return a tree of some of the rows, by their numbers."""
        return self.some(self._marking(numbers))

    def families(self, numbers: Sequence[int] | None = None) -> FamilyTree:
        """Return all rows, or some of them by their numbers, as families of keys that differ in numbers only."""
        if self._families is None:
            self._families = families(self._facts, self._order, self._keys).prepare()
        return self._families if numbers is None else self._families.some(self._marking(numbers))

    @property
    def knows_families(self) -> bool:
        """Whether the families of all rows are known already."""
        return self._families is not None

    @property
    def is_ready(self) -> bool:
        """Whether a filter can begin at once: what it looks at is known."""
        return self._subjects is not None

    def codes(self, numbers: Sequence[int]) -> bytes:
        """Return the codes of the states of some rows, by their numbers in order."""
        codes = self._facts.codes
        return codes if len(numbers) == len(codes) else bytes([codes[number] for number in numbers])

    def place(self, number: int) -> str:
        """Return the name under which a row stands in the tree; `find` takes it."""
        return self._keys[self.position(number)]

    def select(self, wanted: Query, keys: Collection[str] | None = None) -> Hits:
        """Return the rows that a filter, and a set of keys if given, let pass."""
        numbers: Sequence[int] = range(len(self.rows))
        if others := wanted.without_states():
            numbers = others.select(self.subjects(), numbers)
        if keys is not None:
            numbers = _called(self.rows, numbers, frozenset(keys))
        codes = self.codes(numbers)
        counts = counted(codes, 0, len(codes))
        if of_states := wanted.of_states():
            passes = [of_states.matches(subject((), state)) for state in CODE]
            numbers = [n for n, code in zip(numbers, codes, strict=True) if passes[code]]
            codes = bytes([code for code in codes if passes[code]])
        return Hits(numbers, codes, counts)

    def subjects(self) -> Subjects:
        """Return the rows as a filter sees them, in the diff's order; made on the first call."""
        if self._subjects is None:
            keys, expected = names_of(self.rows, range(len(self.rows)))
            texts = [text_of(_shown(*pair)) for pair in zip(keys, expected, strict=True)]
            self._subjects = Subjects(texts, lambda: [_subject(row) for row in self.rows])
        return self._subjects

    def _marking(self, numbers: Sequence[int]) -> bytearray:
        """Return 1 for each row whose number is among these, 0 for the others, in the diff's order."""
        marks = bytearray(len(self.rows))
        for number in numbers:
            marks[number] = 1
        return marks

    def find(self, path: str) -> int | None:
        """Return the number of the first row that stands under a name."""
        place = bisect_left(self._keys, path)
        return self._order[place] if place < len(self._keys) and self._keys[place] == path else None


def _subject(row: Row) -> Subject:
    shape = row.expected_shape if row.shape is None else row.shape
    return subject(_shown(row.key, row.expected), row.state, row.type_name, shape, row.nbytes, row.file)


def _shown(key: str, expected: str) -> tuple[str, ...]:
    """Return the names by which a filter knows a row."""
    return (key, expected) if key and expected and key != expected else (key or expected,)


def _called(rows: Sequence[Row], numbers: Sequence[int], keys: frozenset[str]) -> list[int]:
    """Return those of the numbers whose rows a finding or a step calls by one of the keys, with the section or not."""
    refs, found = refs_of(rows), []
    for number, key, expected in zip(numbers, *names_of(rows, numbers), strict=True):
        ref = refs[number] if number < len(refs) else None
        if (key or expected) in keys or (ref.full_key if ref is not None else expected) in keys:
            found.append(number)
    return found
