"""The question before a window closes while work is running."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QMessageBox, QWidget

from ckpt_gui.gui.language import said


def ask_to_close(parent: QWidget, titles: Sequence[str]) -> bool:
    """Name the jobs that are running; return True if they shall be stopped."""
    box = QMessageBox(QMessageBox.Icon.Question, said("Close ckpt_gui?"), said("This is still running:"), parent=parent)
    box.setTextFormat(Qt.TextFormat.PlainText)
    box.setInformativeText("\n".join(titles))
    leave = box.addButton(said("Stop it and close"), QMessageBox.ButtonRole.DestructiveRole)
    box.setDefaultButton(box.addButton(said("Keep it running"), QMessageBox.ButtonRole.RejectRole))
    box.exec()
    return box.clickedButton() is leave
