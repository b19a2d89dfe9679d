"""The numbers in keys: keys that are equal but for them are grouped, and the numbers are shown as ranges.

The groups are those of `key_groups`, where any number of numbers counts; here a few of them do, packed into one.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Sequence
from itertools import islice, product

from ckpt_gui.core.key_groups import KeyGroup, group_keys
from ckpt_gui.core.row_tree import DOT

MOST_NUMBERS = 4  # of a key that count; further ones are part of its name
NUMBER = "\2"  # stands for a number among the segments of a name; sorts below what names are made of
MOST_NAMED = 3  # places that are named, of those that are lacking
MOST_RANGES = 6  # that a name has; of more the last is shown after the first ones
MOST_SEGMENTS = 40  # among which numbers count
_BITS = 14  # of a number: it has four digits at most, as in `keys`
_MASK = (1 << _BITS) - 1

Groups = dict[str, tuple["array[int]", "array[int]"]]


def grouped(keys: Sequence[str], places: Sequence[int]) -> Groups:
    """Return name without numbers → a code of the numbers of each of its keys, and where the key stands.

    Args:
        keys: The keys.
        places: Those that are looked at.
    """
    everything = len(places) == len(keys) and isinstance(places, range)
    looked = keys if everything else [keys[place] for place in places]
    found: Groups = {}
    for group in group_keys(looked).values():
        for name, (codes, at) in _names(group).items():
            known = found.setdefault(name, (array("q"), array("I")))
            known[0].extend(codes)
            known[1].extend(at if everything else array("I", [places[n] for n in at]))
    return found


def _names(group: KeyGroup) -> Groups:
    """Return the names of a template: one, unless it has more numbers than count."""
    segments = [_literal(segment) for segment in group.template.split(".")]
    numbers = [n for n, segment in enumerate(segments) if segment == NUMBER]
    count = len([n for n in numbers if n < MOST_SEGMENTS][:MOST_NUMBERS])
    codes = array("q", bytes(8 * len(group.places)))
    for place, column in enumerate(group.columns[:count]):
        shift = _shift(place)
        codes = array("q", [code | number << shift for code, number in zip(codes, column, strict=True)])
    if count == len(numbers):
        return {DOT.join(segments): (codes, group.places)}
    found: Groups = {}
    for code, at, all_ in zip(codes, group.places, group.numbers(), strict=True):
        for n, number in zip(numbers[count:], all_[count:], strict=True):
            segments[n] = str(number)
        known = found.setdefault(DOT.join(segments), (array("q"), array("I")))
        known[0].append(code)
        known[1].append(at)
    return found


def _literal(segment: str) -> str:
    """Return a segment of a template as it stands in a name."""
    return NUMBER if segment == "{}" else segment.replace("{{", "{").replace("}}", "}").replace(NUMBER, NUMBER * 2)


def number_at(code: int, place: int) -> int:
    """Return the number that a code has at a place of its key: 0 for the first."""
    return code >> _shift(place) & _MASK


def numbers_at(codes: Iterable[int], place: int) -> tuple[int, ...]:
    """Return the numbers that codes have at a place, in order."""
    shift = _shift(place)
    return tuple(sorted({code >> shift & _MASK for code in codes}))


def in_order(codes: Sequence[int]) -> list[int]:
    """Return the places of codes in their order; sorted in parts, since a long sort keeps all other threads waiting."""
    parts: dict[int, list[int]] = {}
    shift = _shift(0)
    for place, code in enumerate(codes):
        parts.setdefault(code >> shift, []).append(place)
    return [place for first in sorted(parts) for place in sorted(parts[first], key=codes.__getitem__)]


def last_like(code: int, place: int) -> int:
    """Return the last code with the same numbers up to a place."""
    return code | (1 << _shift(place)) - 1


def braced(values: Sequence[int]) -> str:
    """Return numbers in order as a part of a name.

    >>> braced((0, 1, 2, 4)), braced((7,))
    ('{0-2,4}', '7')
    """
    return str(values[0]) if len(values) == 1 else "{" + ranges(values, ",") + "}"


def ranges(values: Sequence[int], between: str = ", ") -> str:
    """Return numbers in order with what follows on each other drawn together.

    >>> ranges((0, 1, 2, 4, 8, 9))
    '0-2, 4, 8-9'
    """
    shown, start = [], 0
    for n in range(1, len(values) + 1):
        if n == len(values) or values[n] != values[n - 1] + 1:
            shown.append(str(values[start]) if n - start == 1 else f"{values[start]}-{values[n - 1]}")
            start = n
    if len(shown) > MOST_RANGES:
        shown = [*shown[: MOST_RANGES - 1], "…", shown[-1]]
    return between.join(shown)


def lacking_text(around: Sequence[Sequence[int]], have: set[tuple[int, ...]]) -> str:
    """Return which places are free: first numbers that are lacking altogether, then single ones.

    Args:
        around: The numbers at each place.
        have: The combinations that are there.

    >>> lacking_text([(0, 1, 2)], {(0,), (2,)}), lacking_text([(0, 1), (0, 1)], {(0, 0), (0, 1), (1, 1)})
    ('1', '1.0')
    """
    firsts = {numbers[0] for numbers in have}
    gone = [number for number in around[0] if number not in firsts]
    shown = [ranges(gone)] if gone else []
    rest = [number for number in around[0] if number in firsts]
    free = (place for place in product(rest, *around[1:]) if place not in have)
    shown += [".".join(map(str, place)) for place in islice(free, MOST_NAMED)]
    return ", ".join([*shown, "…"] if next(free, None) else shown)


def with_ranges(segments: Iterable[str], numbers: Callable[[int], Sequence[int]], before: int = 0) -> str:
    """Return segments as a name for people.

    Args:
        segments: The segments.
        numbers: Returns the numbers at a place of the name.
        before: The place of the first number among the segments.
    """
    shown = []
    for segment in segments:
        shown.append(braced(numbers(before)) if segment == NUMBER else segment)
        before += segment == NUMBER
    return ".".join(shown)


def _shift(place: int) -> int:
    return _BITS * (MOST_NUMBERS - 1 - place)
