"""What is in a file beside what is expected of it, as a tree of names, layers that are alike on one line."""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping

from ckpt_gui.core.diff import Diff, Row, State
from ckpt_gui.core.folding import fold_names, folded
from ckpt_gui.core.keys import indices, template
from ckpt_gui.core.report.name_tree import name_tree
from ckpt_gui.core.text import Branch, Style, Text

MOST_LINES = 2000
_WORDS: Mapping[State, tuple[str, Style]] = {
    "error": ("clashes", "error"),
    "missing": ("missing", "error"),
    "shape": ("wrong shape", "error"),
    "extra": ("not expected", "warning"),
    "transform": ("values change places", "info"),
    "renamed": ("renamed", "info"),
    "tied": ("tied head", "info"),
    "dtype": ("another type", "info"),
}
_NUMBERS = re.compile(r"\d+")


def expected_tree(found: Diff) -> tuple[Branch | Text, ...]:
    """Return the rows that are not as expected as branches, in natural order of names."""
    rows = [row for row in found.rows if row.state in _WORDS]
    folds = fold_names((row.path, _kind(row)) for row in rows)
    lines = []
    for texts, places in folds[:MOST_LINES]:
        first = rows[places[0]]
        lines.append((folded(first.path, texts), _line(first, texts, len(places))))
    more = len(folds) - MOST_LINES
    cut = (Text(f"… and {more:,} more lines.", "quiet"),) if more > 0 else ()
    return (*name_tree(lines), *cut)


def _kind(row: Row) -> Hashable:
    follows = indices(row.expected) == indices(row.path)
    expected = (template(row.expected), follows or row.expected)
    return (row.state, row.shape, row.expected_shape, row.dtype, expected, _NUMBERS.sub("N", row.note))


def _line(row: Row, texts: tuple[str, ...], count: int) -> Branch:
    words, style = _WORDS[row.state]
    text = f"{count:,} × {words}" if count > 1 else words
    if row.expected and row.key and row.expected != row.key:
        text += f" → `{folded(row.expected, texts)}`"
    parts = [text]
    if row.state == "shape" and row.shape is not None and row.expected_shape is not None:
        parts.append(f"{_shape(row.shape)}, expected {_shape(row.expected_shape)}")
    elif row.note and row.state not in ("missing", "renamed"):  # the words have said it
        parts.append(row.note)
    return Branch("", "; ".join(parts), style)


def _shape(shape: tuple[int | None, ...]) -> str:
    return "[" + ", ".join("?" if s is None else str(s) for s in shape) + "]"
