"""What the cells of the key tree say: texts, tool tips, and words for a screen reader."""

from __future__ import annotations

import html

from PySide6.QtCore import QCoreApplication

from ckpt_gui.core.diff import Row
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.row_tree import Node
from ckpt_gui.core.text import plural
from ckpt_gui.core.tree import CheckpointIndex
from ckpt_gui.gui.language import said
from ckpt_gui.gui.looks import STATE_STYLES
from ckpt_gui.gui.models.tree_columns import Column
from ckpt_gui.gui.wording import human_bytes, shape_text

_NAMELESS = "(no name)"


def row_cells(row: Row, name: str, *, flat: bool) -> tuple[str, ...]:
    """Return the texts of a tensor's row, by column.

    Args:
        row: The row.
        name: Its name here: the last part of the key in a tree, all of it in a list.
        flat: True in a list, where a row without a tensor says so in place of a key.
    """
    style = STATE_STYLES[row.state]
    shape = shape_text(row.shape) if row.shape is not None else shape_text(row.expected_shape or ())
    if row.state == "shape":
        shape = f"{shape} / {shape_text(row.expected_shape or ())}"
    shown = (
        QCoreApplication.translate("TreeModel", "not in the file")
        if row.ref is None and flat
        else safe_text(name or _NAMELESS)
    )
    size = human_bytes(row.nbytes) if row.ref is not None else ""
    return f"{style.glyph} {said(style.word)}", shown, safe_text(row.expected), shape, row.dtype, size


def group_cells(index: CheckpointIndex, node: Node) -> tuple[str, ...]:
    """Return the texts of a group's row, by column."""
    states = "  ".join(f"{STATE_STYLES[s].glyph} {n}" for s, n in index.counts(node).items())
    nbytes = index.nbytes(node)
    size = human_bytes(nbytes) if nbytes else ""
    return states, safe_text(node.name or _NAMELESS), "", said(plural(node.size, "tensor")), "", size


def tip(index: CheckpointIndex, node: Node, column: int) -> str:
    """Return the tool tip of a cell, which Qt reads as HTML."""
    if not node.is_row:
        counts = index.counts(node).items()
        return "<br>".join(f"{STATE_STYLES[s].glyph} {n:,} {said(STATE_STYLES[s].word)}" for s, n in counts)
    row = index.row(node)
    style = STATE_STYLES[row.state]
    if column == Column.STATE:
        return html.escape(said(f"{style.word}: {row.note}" if row.note else style.meaning))
    if column == Column.SHAPE:
        return html.escape(safe_text(row_cells(row, "", flat=False)[column], 500))
    return html.escape(safe_text(row.expected if column == Column.EXPECTED else row.path, 500))


def spoken(index: CheckpointIndex, node: Node, cells: tuple[str, ...], column: int) -> str:
    """Return what a screen reader says of a cell; the whole row for the column of keys."""
    if column != Column.KEY:
        return cells[column]
    if not node.is_row:
        words = ", ".join(f"{n} {STATE_STYLES[s].word}" for s, n in index.counts(node).items())
        return said(f"group {cells[Column.KEY]}, {plural(node.size, 'tensor')}: {words}")
    row = index.row(node)
    shape = cells[Column.SHAPE].replace("×", "by").replace("/", "expected")
    parts = [STATE_STYLES[row.state].word, safe_text(row.path)]
    parts += [f"expected {safe_text(row.expected)}"] if row.expected and row.expected != row.key else []
    return said(", ".join([*parts, f"expected {shape}" if row.ref is None else shape, row.dtype]))
