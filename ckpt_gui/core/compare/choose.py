"""Choose tensors of a comparison by a filter, by name, or by patterns with `*`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from ckpt_gui.core.compare.result import Row, Stored
from ckpt_gui.core.filtering import Query, Subject, subject


def names_of(row: Row) -> tuple[str, ...]:
    """Return the hub name and the stored names of a row."""
    return (row.key, *(stored.key for stored in (row.a, row.b) if stored is not None))


def passing(rows: Iterable[Row], queries: Sequence[Query]) -> tuple[Row, ...]:
    """Return the rows that one of the filters lets pass; all rows without filters."""
    if not queries:
        return tuple(rows)
    return tuple(row for row in rows if any(query.matches_pair(_subjects(row)) for query in queries))


def _subjects(row: Row) -> tuple[Subject, ...]:
    """Return each side's tensor as a filter sees it, under all names of the row, the hub name last."""
    first, *stored = names_of(row)
    names = tuple(dict.fromkeys((*stored, first)))
    return tuple(_subject(names, row.state, side) for side in (row.a, row.b) if side is not None)


def _subject(names: tuple[str, ...], state: str, stored: Stored) -> Subject:
    refs = stored.entry.inputs if stored.entry is not None else ()
    nbytes, file = sum(ref.nbytes for ref in refs), "\n".join(dict.fromkeys(ref.file for ref in refs))
    return subject(names, state, stored.dtype, stored.shape, nbytes, file)


def named(rows: Iterable[Row], key: str) -> Row | None:
    """Return the row with that hub name or stored name, or None."""
    return next((row for row in rows if key in names_of(row)), None)


def fitting(rows: Iterable[Row], pattern: str) -> tuple[Row, ...]:
    """Return the rows of which a name fits a pattern such as `*.q_proj.weight`."""
    return tuple(row for row in rows if any(fnmatchcase(name, pattern) for name in names_of(row)))
