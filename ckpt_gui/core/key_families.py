"""Keys that differ in numbers only, as one line: `layers.{0-31}.self_attn.q_proj.weight` stands for 32 of them.

500,000 tensors of a mixture of experts have a dozen such families. Their names without numbers are a small tree; below
a name stand its members, by their first number, then by the next. What is irregular is told: a number that is lacking,
shapes and types that differ.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import compress
from typing import cast

from ckpt_gui.core.family_members import Common, Members, members_of
from ckpt_gui.core.key_numbers import (
    NUMBER,
    grouped,
    in_order,
    lacking_text,
    last_like,
    number_at,
    numbers_at,
    with_ranges,
)  # fmt: skip
from ckpt_gui.core.row_tree import CODE, DOT, Node, RowFacts, RowTree

MOST_PREPARED = 2_000  # names that are looked at before they are shown
MOST_PLACES = 1 << 20  # that are looked through for those that are lacking
_MISSING = CODE["missing"]


class Family(Node):
    """All keys of one name, or those of them with some first numbers.

    Attributes:
        bound: How many of the numbers are given.
        numbers: How many there are.
    """

    __slots__ = ("bound", "numbers")

    def __init__(self, name: str, lo: int, hi: int, depth: int, parent: Node, bound: int, numbers: int) -> None:
        super().__init__(name, lo, hi, depth, parent, False)
        self.bound, self.numbers = bound, numbers


class FamilyTree(RowTree):
    """Rows as families: made by `families`, or from such a tree by `some`.

    Args:
        facts: All rows of the diff.
        order: The numbers of those that are in the tree, family by family.
        names: The name of the family of each.
        codes: The numbers in the key of each (see `key_numbers`).
        members: What else is asked of each.
    """

    def __init__(
        self, facts: RowFacts, order: array[int], names: list[str], codes: array[int], members: Members
    ) -> None:
        super().__init__(facts, order, names)
        self._codes, self._columns = codes, members
        self._values: dict[tuple[int, int, int], tuple[int, ...]] = {}
        self._common: dict[Node, Common] = {}

    def some(self, passes: bytes | bytearray) -> FamilyTree:
        """Return families of some of the rows: those whose numbers are marked with 1."""
        return cast(FamilyTree, super().some(passes))

    def _cut(self, chosen: bytes) -> FamilyTree:
        return FamilyTree(
            self._facts,
            array("l", compress(self._order, chosen)),
            list(compress(self._keys, chosen)),
            array("q", compress(self._codes, chosen)),
            self._columns.some(chosen),
        )

    def prefix(self, node: Node) -> str:
        """Return a node's whole name: equal in another tree exactly where the same family is."""
        name = super().prefix(node)
        bound = [str(self._number(node.lo, n)) for n in range(node.bound)] if isinstance(node, Family) else []
        return "\1".join([name, *bound])

    def title(self, node: Node) -> str:
        """Return a node's whole name for people, with ranges for its numbers."""
        return self._named(self._keys[node.lo].split(DOT)[: node.depth], 0, node.lo, node.hi) if node.size else ""

    def common(self, node: Node) -> Common:
        """Return what the members of a family have in common; found on the first call."""
        known = self._common.get(node)
        if known is None:
            known = self._common[node] = self._found(node)
        return known

    def prepare(self) -> FamilyTree:
        """Find out what is shown of the families first, before they are shown; return the tree."""
        pending = [self.root]
        for _ in range(MOST_PREPARED):
            if not pending:
                break
            node = pending.pop()
            if isinstance(node, Family):
                self.common(node)
            else:
                pending += self.children(node)
        return self

    # -------------------------------------------------------------------------------------------------------- details

    def _found(self, node: Node) -> Common:
        stored = node.size - self._states.count(_MISSING, node.lo, node.hi)
        places, lacking = self._lacking(node, stored)
        return self._columns.common(node.lo, node.hi, stored, places, lacking, self.title(node))

    def _lacking(self, node: Node, stored: int) -> tuple[int, str]:
        """Return how many places there are, by the numbers that the groups around a family have, and which are free."""
        if not isinstance(node, Family):
            return stored, ""
        around = self._around(node)
        places = 1
        for values in around:
            places *= len(values)
        if stored >= places or not around:  # a name without numbers that stands twice has no place to name
            return max(places, stored), ""
        if places > MOST_PLACES:
            return places, "…"
        stored_at = (at for at in range(node.lo, node.hi) if self._states[at] != _MISSING)
        have = {tuple(self._number(at, place) for place in range(node.numbers)) for at in stored_at}
        return places, lacking_text(around, have)

    def _around(self, node: Family) -> list[tuple[int, ...]]:
        """Return the numbers that there are at each place of a name: all that stand in the groups around it."""
        found: list[tuple[int, ...]] = []
        for above in node.ancestors():
            numbers = self._keys[above.lo].split(DOT)[: above.depth].count(NUMBER)
            for place in range(len(found), numbers):
                found.append(self._range(above.lo, above.hi, place))
        return [self._range(node.lo, node.hi, n) if n < node.bound else values for n, values in enumerate(found)]

    def _number(self, at: int, place: int) -> int:
        return number_at(self._codes[at], place)

    def _range(self, lo: int, hi: int, place: int) -> tuple[int, ...]:
        """Return the numbers that the keys of a range have at a place, in order."""
        known = self._values.get((lo, hi, place))
        if known is None:
            known = self._values[lo, hi, place] = numbers_at(self._codes[lo:hi], place)
        return known

    def _named(self, segments: Sequence[str], before: int, lo: int, hi: int) -> str:
        """Return segments as a name, with the numbers of a range; so many numbers stand before them."""
        return with_ranges(segments, lambda place: self._range(lo, hi, place), before)

    # --------------------------------------------------------------------------------------------------------- the tree

    def _split(self, node: Node) -> Iterator[Node]:
        return self._members(node) if isinstance(node, Family) else super()._split(node)

    def _end(self, parent: Node, segments: list[str], place: int) -> Node:
        return self._child(parent, segments, place, bisect_right(self._keys, self._keys[place], place, parent.hi))

    def _child(self, parent: Node, segments: list[str], lo: int, hi: int) -> Node:
        before = segments[: parent.depth].count(NUMBER)
        if self._keys[lo] != self._keys[hi - 1]:
            made = super()._child(parent, segments, lo, hi)
            made.name = self._named(segments[parent.depth : made.depth], before, lo, hi)
            return made
        name, numbers = self._named(segments[parent.depth :], before, lo, hi), segments.count(NUMBER)
        if hi - lo == 1 and not self._is_ambiguous(parent, before):
            return Node(name, lo, hi, len(segments), parent, True)
        return Family(name, lo, hi, len(segments), parent, 0, numbers)

    def _is_ambiguous(self, group: Node, numbers: int) -> bool:
        """Return True if a group's name leaves open which numbers a key in it has."""
        return any(len(self._range(group.lo, group.hi, place)) > 1 for place in range(numbers))

    def _members(self, node: Family) -> Iterator[Node]:
        """Yield the members of a family, or those with the same next number as one node."""
        segments = self._keys[node.lo].split(DOT)
        ends = [n for n, segment in enumerate(segments) if segment == NUMBER]
        before = segments[ends[node.bound] - 1] if ends and ends[node.bound] else NUMBER
        label = "" if before == NUMBER else f"{before}."
        lo = node.lo
        while lo < node.hi:
            last = node.bound >= node.numbers - 1
            value = self._number(lo, node.bound) if node.numbers else 0
            hi = lo + 1 if last else self._until(lo, node.hi, node.bound)
            name = f"{label}{value}" if node.numbers else segments[-1]
            if hi - lo == 1:
                yield Node(name, lo, hi, node.depth, node, True)
            else:
                yield Family(name, lo, hi, node.depth, node, node.bound + 1, node.numbers)
            lo = hi

    def _until(self, lo: int, hi: int, place: int) -> int:
        """Return where the numbers up to a place change first."""
        return bisect_right(self._codes, last_like(self._codes[lo], place), lo, hi)


def families(facts: RowFacts, order: Sequence[int], keys: Sequence[str]) -> FamilyTree:
    """Return rows as families.

    Args:
        facts: All rows of the diff.
        order: Their numbers in the order of their keys.
        keys: Those keys.
    """
    found = grouped(keys, range(len(keys)))
    names: list[str] = []
    codes, members = array("q"), array("l")
    for name in sorted(found):
        family, at = found[name]
        by_code = in_order(family)
        codes.extend([family[n] for n in by_code])
        members.extend([order[at[n]] for n in by_code])
        names += [name] * len(by_code)
    return FamilyTree(facts, members, names, codes, members_of(facts.rows, members))
