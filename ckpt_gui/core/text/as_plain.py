"""A report as lines of a terminal or of a text file."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator

from ckpt_gui.core.errors import Finding
from ckpt_gui.core.text.document import Branch, Document, Figure, Item, Line, Pair, Section, Table
from ckpt_gui.core.text.words import shown

MARKS = {"error": "✗", "warning": "!", "info": "i"}


def cells(text: str) -> int:
    """Return how many columns of a terminal a text takes.

    >>> cells("abc"), cells("模型")
    (3, 4)
    """
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def wrap(text: str, width: int, *, first: str = "", rest: str = "") -> list[str]:
    """Break a text at spaces; a name that is longer than the line stays whole, so that it can be copied.

    Args:
        text: One paragraph.
        width: Columns of the terminal.
        first: What stands before the first line.
        rest: What stands before the others.

    >>> wrap("one two three", 9, first="- ", rest="  ")
    ['- one two', '  three']
    """
    lines: list[str] = []
    line, empty = first, True
    for word in shown(text).split(" "):
        if not empty and cells(line) + 1 + cells(word) > width:
            lines.append(line)
            line, empty = rest, True
        line += word if empty else f" {word}"
        empty = False
    return [*lines, line.rstrip()]


def plain(document: Document, width: int = 100) -> Iterator[Line]:
    """Yield the lines of a report for a terminal or a text file."""
    yield from (Line(text, "title") for text in wrap(document.title, width))
    for section in document.sections:
        yield Line("")
        yield from plain_section(section, width)
    yield Line("")
    yield from (Line(text, document.verdict_style) for text in wrap(document.verdict, width))
    if document.command:
        yield Line(f"  {shown(document.command)}")


def plain_section(section: Section, width: int = 100) -> Iterator[Line]:
    """Yield the lines of one section."""
    if section.heading:
        yield Line(shown(section.heading), "heading")
    for item in section.items:
        yield from plain_item(item, width)


def plain_text(document: Document, width: int = 100) -> str:
    """Return a report as one text without colours."""
    return "\n".join(line.text for line in plain(document, width)) + "\n"


def plain_item(item: Item, width: int = 100) -> Iterator[Line]:
    """Yield the lines of an item; a picture has none."""
    if isinstance(item, Finding):
        yield from _plain_finding(item, width)
    elif isinstance(item, Pair):
        yield from _plain_pair(item, width)
    elif isinstance(item, Branch):
        yield from _plain_branch(item, width, "  ")
    elif isinstance(item, Table):
        yield from _plain_table(item)
    elif not isinstance(item, Figure):
        first, rest = ("  · ", "    ") if item.bullet else ("  ", "  ")
        yield from (Line(text, item.style) for text in wrap(item.text, width, first=first, rest=rest))


def _plain_finding(finding: Finding, width: int) -> Iterator[Line]:
    yield Line(f"  {MARKS[finding.severity]} {finding.severity} · {shown(finding.code)}", finding.severity)
    yield from (Line(text) for text in wrap(finding.message, width, first="    ", rest="    "))
    if finding.fix:
        yield from (Line(text, "fix") for text in wrap(finding.fix, width, first="    → ", rest="      "))


def _plain_pair(pair: Pair, width: int) -> Iterator[Line]:
    count = f"{pair.count:>5,} × "
    indent = " " * (len(count) + 2)
    change = f"{pair.before} → {pair.after}" if pair.after else pair.before
    yield from (Line(text) for text in wrap(change, width, first=count, rest=indent))
    if pair.note:
        yield from (Line(text, "fix") for text in wrap(pair.note, width, first=indent, rest=indent))
    if pair.example:
        example = "first: " + " → ".join(name for name in pair.example if name)
        yield from (Line(text, "quiet") for text in wrap(example, width, first=indent, rest=indent + "  "))


def _plain_branch(branch: Branch, width: int, indent: str) -> Iterator[Line]:
    yield Line(f"{indent}{shown(branch.label)}")
    inner = indent + "  "
    if branch.note:
        yield from (Line(text, branch.style) for text in wrap(branch.note, width, first=inner, rest=inner + "  "))
    for child in branch.children:
        yield from _plain_branch(child, width, inner)


def _plain_table(table: Table) -> Iterator[Line]:
    """Names to the left, figures to the right, in columns as wide as what stands in them."""
    rows = [tuple(shown(cell) for cell in row) for row in (table.columns, *table.rows)]
    widths = [max(cells(cell) for cell in column) for column in zip(*rows, strict=True)]
    for number, row in enumerate(rows):
        padded = [" " * (size - cells(cell)) for cell, size in zip(row, widths, strict=True)]
        parts = [row[0] + padded[0], *(gap + cell for cell, gap in zip(row[1:], padded[1:], strict=True))]
        yield Line("  " + "  ".join(parts).rstrip(), "" if number else "quiet")
