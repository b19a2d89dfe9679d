"""A report as Markdown, in which nothing from a file can become markup."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ckpt_gui.core.errors import Finding
from ckpt_gui.core.text.document import Branch, Document, Figure, Item, Pair, Table, Text
from ckpt_gui.core.text.words import CODE, shown

_MARKDOWN = re.compile(r"([\\*_\[\]<>&#|~!`])")


def markdown(document: Document) -> str:
    """Return a report as Markdown; nothing from a file can become markup."""
    parts = [f"# {_md(document.title)}"]
    for section in document.sections:
        if section.heading:
            parts.append(f"## {_md(section.heading)}")
        parts += _md_items(section.items)
    parts.append(f"**{_md(document.verdict)}**")
    if document.command:
        parts.append(f"    {shown(document.command)}")
    return "\n\n".join(parts) + "\n"


def _md_items(items: tuple[Item, ...]) -> list[str]:
    """Put list items under each other and paragraphs apart."""
    parts: list[str] = []
    listed = False
    for item in items:
        if isinstance(item, Figure):  # a picture stands in the page only
            continue
        in_list = isinstance(item, (Finding, Pair, Branch)) or (isinstance(item, Text) and item.bullet)
        if in_list and listed:
            parts[-1] += "\n" + _md_item(item)
        else:
            parts.append(_md_item(item))
        listed = in_list
    return parts


def _md_item(item: Text | Finding | Pair | Branch | Table) -> str:
    if isinstance(item, Branch):
        return "\n".join(_md_branch(item, ""))
    if isinstance(item, Table):
        return _md_table(item)
    if isinstance(item, Finding):
        text = f"- **{item.severity}** {_md_code(item.code)}: {_md(item.message)}"
        return text + (f"\n  *{_md(item.fix)}*" if item.fix else "")
    if isinstance(item, Pair):
        change = _md_code(item.before) + (f" → {_md_code(item.after)}" if item.after else "")
        return f"- {item.count:,} × {change}" + (f": {_md(item.note)}" if item.note else "")
    return ("- " if item.bullet else "") + _md(item.text)


def _md_branch(branch: Branch, indent: str) -> Iterator[str]:
    yield f"{indent}- {_md_code(branch.label)}" + (f": {_md(branch.note)}" if branch.note else "")
    for child in branch.children:
        yield from _md_branch(child, indent + "  ")


def _md_table(table: Table) -> str:
    rule = ["---", *("---:" for _ in table.columns[1:])]
    rows = [[_md(cell) or " " for cell in table.columns], rule]
    rows += [[_md_code(row[0]), *map(_md, row[1:])] for row in table.rows]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def _md(text: str) -> str:
    """Escape what Markdown or HTML would read; names between backticks stay code."""
    parts, last, safe = [], 0, shown(text)
    for match in CODE.finditer(safe):
        parts += [_md_escaped(safe[last : match.start()]), _md_code(match[1])]
        last = match.end()
    return "".join([*parts, _md_escaped(safe[last:])])


def _md_escaped(text: str) -> str:
    return _MARKDOWN.sub(r"\\\1", text)


def _md_code(text: str) -> str:
    """Return a name as code, or as escaped text where it could pass for markup in a lenient reader."""
    safe = shown(text)
    return f"`{safe}`" if safe.strip() and not set(safe) & set("`<>&|") else _md_escaped(safe)
