"""A report in the form that its file's name asks for: a page, Markdown, JSON or SARIF."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from ckpt_gui.core.text import Document, html_page, markdown

ENDINGS = (".html", ".md", ".json", ".sarif")


def report_text(name: str, document: Document, value: Mapping[str, Any], log: Mapping[str, Any]) -> str:
    """Return a report in the form that its file name asks for.

    Args:
        name: File name ending in html, md, json or sarif.
        document: The report for people.
        value: The report as JSON.
        log: The report as SARIF.
    """
    ending = name.lower().rpartition(".")[2]
    if ending == "html":
        return html_page(document)
    return markdown(document) if ending == "md" else json_text(log if ending == "sarif" else value)


def json_text(value: Mapping[str, Any]) -> str:
    """Return JSON in ASCII: names with control or bidi characters come out escaped; what is not finite becomes null."""
    return json.dumps(_finite(value), indent=2, ensure_ascii=True, allow_nan=False, default=str) + "\n"


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {name: _finite(item) for name, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, (list, tuple)) else value
