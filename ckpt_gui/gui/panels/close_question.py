"""The question before a window closes while work is running."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QCoreApplication, Qt
from PySide6.QtWidgets import QMessageBox, QWidget


def ask_to_close(parent: QWidget, titles: Sequence[str]) -> bool:
    """Name the jobs that are running; return True if they shall be stopped."""
    box = QMessageBox(QMessageBox.Icon.Question, _tr("Close ckpt_gui?"), _tr("This is still running:"), parent=parent)
    box.setTextFormat(Qt.TextFormat.PlainText)
    box.setInformativeText("\n".join(titles))
    leave = box.addButton(_tr("Stop it and close"), QMessageBox.ButtonRole.DestructiveRole)
    box.setDefaultButton(box.addButton(_tr("Keep it running"), QMessageBox.ButtonRole.RejectRole))
    box.exec()
    return box.clickedButton() is leave


def _tr(text: str) -> str:
    return QCoreApplication.translate("close", text)
