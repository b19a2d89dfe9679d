"""Rows that are alike, layer after layer, folded into one line."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable

from ckpt_gui.core.compare.result import Row, State, Stored
from ckpt_gui.core.folding import fold_names, folded
from ckpt_gui.core.keys import indices, template
from ckpt_gui.dataclasses import dataclass

_NUMBERS = re.compile(r"\.\d+(?=[.`])")


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
    listed = list(rows)
    folds = []
    for texts, places in fold_names((row.key, _kind(row)) for row in listed):
        first = listed[places[0]]
        a, b = (folded(stored.key, texts) if stored else "" for stored in (first.a, first.b))
        folds.append(Fold(folded(first.key, texts), a, b, tuple(listed[i] for i in places)))
    return tuple(folds)


def _kind(row: Row) -> Hashable:
    note = _NUMBERS.sub(".N", row.note)
    return (row.state, row.how, note, *(_stored_kind(stored, row) for stored in (row.a, row.b)))


def _stored_kind(stored: Stored | None, row: Row) -> Hashable:
    if stored is None:
        return None
    follows = indices(stored.key) == indices(row.key)  # `layers.3` of the hub is `layers.3` in the file, too
    return (stored.shape, stored.dtype, template(stored.key), follows or stored.key)
