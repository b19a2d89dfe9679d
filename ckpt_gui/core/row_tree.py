"""Rows in an order, as a tree of ranges of that order that costs nothing until it is looked at.

A model can have 500,000 tensors. Building a node for each takes seconds and hundreds of megabytes; so a node is a range
of sorted keys, and its children are found by bisection when somebody asks. Segments of a key stand between characters
that sort lower than all others, which keeps each prefix together. Natural order (layer 2 before layer 10) is made for
each node's children, not for all keys.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import accumulate

from ckpt_gui.core.diff import STATES, Row
from ckpt_gui.core.keys import natural

CODE: Mapping[str, int] = {state: number for number, state in enumerate(STATES)}  # the lower, the more attention
Twins = Sequence[Sequence[int]]
FIRST, AFTER = "\0", "\1"  # below and just above every character that follows a prefix


def find_twins(rows: Sequence[Row]) -> Twins:
    """Return the numbers of rows that show the same elements of the same storage, group by group."""
    counts = Counter((ref.file, ref.storage) for row in rows if (ref := row.ref) is not None and ref.storage)
    if len(counts) == counts.total():
        return ()
    groups: dict[object, list[int]] = {}
    for number, row in enumerate(rows):
        if (ref := row.ref) is not None and counts[ref.file, ref.storage] > 1:
            groups.setdefault(ref.place, []).append(number)
    return tuple(tuple(group) for group in groups.values() if len(group) > 1)


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


class RowTree:
    """Some of the rows of a diff in the order of their keys, as a lazy tree.

    Args:
        rows: All rows of the diff.
        order: The numbers of those that are in the tree, in the order of their keys.
        keys: Those keys, with `FIRST` between their segments.
        twins: Groups of numbers of all rows that show the same elements (see `find_twins`).

    Attributes:
        rows: All rows, in the diff's order.
        root: The node that holds everything.
    """

    def __init__(self, rows: Sequence[Row], order: array[int], keys: list[str], twins: Twins) -> None:
        self.rows, self._twins = rows, twins
        self._order, self._keys = order, keys
        self._states = bytes([CODE[rows[number].state] for number in order])
        self._bytes = array("q", accumulate((rows[number].nbytes for number in order), initial=0))
        self._position = array("l", [-1]) * len(rows)
        for place, number in enumerate(order):
            self._position[number] = place
        self._again = self._aliases()
        self._marked: tuple[frozenset[str], bytes] = (frozenset(), b"")
        self.root = Node("", 0, len(order), 0, None, False)

    @property
    def states(self) -> bytes:
        """The code of each row's state, in the order of the keys."""
        return self._states

    def holds(self, number: int) -> bool:
        """Return True if a row, by its number, is in the tree."""
        return self._position[number] >= 0

    def position(self, number: int) -> int:
        """Return the position of a row in the order of the keys."""
        return self._position[number]

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
        return FIRST.join(self._keys[node.lo].split(FIRST)[: node.depth]) if node.size else ""

    def title(self, node: Node) -> str:
        """Return a node's whole name for people."""
        return self.prefix(node).replace(FIRST, ".")

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
        found = {state: self._states.count(code, node.lo, node.hi) for state, code in CODE.items()}
        return {state: count for state, count in found.items() if count}

    def nbytes(self, node: Node) -> int:
        """Return the bytes of all rows of a node; what is stored once and named twice in it counts once."""
        inside = self._again[bisect_left(self._again, (node.lo,)) : bisect_left(self._again, (node.hi,))]
        twice = sum(self.rows[self._order[at]].nbytes for at, before in inside if before >= node.lo)
        return self._bytes[node.hi] - self._bytes[node.lo] - twice

    def locate(self, number: int) -> Node:
        """Return the node of a row."""
        place = self.position(number)
        node = self.root
        while not node.is_row:
            node = next(child for child in self.children(node) if child.lo <= place < child.hi)
        return node

    def next_row(self, node: Node | None, states: Collection[str], *, forward: bool = True) -> Node | None:
        """Return the next (or previous) row in one of the states, in tree order; it starts over at the end."""
        marks = self._marks(frozenset(states))
        if node is None:
            return self._first(self.root, marks, forward)
        if forward and not node.is_row and (found := self._first(node, marks, forward)):
            return found
        while node.parent is not None:
            siblings = self.children(node.parent)
            rest = siblings[node.place + 1 :] if forward else siblings[: node.place][::-1]
            if found := next((f for s in rest if (f := self._first(s, marks, forward))), None):
                return found
            node = node.parent
        return self._first(self.root, marks, forward)

    def first_row(self, node: Node, states: Collection[str]) -> Node | None:
        """Return the first row of a node in one of the states, in tree order."""
        return self._first(node, self._marks(frozenset(states)), True)

    def _marks(self, states: frozenset[str]) -> bytes:
        """Return 1 for each row in one of the states, 0 for the others, in the order of the keys."""
        if self._marked[0] != states:
            table = bytes([name in states for name in CODE]).ljust(256, b"\0")
            self._marked = (states, self._states.translate(table))
        return self._marked[1]

    def _aliases(self) -> list[tuple[int, int]]:
        """Return the positions of rows whose elements stand at an earlier position too, each with that position."""
        again: list[tuple[int, int]] = []
        for group in self._twins:
            places = sorted(place for number in group if (place := self._position[number]) >= 0)
            again += zip(places[1:], places, strict=False)
        return sorted(again)

    def _first(self, node: Node, marks: bytes, forward: bool) -> Node | None:
        """Return the first marked row of a node; whole branches without any are not entered."""
        if marks.find(1, node.lo, node.hi) < 0:
            return None
        while not node.is_row:
            children = self.children(node) if forward else self.children(node)[::-1]
            node = next(c for c in children if marks.find(1, c.lo, c.hi) >= 0)
        return node

    def _split(self, node: Node) -> Iterator[Node]:
        """Yield the children of a node in sorted order."""
        place = node.lo
        while place < node.hi:
            segments = self._keys[place].split(FIRST)
            if len(segments) <= node.depth + 1:  # the key ends here; others may go on below the same name
                child = self._end(node, segments, place)
            else:
                start = FIRST.join(segments[: node.depth + 1])
                child = self._child(node, segments, place, bisect_left(self._keys, start + AFTER, place, node.hi))
            yield child
            place = child.hi

    def _end(self, parent: Node, segments: list[str], place: int) -> Node:
        """Return the node of a key that ends where its parent's name does but for one segment."""
        return Node(segments[-1], place, place + 1, len(segments), parent, True)

    def _child(self, parent: Node, segments: list[str], lo: int, hi: int) -> Node:
        """Return the node of a range, with all segments that its keys share in its name."""
        last = self._keys[hi - 1].split(FIRST)
        depth = parent.depth + 1
        if hi - lo == 1:
            return Node(".".join(segments[parent.depth :]), lo, hi, len(segments), parent, True)
        while depth < min(len(segments), len(last)) - 1 and segments[depth] == last[depth]:
            depth += 1
        return Node(".".join(segments[parent.depth : depth]), lo, hi, depth, parent, False)
