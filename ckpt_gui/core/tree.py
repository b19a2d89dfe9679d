"""The rows of a diff as a tree of names that costs nothing until it is looked at, and a filter over them.

A model can have 500,000 tensors. Building a node for each takes seconds and hundreds of megabytes, so the index only
sorts the keys once; a node is a range of that order, and its children are found by bisection when somebody asks. The
dot sorts as the lowest character there is, which keeps each prefix together. Natural order (layer 2 before layer 10) is
made for each node's children, not for all keys.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from ckpt_gui.core.diff import STATES, Row
from ckpt_gui.core.filtering import Query, Subject, subject
from ckpt_gui.core.keys import natural

# States that `next difference` stops at.
DIFFERENT = frozenset({"error", "missing", "shape", "extra", "differs", "transform", "renamed", "dtype"})
_CODE: Mapping[str, int] = {state: number for number, state in enumerate(STATES)}
_FIRST, _AFTER = "\0", "\1"  # below and just above every character that follows a prefix


@dataclass(frozen=True, slots=True)
class Hits:
    """What a filter found.

    Attributes:
        rows: Numbers of the rows, in the diff's order.
        counts: Rows of each state that the rest of the filter lets pass, whichever states it asks for.
    """

    rows: Sequence[int]
    counts: Mapping[str, int] = field(default_factory=dict)


class Node:
    """A place in the tree: a range of the sorted keys. Without children it is one row.

    Attributes:
        name: What is added to the parent's name; several segments where there is no branching between them.
        lo: First position of the range.
        hi: Position after the last one.
        depth: Segments from the root to the end of the name.
        parent: The node above; None for the root.
        place: Which child of its parent it is.
        is_row: True for a single row.
        children: The nodes below; None until they were asked for.
    """

    __slots__ = ("children", "depth", "hi", "is_row", "lo", "name", "parent", "place")

    def __init__(self, name: str, lo: int, hi: int, depth: int, parent: Node | None, is_row: bool) -> None:
        self.name, self.lo, self.hi, self.depth, self.parent, self.is_row = name, lo, hi, depth, parent, is_row
        self.place = 0
        self.children: tuple[Node, ...] | None = () if is_row else None

    @property
    def size(self) -> int:
        """Rows in it."""
        return self.hi - self.lo

    def ancestors(self) -> list[Node]:
        """Return the nodes from the root's child down to this one."""
        chain: list[Node] = []
        node: Node | None = self
        while node is not None and node.parent is not None:
            chain.append(node)
            node = node.parent
        return chain[::-1]


class CheckpointIndex:
    """The rows of a diff, sorted once, as a lazy tree.

    Args:
        rows: The rows of the diff.
        places: Under which name each row stands in the tree, if not under its own path (see `tree_places`).

    Attributes:
        rows: The rows, in the diff's order.
        root: The node that holds everything.
    """

    def __init__(self, rows: Sequence[Row], places: Sequence[str] | None = None) -> None:
        self.rows = rows
        names = [row.path for row in rows] if places is None else places
        keys = [name.replace(".", _FIRST) for name in names]
        self._order = array("l", sorted(range(len(rows)), key=keys.__getitem__))
        self._keys = [keys[number] for number in self._order]
        self._states = bytes(_CODE[rows[number].state] for number in self._order)
        self._bytes = array("q", accumulate((rows[number].nbytes for number in self._order), initial=0))
        self._again = self._aliases()
        self._subjects: list[Subject] | None = None
        self._position = array("l", bytes(self._order.itemsize * len(self._order)))
        for place, number in enumerate(self._order):
            self._position[number] = place
        self.root = Node("", 0, len(rows), 0, None, False)

    def row(self, node: Node) -> Row:
        """Return the row of a node that is one."""
        return self.rows[self._order[node.lo]]

    def number(self, node: Node) -> int:
        """Return the number of the row of a node that is one."""
        return self._order[node.lo]

    def rows_of(self, node: Node) -> Iterator[Row]:
        """Yield all rows of a node."""
        return (self.rows[number] for number in self._order[node.lo : node.hi])

    def prefix(self, node: Node) -> str:
        """Return a node's whole name: equal in another index exactly where the same group is."""
        return _FIRST.join(self._keys[node.lo].split(_FIRST)[: node.depth]) if node.size else ""

    def place(self, number: int) -> str:
        """Return the name under which a row stands in the tree; `find` takes it."""
        return self._keys[self.position(number)].replace(_FIRST, ".")

    def children(self, node: Node) -> tuple[Node, ...]:
        """Return the nodes below, in natural order; found on the first call."""
        if node.children is None:
            found = sorted(self._split(node), key=lambda n: natural(n.name))
            for place, child in enumerate(found):
                child.place = place
            node.children = tuple(found)
        return node.children

    def counts(self, node: Node) -> dict[str, int]:
        """Return how many rows of each state are below, in the order of attention; states without rows are absent."""
        found = {state: self._states.count(code, node.lo, node.hi) for state, code in _CODE.items()}
        return {state: count for state, count in found.items() if count}

    def nbytes(self, node: Node) -> int:
        """Return the bytes of all rows of a node; what is stored once and named twice in it counts once."""
        inside = self._again[bisect_left(self._again, (node.lo,)) : bisect_left(self._again, (node.hi,))]
        twice = sum(self.rows[self._order[at]].nbytes for at, before in inside if before >= node.lo)
        return self._bytes[node.hi] - self._bytes[node.lo] - twice

    def select(self, wanted: Query, keys: Collection[str] | None = None) -> Hits:
        """Return the rows that a filter, and a set of keys if given, let pass."""
        rows = self.rows
        numbers: Sequence[int] = range(len(rows))
        if wanted:
            numbers = wanted.without_states().select(self.subjects(), numbers)
        if keys is not None:
            chosen = frozenset(keys)
            numbers = [n for n in numbers if not chosen.isdisjoint(_names(rows[n]))]
        everything = len(numbers) == len(rows)
        counts = self.counts(self.root) if everything else dict(Counter[str](rows[n].state for n in numbers))
        if of_states := wanted.of_states():
            numbers = of_states.select(self.subjects(), numbers)
        return Hits(numbers, counts)

    def subjects(self) -> Sequence[Subject]:
        """Return the rows as a filter sees them, in the diff's order; made on the first call."""
        if self._subjects is None:
            self._subjects = [_subject(row) for row in self.rows]
        return self._subjects

    def find(self, path: str) -> int | None:
        """Return the number of the first row that stands under a name."""
        key = path.replace(".", _FIRST)
        place = bisect_left(self._keys, key)
        return self._order[place] if place < len(self._keys) and self._keys[place] == key else None

    def position(self, number: int) -> int:
        """Return the position of a row in the sorted order."""
        return self._position[number]

    def locate(self, number: int) -> Node:
        """Return the node of a row."""
        place = self.position(number)
        node = self.root
        while not node.is_row:
            node = next(child for child in self.children(node) if child.lo <= place < child.hi)
        return node

    def next_row(self, node: Node | None, states: Collection[str], *, forward: bool = True) -> Node | None:
        """Return the next (or previous) row in one of the states, in tree order; it starts over at the end."""
        if node is None:
            return self._first(self.root, states, forward)
        if forward and not node.is_row and (found := self._first(node, states, forward)):
            return found
        while node.parent is not None:
            siblings = self.children(node.parent)
            rest = siblings[node.place + 1 :] if forward else siblings[: node.place][::-1]
            if found := next((f for s in rest if (f := self._first(s, states, forward))), None):
                return found
            node = node.parent
        return self._first(self.root, states, forward)

    def _aliases(self) -> list[tuple[int, int]]:
        """Return the positions of rows whose elements stand at an earlier position too, each with that position."""
        last: dict[object, int] = {}
        again = []
        for at, number in enumerate(self._order):
            ref = self.rows[number].ref
            if ref is not None and ref.storage:
                before = last.get(ref.place)
                last[ref.place] = at
                if before is not None:
                    again.append((at, before))
        return again

    def _first(self, node: Node, states: Collection[str], forward: bool) -> Node | None:
        """Return the first row of a node in one of the states; whole branches without any are not entered."""
        if not any(self._states.find(_CODE[s], node.lo, node.hi) >= 0 for s in states):
            return None
        while not node.is_row:
            children = self.children(node) if forward else self.children(node)[::-1]
            node = next(c for c in children if any(self._states.find(_CODE[s], c.lo, c.hi) >= 0 for s in states))
        return node

    def _split(self, node: Node) -> Iterator[Node]:
        """Yield the children of a node in sorted order."""
        place = node.lo
        while place < node.hi:
            segments = self._keys[place].split(_FIRST)
            if len(segments) <= node.depth + 1:  # the key ends here; others may go on below the same name
                yield Node(segments[-1], place, place + 1, len(segments), node, True)
                place += 1
                continue
            start = _FIRST.join(segments[: node.depth + 1])
            end = bisect_left(self._keys, start + _AFTER, place, node.hi)
            yield self._child(node, segments, place, end)
            place = end

    def _child(self, parent: Node, segments: list[str], lo: int, hi: int) -> Node:
        """Return the node of a range, with all segments that its keys share in its name."""
        last = self._keys[hi - 1].split(_FIRST)
        depth = parent.depth + 1
        if hi - lo == 1:
            return Node(".".join(segments[parent.depth :]), lo, hi, len(segments), parent, True)
        while depth < min(len(segments), len(last)) - 1 and segments[depth] == last[depth]:
            depth += 1
        return Node(".".join(segments[parent.depth : depth]), lo, hi, depth, parent, False)


def _subject(row: Row) -> Subject:
    shape = row.expected_shape if row.shape is None else row.shape
    names = (row.key, row.expected) if row.key and row.expected and row.key != row.expected else (row.path,)
    file = row.ref.file if row.ref is not None else ""
    return subject(names, row.state, row.dtype, shape, row.nbytes, file)


def _names(row: Row) -> tuple[str, ...]:
    """Return every name that a finding or a step may call a row by."""
    return (row.key or row.expected, row.ref.full_key if row.ref is not None else row.expected)
