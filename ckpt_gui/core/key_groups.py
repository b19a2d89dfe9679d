"""Keys that differ in numbers only, as groups: what is asked of every key is asked once a group.

A model of 500,000 tensors has some dozens of templates. Grouped, its keys cost a quarter of a second and four bytes a
number; taken one by one, each question about them costs as much again.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterator, Mapping
from itertools import repeat

from ckpt_gui.core.bulk import different, let_go
from ckpt_gui.core.keys import figures, form
from ckpt_gui.dataclasses import dataclass, field


@dataclass(slots=True, eq=False)
class KeyGroup:
    """Keys of one template.

    Attributes:
        template: The template.
        places: Which of the keys they are, in order.
        flat: The numbers in them, as bytes of `H`: all of the first key, then all of the second.
    """

    template: str
    places: array[int] = field(default_factory=lambda: array("I"))
    flat: bytearray = field(default_factory=bytearray)
    _distinct: int = field(default=0, init=False)

    @property
    def columns(self) -> tuple[array[int], ...]:
        """For each number of the template, that of each key."""
        numbers = array("H", bytes(self.flat))
        count = len(numbers) // len(self.places)
        return tuple(numbers[at::count] for at in range(count))

    @property
    def distinct(self) -> int:
        """How many different keys there are; found on the first call, when the group is whole."""
        if not self._distinct:
            self._distinct = len(different(self.numbers()))
        return self._distinct

    def numbers(self) -> Iterator[tuple[int, ...]]:
        """Yield the numbers of each key (see `keys.indices`)."""
        return zip(*self.columns, strict=True) if self.flat else repeat((), len(self.places))


KeyGroups = Mapping[str, KeyGroup]


def group_keys(keys: Collection[str]) -> KeyGroups:
    """Return template → keys, in the order in which the templates come first.

    A key is looked at in two halves, cut at a dot: there are far fewer halves than keys, so that what is known of each
    half is found and not worked out.

    >>> [(group.template, list(group.numbers())) for group in group_keys(["h.0.w", "b", "h.7.w"]).values()]
    [('h.{}.w', [(0,), (7,)]), ('b', [()])]
    """
    groups: dict[str, KeyGroup] = {}
    heads: dict[str, tuple[str, bytes, dict[str, KeyGroup]]] = {}
    tails: dict[str, tuple[str, bytes]] = {}
    after: dict[str, dict[str, KeyGroup]] = {}  # form of a head → form of a tail → their group
    for place, key in enumerate(keys):
        cut = key.find(".", len(key) >> 1)
        if cut < 0:
            cut = len(key)
        start, end = key[:cut], key[cut:]
        head = heads.get(start)
        if head is None:
            name, packed = _known(start)
            head = heads[start] = (name, packed, after.setdefault(name, {}))
        tail = tails.get(end)
        if tail is None:
            tail = tails[end] = _known(end)
        group = head[2].get(tail[0])
        if group is None:
            name = head[0] + tail[0]
            group = head[2][tail[0]] = groups.setdefault(name, KeyGroup(name))
        group.places.append(place)
        group.flat += head[1]
        group.flat += tail[1]
    let_go(heads)
    return groups


def _known(part: str) -> tuple[str, bytes]:
    """Return the form of a half of a key, and its numbers."""
    return form(part), array("H", figures(part)).tobytes()
