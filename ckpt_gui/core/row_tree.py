"""Rows in an order, as a tree of ranges of that order that costs nothing until it is looked at.

A model can have 500,000 tensors. Building a node for each takes seconds and hundreds of megabytes; so a node is a range
of sorted keys, and its children are found by bisection when somebody asks. Keys that begin alike stand together, so
that one range holds all below a name. Natural order (layer 2 before layer 10) is made for
each node's children, not for all keys.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import accumulate, compress

from ckpt_gui.core.diff import STATES, Row
from ckpt_gui.core.keys import natural
from ckpt_gui.core.rows import Picked, refs_of, sizes_of, states_of
from ckpt_gui.core.tensors import shares_storage

CODE: Mapping[str, int] = {state: number for number, state in enumerate(STATES)}  # the lower, the more attention
_LAST_FIRST = tuple((number, state) for state, number in CODE.items())[::-1]
PART, PART_LENGTH, LONGEST_PART = 10_000, 16, 128  # keys that are sorted at once; characters that part them, at most
DOT, PAST = ".", "/"  # what ends a segment, and the next character: keys below a name stand before the name with that


class RowFacts:
    """What every tree of some rows needs to know of all of them; found once.

    Attributes:
        rows: The rows.
        codes: The code of the state of each.
        sizes: The bytes of each.
        twins: The numbers of rows that show the same elements of the same storage, group by group.
    """

    def __init__(self, rows: Sequence[Row]) -> None:
        self.rows = rows
        self.codes = bytes([CODE[state] for state in states_of(rows)])
        self.sizes = array("q", sizes_of(rows))
        self.twins = _twins(rows)


def _twins(rows: Sequence[Row]) -> Sequence[Sequence[int]]:
    refs = refs_of(rows)
    if not shares_storage(ref for ref in refs if ref is not None and ref.storage):
        return ()
    counts = Counter((ref.file, ref.storage) for ref in refs if ref is not None)
    groups: dict[object, list[int]] = {}
    for number, ref in enumerate(refs):
        if ref is not None and ref.storage and counts[ref.file, ref.storage] > 1:
            groups.setdefault(ref.place, []).append(number)
    return tuple(tuple(group) for group in groups.values() if len(group) > 1)


def counted(codes: bytes, lo: int, hi: int) -> dict[str, int]:
    """Return how many codes of each state are in a range, in the order of attention; states without any are absent."""
    found, left = {}, hi - lo
    for code, state in _LAST_FIRST:  # most rows ask for no attention: the others need not be looked for
        if left and (count := codes.count(code, lo, hi)):
            found[state] = count
            left -= count
    return dict(reversed(found.items()))


def in_order(keys: Sequence[str], numbers: Sequence[int] | None = None, length: int = PART_LENGTH) -> list[int]:
    """Return the numbers of keys in the order of the keys.

    They are sorted in parts that begin alike: one long sort would keep all other threads waiting for its end.

    Args:
        keys: The keys.
        numbers: Of those that are sorted; None for all.
        length: Characters by which they are parted.
    """
    numbers = range(len(keys)) if numbers is None else numbers
    if len(numbers) <= PART or length > LONGEST_PART:
        return sorted(numbers, key=keys.__getitem__)
    parts: dict[str, list[int]] = {}
    for number in numbers:
        parts.setdefault(keys[number][:length], []).append(number)
    return [number for start in sorted(parts) for number in in_order(keys, parts[start], length + PART_LENGTH)]


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
        facts: All rows of the diff.
        order: The numbers of those that are in the tree, in the order of their keys.
        keys: Those keys.

    Attributes:
        rows: All rows, in the diff's order.
        root: The node that holds everything.
    """

    def __init__(self, facts: RowFacts, order: array[int], keys: list[str]) -> None:
        self.rows, self._facts = facts.rows, facts
        self._order, self._keys = order, keys
        codes, sizes = facts.codes, facts.sizes
        self._states = bytes([codes[number] for number in order])
        self._bytes = array("q", accumulate([sizes[number] for number in order], initial=0))
        self._places: array[int] | None = None
        self._again = self._aliases()
        self._marked: tuple[frozenset[str], bytes] = (frozenset(), b"")
        self.root = Node("", 0, len(order), 0, None, False)

    def some(self, passes: bytes | bytearray) -> RowTree:
        """Return a tree of the same kind of some of its rows: those whose numbers are marked with 1."""
        chosen = bytes([passes[number] for number in self._order])
        return self if chosen.count(1) == len(chosen) else self._cut(chosen)

    def _cut(self, chosen: bytes) -> RowTree:
        """Return a tree of the rows at the positions which are marked with 1."""
        return RowTree(self._facts, array("l", compress(self._order, chosen)), list(compress(self._keys, chosen)))

    @property
    def _position(self) -> array[int]:
        """The position of each row of the diff, by its number; -1 of those that are not in the tree."""
        if self._places is None:
            places = array("l", [-1]) * len(self._facts.rows)
            for place, number in enumerate(self._order):
                places[number] = place
            self._places = places  # whole: another thread may look
        return self._places

    def __del__(self) -> None:
        """Cut the cycles of nodes, which know of what is above and below, so that they go with the tree."""
        pending = [self.root] if hasattr(self, "root") else []
        while pending:
            node = pending.pop()
            pending += node.children or ()
            node.children = None

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

    def numbers_of(self, node: Node) -> Sequence[int]:
        """Return the numbers of all rows of a node."""
        return self._order[node.lo : node.hi]

    def rows_of(self, node: Node) -> Iterator[Row]:
        """Yield all rows of a node."""
        return iter(Picked(self.rows, self.numbers_of(node)))

    def prefix(self, node: Node) -> str:
        """Return a node's whole name: equal in another index exactly where the same group is."""
        return DOT.join(self._keys[node.lo].split(DOT)[: node.depth]) if node.size else ""

    def title(self, node: Node) -> str:
        """Return a node's whole name for people."""
        return self.prefix(node)

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
        return counted(self._states, node.lo, node.hi)

    def nbytes(self, node: Node) -> int:
        """Return the bytes of all rows of a node; what is stored once and named twice in it counts once."""
        inside = self._again[bisect_left(self._again, (node.lo,)) : bisect_left(self._again, (node.hi,))]
        twice = sum(self._facts.sizes[self._order[at]] for at, before in inside if before >= node.lo)
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
        for group in self._facts.twins:
            position = self._position
            places = sorted(place for number in group if (place := position[number]) >= 0)
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
            segments = self._keys[place].split(DOT)
            if len(segments) <= node.depth + 1:  # the key ends here; others may go on below the same name
                child = self._end(node, segments, place)
            else:
                start = DOT.join(segments[: node.depth + 1])
                child = self._child(node, segments, place, bisect_left(self._keys, start + PAST, place, node.hi))
            yield child
            place = child.hi

    def _end(self, parent: Node, segments: list[str], place: int) -> Node:
        """Return the node of a key that ends where its parent's name does but for one segment."""
        return Node(segments[-1], place, place + 1, len(segments), parent, True)

    def _child(self, parent: Node, segments: list[str], lo: int, hi: int) -> Node:
        """Return the node of a range, with all segments that its keys share in its name."""
        last = self._keys[hi - 1].split(DOT)
        depth = parent.depth + 1
        if hi - lo == 1:
            return Node(".".join(segments[parent.depth :]), lo, hi, len(segments), parent, True)
        while depth < min(len(segments), len(last)) - 1 and segments[depth] == last[depth]:
            depth += 1
        return Node(".".join(segments[parent.depth : depth]), lo, hi, depth, parent, False)
