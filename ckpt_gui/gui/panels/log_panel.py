"""What happened in this window, a line each, to be read and copied."""

from __future__ import annotations

from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QHBoxLayout, QPlainTextEdit, QVBoxLayout, QWidget

from ckpt_gui.gui.models.job_book import LINES, JobBook
from ckpt_gui.gui.panels.parts import button
from ckpt_gui.gui.widgets.units import GRID


class LogPanel(QWidget):
    """The log of a window."""

    def __init__(self, book: JobBook, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.text = QPlainTextEdit()  # plain: whatever a name in a line looks like
        self.text.setReadOnly(True)
        self.text.setMaximumBlockCount(LINES)
        self.text.setAccessibleName(self.tr("Log of this window"))
        self.text.setPlaceholderText(self.tr("What is written or read here is told here, and how it ended."))
        self.text.setPlainText("\n".join(book.lines))
        self.copy_button = button(self.tr("Copy all"), tip=self.tr("Copy the whole log"))
        self.copy_button.clicked.connect(lambda: QGuiApplication.clipboard().setText(self.text.toPlainText()))
        foot = QHBoxLayout()
        foot.addStretch(1)
        foot.addWidget(self.copy_button)
        column = QVBoxLayout(self)
        column.setContentsMargins(GRID, GRID // 2, GRID, GRID)
        column.addWidget(self.text, 1)
        column.addLayout(foot)
        book.told.connect(self.text.appendPlainText)
