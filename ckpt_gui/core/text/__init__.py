"""Reports as values: paragraphs, lists, findings and pairs of names, written as plain text, Markdown or HTML.

What is said is made once, in `report`; the three renderers differ only in how they say it. Every text is escaped by
them, since any of it may hold names from a hostile file. Spans between backticks are names of tensors and files.
"""

from __future__ import annotations

from ckpt_gui.core.text.as_html import html_page
from ckpt_gui.core.text.as_markdown import markdown
from ckpt_gui.core.text.as_plain import cells, plain, plain_item, plain_section, plain_text, wrap
from ckpt_gui.core.text.document import Branch, Document, Figure, Item, Line, Pair, Section, Style, Table, Text
from ckpt_gui.core.text.words import human_bytes, plural, shown, with_names

__all__ = [
    "Branch", "Document", "Figure", "Item", "Line", "Pair", "Section", "Style", "Table", "Text", "cells", "html_page",
    "human_bytes", "markdown", "plain", "plain_item", "plain_section", "plain_text", "plural", "shown", "with_names",
    "wrap",
]  # fmt: skip
