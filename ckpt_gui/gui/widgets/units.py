"""Sizes in ems, and the small things that every panel needs of a label."""

from __future__ import annotations

import html

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLabel, QSizePolicy, QWidget

from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.text import with_names
from ckpt_gui.gui.language import said

GRID = 8  # pixels: all distances are multiples of it, or half of it; Qt scales them with the screen
_BREAKS = str.maketrans({mark: f"{mark}\u200b" for mark in "._/\\-:,"})


def em(widget: QWidget, number: float = 1.0) -> int:
    """Return a length in heights of the widget's font."""
    return round(widget.fontMetrics().height() * number)


def breakable(text: str) -> str:
    """Return a text that may be broken after the marks of a key or a path (for display only, not for copying)."""
    return said(text).translate(_BREAKS)


def plain_label(text: str = "", parent: QWidget | None = None, *, muted: bool = False, wrap: bool = True) -> QLabel:
    """Return a label that shows its text as it is: never as HTML, whatever a file calls its tensors."""
    label = QLabel(said(text), parent)
    label.setTextFormat(Qt.TextFormat.PlainText)
    label.setWordWrap(wrap)
    if muted:
        label.setProperty("tone", "muted")
    if wrap:
        label.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Minimum)
        label.setAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignTop)
    return label


def heading(text: str, parent: QWidget | None = None, *, wrap: bool = False) -> QLabel:
    """Return the heading of a group."""
    label = plain_label(text, parent, wrap=wrap)
    font = label.font()
    font.setBold(True)
    label.setFont(font)
    return label


def quoted(text: str, limit: int = 600) -> str:
    """Return a sentence of the core with its `names` in typographic quotes, fit to be shown.

    >>> quoted("Take off `_orig_mod`")
    'Take off “_orig_mod”'
    """
    parts = safe_text(with_names(said(text)), limit).split("`")
    return "".join(part + ("“”"[number % 2] if number < len(parts) - 1 else "") for number, part in enumerate(parts))


def tip_text(text: str, limit: int = 400) -> str:
    """Return foreign text fit for a tool tip, which Qt would read as HTML."""
    return html.escape(safe_text(said(text), limit)).replace("\\x0a", "<br>")
