"""What the cells of the key tree say: texts, tool tips, and words for a screen reader."""

from __future__ import annotations

import html
from collections.abc import Sequence

from PySide6.QtCore import QCoreApplication

from ckpt_gui.core.diff import Row
from ckpt_gui.core.family_members import Common
from ckpt_gui.core.key_families import Family, FamilyTree
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.row_tree import Node, RowTree
from ckpt_gui.core.text import plural
from ckpt_gui.gui.language import said
from ckpt_gui.gui.looks import STATE_STYLES
from ckpt_gui.gui.models.tree_columns import Column
from ckpt_gui.gui.wording import count_text, human_bytes, shape_text

_NAMELESS = "(no name)"
_TIP = 500  # characters of a name in a tool tip


def row_cells(row: Row, name: str | None) -> tuple[str, ...]:
    """Return the texts of a tensor's row, by column.

    Args:
        row: The row.
        name: Its name here, the last part of the key; None in a list, where a row without a tensor says so instead.
    """
    style = STATE_STYLES[row.state]
    shape = "" if row.shard else shape_text((row.expected_shape or ()) if row.shape is None else row.shape)
    if row.state == "shape":
        shape = f"{shape} / {shape_text(row.expected_shape or ())}"
    if name is None and not row.is_stored:
        shown = QCoreApplication.translate("TreeModel", "not in the file")
    else:
        shown = safe_text((row.path if name is None else name) or _NAMELESS)
    size, file = human_bytes(row.nbytes) if row.ref is not None else "", safe_text(row.file)
    return f"{style.glyph} {said(style.word)}", shown, safe_text(row.expected), "", shape, row.type_name, size, file, ""


def group_cells(tree: RowTree, node: Node) -> tuple[str, ...]:
    """Return the texts of a group's row, by column."""
    states = "  ".join(f"{STATE_STYLES[s].glyph} {n}" for s, n in tree.counts(node).items())
    nbytes = tree.nbytes(node)
    size, name = human_bytes(nbytes) if nbytes else "", safe_text(node.name or _NAMELESS)
    common = common_of(tree, node)
    if common is None:
        return states, name, "", count_text(node.size), "", "", size, "", ""
    files = safe_text(common.files[0]) if len(common.files) == 1 else said(plural(len(common.files), "file"))
    return (
        states, name, safe_text(common.expected), number_text(common), sizes_text(common), ", ".join(common.dtypes),
        size, files, "",
    )  # fmt: skip


def common_of(tree: RowTree, node: Node) -> Common | None:
    """Return what the members of a family have in common; None for a group."""
    return tree.common(node) if isinstance(tree, FamilyTree) and isinstance(node, Family) else None


def number_text(common: Common) -> str:
    """Return how many members a family has: `31 of 32` if some are lacking."""
    if common.stored == common.places:
        return count_text(common.stored)
    text = QCoreApplication.translate("TreeModel", "{n} of {all}")
    return text.format(n=count_text(common.stored), all=count_text(common.places))


def sizes_text(common: Common) -> str:
    """Return the shapes of a family: a size that differs as a range, ranks that differ as their number."""
    if common.sizes is None:
        return said(plural(common.shapes, "shape")) if any(common.dtypes) else ""  # of an index no shape is known
    return " × ".join(_span(*span) for span in common.sizes) or shape_text(())


def _span(least: int | None, most: int | None) -> str:
    if least is None:
        return "?"
    return str(least) if least == most else f"{least}–{most}"


def row_tip(row: Row, column: int) -> str:
    """Return the tool tip of a row's cell, which Qt reads as HTML."""
    style = STATE_STYLES[row.state]
    if column == Column.STATE:
        return html.escape(said(f"{style.word}: {row.note}" if row.note else style.meaning))
    if column == Column.SHAPE:
        return html.escape(safe_text(row_cells(row, "")[column], _TIP))
    if column == Column.SHARD:
        return html.escape(safe_text(row.file, _TIP))
    return html.escape(safe_text(row.expected if column == Column.EXPECTED else row.path, _TIP))


def group_tip(tree: RowTree, node: Node, column: int) -> str:
    """Return the tool tip of a group's cell, which Qt reads as HTML."""
    if column == Column.STATE:
        counts = tree.counts(node).items()
        return "<br>".join(f"{STATE_STYLES[s].glyph} {count_text(n)} {said(STATE_STYLES[s].word)}" for s, n in counts)
    common = common_of(tree, node)
    if common is None:
        return html.escape(f"{safe_text(tree.title(node), _TIP)}: {said(plural(node.size, 'tensor'))}")
    if column == Column.EXPECTED and common.expected:
        return html.escape(safe_text(common.expected, _TIP))
    if column == Column.SHARD:
        return "<br>".join(html.escape(safe_text(name, 100)) for name in common.files[:10])
    return "<br>".join(html.escape(line) for line in (safe_text(tree.title(node), _TIP), *irregular(common)))


def irregular(common: Common) -> Sequence[str]:
    """Return sentences for what is irregular in a family."""
    lines = []
    if common.lacking:
        text = QCoreApplication.translate("TreeModel", "{n} of {all}; none at {places}")
        lines.append(text.format(n=count_text(common.stored), all=count_text(common.places), places=common.lacking))
    if common.shapes > 1:
        text = QCoreApplication.translate("TreeModel", "{n} shapes: {sizes}")
        lines.append(text.format(n=count_text(common.shapes), sizes=sizes_text(common)))
    if len(common.dtypes) > 1:
        lines.append(QCoreApplication.translate("TreeModel", "types: {types}").format(types=", ".join(common.dtypes)))
    return lines


def spoken_row(row: Row, cells: Sequence[str], column: int) -> str:
    """Return what a screen reader says of a row's cell; the whole row for the column of keys."""
    if column != Column.KEY:
        return cells[column]
    shape = cells[Column.SHAPE].replace("×", "by").replace("/", "expected")
    parts = [STATE_STYLES[row.state].word, safe_text(row.path)]
    parts += [f"expected {safe_text(row.expected)}"] if row.expected and row.expected != row.key else []
    parts += [shape if row.is_stored else f"expected {shape}", row.type_name]
    return said(", ".join([part for part in parts if part]))


def spoken_group(tree: RowTree, node: Node, cells: Sequence[str], column: int) -> str:
    """Return what a screen reader says of a group's cell; the whole row for the columns of keys and of states."""
    words = ", ".join(f"{n} {STATE_STYLES[s].word}" for s, n in tree.counts(node).items())
    if column == Column.STATE:
        return said(words)
    if column != Column.KEY:
        return cells[column]
    common = common_of(tree, node)
    kind, more = ("group", []) if common is None else ("family", [cells[Column.SHAPE].replace("×", "by")])
    told = [*more, *irregular(common)] if common is not None else more
    return ", ".join([said(f"{kind} {cells[Column.KEY]}, {plural(node.size, 'tensor')}: {words}"), *told])
