"""Where a report goes, and in which form."""

from __future__ import annotations

from PySide6.QtWidgets import QFileDialog, QWidget

from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.report.as_file import ENDINGS
from ckpt_gui.gui.language import said


def ask_report_path(parent: QWidget, name: str) -> str:
    """Let the user say where a report goes; a name without an ending that is known gets that of a web page.

    Args:
        parent: The widget that asks.
        name: A name without an ending, to begin with.

    Returns:
        The path; empty if the user thought better of it.
    """
    kinds = said("Web page (*.html);;Markdown (*.md);;JSON (*.json);;SARIF (*.sarif)")
    path, kind = QFileDialog.getSaveFileName(parent, said("Save report"), f"{safe_text(name, 80)}.html", kinds)
    if path and not path.lower().endswith(ENDINGS):
        path += kind.rpartition("*")[2].rstrip(")") or ENDINGS[0]
    return path
