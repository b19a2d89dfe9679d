"""The numbers in keys: keys that are equal but for them are grouped, and the numbers are shown as ranges.

Keys come with `FIRST` between their segments and in order, so that what follows on `layers.0` stands together and is,
in a model, what follows on every other layer. It is looked at once: 500,000 keys take a third of a second.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from itertools import islice, product

from ckpt_gui.core.row_tree import AFTER, FIRST

MOST_NUMBERS = 4  # of a key that count; further ones are part of its name
NUMBER = "\2"  # stands for a number among the segments of a name; sorts below what names are made of
MOST_NAMED = 3  # places that are named, of those that are lacking
MOST_RANGES = 6  # that a name has; of more the last is shown after the first ones
MOST_SEGMENTS = 40  # that are looked at one by one; what follows is one piece
MOST_KNOWN = 7  # forms that layers have, besides the last one, that others are compared with
_BITS = 14  # of a number: it has four digits at most, as in `keys`
_MASK = (1 << _BITS) - 1
_IS_NUMBER = re.compile(r"0|[1-9][0-9]{0,3}")

Groups = dict[str, tuple[list[int], list[int]]]


def grouped(keys: Sequence[str], places: Sequence[int]) -> Groups:
    """Return name without numbers → a code of the numbers of each of its keys, and where the key stands.

    Args:
        keys: Keys with `FIRST` between their segments.
        places: Those that are looked at, in the order of the keys.
    """
    everything = len(places) == len(keys) and isinstance(places, range)
    found = _below(keys if everything else [keys[place] for place in places], MOST_NUMBERS, MOST_SEGMENTS)
    return found if everything else {name: (codes, [places[n] for n in at]) for name, (codes, at) in found.items()}


def number_at(code: int, place: int) -> int:
    """Return the number that a code has at a place of its key: 0 for the first."""
    return code >> _shift(place) & _MASK


def numbers_at(codes: Iterable[int], place: int) -> tuple[int, ...]:
    """Return the numbers that codes have at a place, in order."""
    shift = _shift(place)
    return tuple(sorted({code >> shift & _MASK for code in codes}))


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


def _below(keys: Sequence[str], numbers: int, segments: int) -> Groups:
    """Group keys in order, of which so many numbers may still count and so many segments are looked at."""
    found: Groups = {}
    known: list[tuple[list[str], Groups]] = []  # what follows on the numbers so far, and its groups
    lo = 0
    while lo < len(keys):
        head, dot, _ = keys[lo].partition(FIRST) if segments else (keys[lo], "", "")
        is_number = numbers > 0 and segments > 0 and _IS_NUMBER.fullmatch(head) is not None
        if not dot:
            hi = bisect_right(keys, keys[lo], lo)
            below: Groups = {"": ([0] * (hi - lo), list(range(hi - lo)))}
        else:
            hi = bisect_left(keys, head + AFTER, lo)
            rests = [key[len(head) + 1 :] for key in keys[lo:hi]]
            same = next((groups for others, groups in known if others == rests), None) if is_number else None
            below = same if same is not None else _below(rests, numbers - is_number, segments - 1)
            if is_number and same is None:
                known = [(rests, below), *known[:MOST_KNOWN]]
        name = NUMBER if is_number else head.replace(NUMBER, NUMBER * 2)  # in no model, but it must not be a number
        code = int(head) << _shift(MOST_NUMBERS - numbers) if is_number else 0
        for rest, (codes, at) in below.items():
            group = found.setdefault(name + dot + rest, ([], []))
            group[0].extend([code | below_it for below_it in codes] if code else codes)
            group[1].extend([lo + n for n in at])
        lo = hi
    return found
