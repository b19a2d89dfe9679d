"""Rows that are alike, layer after layer, folded into one line: `model.layers.0-11.mlp.up_proj.weight`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ckpt_gui.core.compare.result import Row, State, Stored
from ckpt_gui.core.keys import indices, natural, template

MOST_RANGES = 6  # of one index; more are counted and not listed
_NUMBERS = re.compile(r"\.\d+(?=[.`])")
Numbers = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Fold:
    """Rows of one kind whose names differ in their numbers only.

    Attributes:
        key: Hub name with ranges in the place of numbers.
        a: The same of A's stored name; empty where A has none.
        b: The same of B's stored name; empty where B has none.
        rows: The rows, in natural order.
    """

    key: str
    a: str
    b: str
    rows: tuple[Row, ...]

    @property
    def state(self) -> State:
        """The state that all rows have."""
        return self.rows[0].state


def fold(rows: Iterable[Row]) -> tuple[Fold, ...]:
    """Fold rows that have one state, one shape, one type and one pattern of names on both sides."""
    groups: dict[object, list[Row]] = {}
    for row in rows:
        groups.setdefault(_kind(row), []).append(row)
    folds = [made for group in groups.values() for made in _folds(group)]
    return tuple(sorted(folds, key=lambda made: natural(made.rows[0].key)))


def _kind(row: Row) -> object:
    note = _NUMBERS.sub(".N", row.note)
    return (template(row.key), row.state, row.how, note, *(_stored_kind(s, row) for s in (row.a, row.b)))


def _stored_kind(stored: Stored | None, row: Row) -> object:
    if stored is None:
        return None
    follows = indices(stored.key) == indices(row.key)  # `layers.3` of the hub is `layers.3` in the file, too
    return (stored.shape, stored.dtype, template(stored.key), follows or stored.key)


def _folds(group: Sequence[Row]) -> list[Fold]:
    by_numbers = {indices(row.key): row for row in group}
    folds = []
    for texts, members in _ranges(sorted(by_numbers)):
        rows = tuple(by_numbers[numbers] for numbers in members)
        key, a, b = (_named(name, texts) for name in _names(rows[0]))
        folds.append(Fold(key, a, b, rows))
    return folds


def _names(row: Row) -> tuple[str, str, str]:
    return (row.key, row.a.key if row.a else "", row.b.key if row.b else "")


def _named(key: str, texts: Sequence[str]) -> str:
    """Put ranges in the place of a key's numbers, if it has as many."""
    return template(key).format(*texts) if len(indices(key)) == len(texts) else key


def _ranges(numbers: Sequence[Numbers]) -> list[tuple[tuple[str, ...], list[Numbers]]]:
    """Return ranges, one a position, that together stand for exactly these numbers, and the numbers of each."""
    if not numbers or not numbers[0]:
        return [((), list(numbers))] if numbers else []
    rests: dict[int, list[Numbers]] = {}
    for first, *rest in numbers:
        rests.setdefault(first, []).append(tuple(rest))
    alike: dict[tuple[Numbers, ...], list[int]] = {}
    for first, rest_list in rests.items():
        alike.setdefault(tuple(rest_list), []).append(first)
    made = []
    for tails, firsts in alike.items():
        for texts, members in _ranges(tails):
            made.append(((ranges(firsts), *texts), [(first, *tail) for first in firsts for tail in members]))
    return made


def ranges(numbers: Sequence[int]) -> str:
    """Return rising numbers as ranges.

    >>> ranges([0, 1, 2, 3]), ranges([0, 1, 2, 5]), ranges([7])
    ('0-3', '{0-2,5}', '7')
    """
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    texts = [str(low) if low == high else f"{low}-{high}" for low, high in runs]
    if len(texts) == 1:
        return texts[0]
    more = [f"… {len(numbers)} in all"] if len(texts) > MOST_RANGES else []
    return "{" + ",".join([*texts[:MOST_RANGES], *more]) + "}"
