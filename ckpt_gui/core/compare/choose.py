"""Choose tensors of a comparison by parts of their names, or by patterns with `*`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from ckpt_gui.core.compare.result import Row


def names_of(row: Row) -> tuple[str, ...]:
    """Return the hub name and the stored names of a row."""
    return (row.key, *(stored.key for stored in (row.a, row.b) if stored is not None))


def containing(rows: Iterable[Row], texts: Sequence[str]) -> tuple[Row, ...]:
    """Return the rows of which a name has one of the texts in it, capitals or not; all rows without texts."""
    wanted = [text.lower() for text in texts]
    return tuple(row for row in rows if not wanted or any(w in n.lower() for w in wanted for n in names_of(row)))


def named(rows: Iterable[Row], key: str) -> Row | None:
    """Return the row with that hub name or stored name, or None."""
    return next((row for row in rows if key in names_of(row)), None)


def fitting(rows: Iterable[Row], pattern: str) -> tuple[Row, ...]:
    """Return the rows of which a name fits a pattern such as `*.q_proj.weight`."""
    return tuple(row for row in rows if any(fnmatchcase(name, pattern) for name in names_of(row)))
