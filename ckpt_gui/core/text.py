"""Reports as values: paragraphs, lists, findings and pairs of names, written as plain text, Markdown or HTML.

What is said is made once, in `report`; the three renderers differ only in how they say it. Every text is escaped here,
since any of it may hold names from a hostile file. Spans between backticks are names of tensors and files.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from ckpt_gui.core.errors import Finding
from ckpt_gui.core.keys import safe_text

Style = Literal["", "title", "heading", "error", "warning", "info", "fix", "quiet", "good"]
LONGEST = 4000  # characters of one text
MARKS = {"error": "✗", "warning": "!", "info": "i"}
_CODE = re.compile(r"`([^`]*)`")
_MARKDOWN = re.compile(r"([\\*_\[\]<>&#|~!`])")


@dataclass(frozen=True, slots=True)
class Text:
    """A paragraph, or an item of a list.

    Attributes:
        text: What is said.
        style: How it looks where there are colours.
        bullet: True for an item of a list.
    """

    text: str
    style: Style = ""
    bullet: bool = False


@dataclass(frozen=True, slots=True)
class Pair:
    """One or many tensors of a kind: what they are called, and what they will be called.

    Attributes:
        before: Name, or template of names.
        after: The new one; empty for a tensor that is left out.
        note: What else happens to it, or why it is left out.
        count: How many there are.
        example: The first of many, before and after.
    """

    before: str
    after: str = ""
    note: str = ""
    count: int = 1
    example: tuple[str, str] | None = None


Item = Text | Finding | Pair


@dataclass(frozen=True, slots=True)
class Section:
    """A heading and what stands under it; without a heading, the opening.

    Attributes:
        heading: A few words.
        items: Paragraphs, findings and pairs in order.
    """

    heading: str
    items: tuple[Item, ...]


@dataclass(frozen=True, slots=True)
class Document:
    """A report.

    Attributes:
        title: What it is about.
        sections: Its parts.
        verdict: One sentence at the end.
        verdict_style: How it looks.
        command: What to run next; empty if nothing.
    """

    title: str
    sections: tuple[Section, ...]
    verdict: str
    verdict_style: Style = ""
    command: str = ""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a terminal, already wrapped.

    Attributes:
        text: The line.
        style: Its look.
    """

    text: str
    style: Style = ""


def shown(text: str) -> str:
    r"""Return any text fit to be shown, whole unless it is absurdly long.

    >>> shown("a\x1b[31mb")
    'a\\x1b[31mb'
    """
    return safe_text(text, limit=LONGEST)


def human_bytes(size: int) -> str:
    """Return a size in binary units, with three digits that matter.

    >>> human_bytes(512), human_bytes(831_488), human_bytes(2_471_645_608)
    ('512 B', '812 KiB', '2.30 GiB')
    """
    if size < 1024:
        return f"{size} B"
    value, units = size / 1024, ["PiB", "TiB", "GiB", "MiB", "KiB"]
    while value >= 999.5 and len(units) > 1:
        value /= 1024
        units.pop()
    digits = 2 if value < 9.995 else 1 if value < 99.95 else 0
    return f"{value:.{digits}f} {units[-1]}"


def plural(count: int, noun: str) -> str:
    """Return a count and its noun.

    >>> plural(1, "tensor"), plural(1200, "tensor")
    ('1 tensor', '1,200 tensors')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


# --------------------------------------------------------------------------------------------------------- plain text


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
    """Yield the lines of a paragraph, a finding or a pair."""
    if isinstance(item, Finding):
        yield from _plain_finding(item, width)
    elif isinstance(item, Pair):
        yield from _plain_pair(item, width)
    else:
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


# ----------------------------------------------------------------------------------------------------------- Markdown


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
        in_list = not isinstance(item, Text) or item.bullet
        if in_list and listed:
            parts[-1] += "\n" + _md_item(item)
        else:
            parts.append(_md_item(item))
        listed = in_list
    return parts


def _md_item(item: Item) -> str:
    if isinstance(item, Finding):
        text = f"- **{item.severity}** {_md_code(item.code)}: {_md(item.message)}"
        return text + (f"\n  *{_md(item.fix)}*" if item.fix else "")
    if isinstance(item, Pair):
        change = _md_code(item.before) + (f" → {_md_code(item.after)}" if item.after else "")
        return f"- {item.count:,} × {change}" + (f": {_md(item.note)}" if item.note else "")
    return ("- " if item.bullet else "") + _md(item.text)


def _md(text: str) -> str:
    """Escape what Markdown or HTML would read; names between backticks stay code."""
    parts, last, safe = [], 0, shown(text)
    for match in _CODE.finditer(safe):
        parts += [_md_escaped(safe[last : match.start()]), _md_code(match[1])]
        last = match.end()
    return "".join([*parts, _md_escaped(safe[last:])])


def _md_escaped(text: str) -> str:
    return _MARKDOWN.sub(r"\\\1", text)


def _md_code(text: str) -> str:
    """Return a name as code, or as escaped text where it could pass for markup in a lenient reader."""
    safe = shown(text)
    return f"`{safe}`" if safe.strip() and not set(safe) & set("`<>&|") else _md_escaped(safe)


# --------------------------------------------------------------------------------------------------------------- HTML

_STYLE = """
:root { color-scheme: light dark; --ink: #1f2328; --soft: #57606a; --line: #d0d7de; --paper: #ffffff; --code: #f3f5f7;
  --error: #b3261e; --warning: #8a5a00; --info: #1f5fa8; --good: #1a6b3c }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e8eb; --soft: #a2abb5; --line: #3b434c; --paper: #16191d;
  --code: #22272d; --error: #ff8f87; --warning: #e8b45a; --info: #7db8f5; --good: #74c994 } }
body { margin: 2.5rem auto; max-width: 56rem; padding: 0 1.25rem; background: var(--paper); color: var(--ink);
  font: 16px/1.55 system-ui, sans-serif }
h1 { font-size: 1.4rem; overflow-wrap: anywhere }
h2 { font-size: 1.05rem; margin: 2rem 0 .5rem }
code, pre { font: .88em/1.5 ui-monospace, monospace; background: var(--code); border-radius: 4px;
  overflow-wrap: anywhere }
code { padding: .1em .3em }
pre { padding: .75rem 1rem; white-space: pre-wrap }
p { margin: .4rem 0 }
ul { margin: .3rem 0; padding-left: 1.2rem }
b { font-weight: 600 }
.finding { border-left: 3px solid var(--line); padding: .1rem 0 .1rem .9rem; margin: .9rem 0 }
.finding.e { border-color: var(--error) }
.finding.w { border-color: var(--warning) }
.finding.i { border-color: var(--info) }
.fix, .quiet { color: var(--soft) }
.error { color: var(--error) }
.warning { color: var(--warning) }
.info { color: var(--info) }
.good { color: var(--good) }
table { border-collapse: collapse; width: 100%; font-size: .92em }
td { padding: .3rem .6rem; border-top: 1px solid var(--line); vertical-align: top }
td:first-child { text-align: right; white-space: nowrap; color: var(--soft) }
.verdict { margin-top: 2rem; font-weight: 600 }
"""
_HEAD = (
    '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
    '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
)


def html_page(document: Document) -> str:
    """Return a report as one HTML page that needs nothing from elsewhere and runs nothing."""
    body = [f"<h1>{_html(document.title)}</h1>"]
    for section in document.sections:
        if section.heading:
            body.append(f"<h2>{_html(section.heading)}</h2>")
        body += _html_items(section.items)
    look = f" {document.verdict_style}" if document.verdict_style else ""
    body.append(f'<p class="verdict{look}">{_html(document.verdict)}</p>')
    if document.command:
        body.append(f"<pre>{_html_name(document.command)}</pre>")
    style = f"<title>{_html_name(document.title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
    return _HEAD + style + "\n".join(body) + "\n</body>\n</html>\n"


def _html(text: str) -> str:
    return _CODE.sub(r"<code>\1</code>", _html_name(text))


def _html_name(text: str) -> str:
    return html.escape(shown(text))


def _html_items(items: tuple[Item, ...]) -> Iterator[str]:
    """Yield the items, those of a kind that need it inside one list or table."""
    opened = ""
    for item in items:
        wanted = "table" if isinstance(item, Pair) else "ul" if isinstance(item, Text) and item.bullet else ""
        if wanted != opened:
            yield (f"</{opened}>" if opened else "") + (f"<{wanted}>" if wanted else "")
            opened = wanted
        yield _html_item(item)
    if opened:
        yield f"</{opened}>"


def _html_item(item: Item) -> str:
    if isinstance(item, Finding):
        head = f'<p><b class="{item.severity}">{item.severity}</b> <code>{_html_name(item.code)}</code></p>'
        fix = f'<p class="fix">→ {_html(item.fix)}</p>' if item.fix else ""
        return f'<div class="finding {item.severity[0]}">{head}<p>{_html(item.message)}</p>{fix}</div>'
    if isinstance(item, Pair):
        after = f" → <code>{_html_name(item.after)}</code>" if item.after else ""
        note = f'<br><span class="quiet">{_html(item.note)}</span>' if item.note else ""
        return f"<tr><td>{item.count:,} ×</td><td><code>{_html_name(item.before)}</code>{after}{note}</td></tr>"
    look = f' class="{item.style}"' if item.style else ""
    return f"<li{look}>{_html(item.text)}</li>" if item.bullet else f"<p{look}>{_html(item.text)}</p>"
