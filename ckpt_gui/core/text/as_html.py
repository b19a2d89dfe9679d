"""A report as one HTML page: it needs nothing from elsewhere, runs nothing, and follows light and dark."""

from __future__ import annotations

import html
from collections.abc import Iterator

from ckpt_gui.core.errors import Finding
from ckpt_gui.core.text.document import Branch, Document, Figure, Item, Pair, Table, Text
from ckpt_gui.core.text.page_style import HEAD, STYLE
from ckpt_gui.core.text.words import CODE, shown


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
    style = f"<title>{_html_name(document.title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
    return HEAD + style + "\n".join(body) + "\n</body>\n</html>\n"


def _html(text: str) -> str:
    return CODE.sub(r"<code>\1</code>", _html_name(text))


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
    if isinstance(item, Branch):
        return "\n".join(_branch(item))
    if isinstance(item, Table):
        return _table(item)
    if isinstance(item, Figure):
        return f"<figure>{item.svg}<figcaption>{_html(item.caption)}</figcaption></figure>"
    look = f' class="{item.style}"' if item.style else ""
    return f"<li{look}>{_html(item.text)}</li>" if item.bullet else f"<p{look}>{_html(item.text)}</p>"


def _branch(branch: Branch) -> Iterator[str]:
    """Yield what can be unfolded: open where there are branches below, closed where there are single tensors."""
    note = f' <span class="{branch.style}">{_html(branch.note)}</span>' if branch.note else ""
    head = f"<code>{_html_name(branch.label)}</code>{note}"
    if not branch.children and not branch.members:
        yield f'<div class="leaf">{head}</div>'
        return
    yield f"<details{' open' if branch.children else ''}><summary>{head}</summary>"
    for child in branch.children:
        yield from _branch(child)
    if branch.members:
        lines = (f"<div><code>{_html_name(name)}</code> {_html(note)}</div>" for name, note in branch.members)
        yield f'<div class="members">{"".join(lines)}</div>'
    yield "</details>"


def _table(table: Table) -> str:
    head = "".join(f"<th>{_html(cell)}</th>" for cell in table.columns)
    rows = ("".join(f"<td>{_html(cell)}</td>" for cell in row) for row in table.rows)
    body = "".join(f"<tr>{cells}</tr>" for cells in rows)
    return f'<table class="figures"><tr>{head}</tr>{body}</table>'
