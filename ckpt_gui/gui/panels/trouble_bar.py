"""A bar over the window's content that says what went wrong without stopping anybody."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication, QPainter, QPaintEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QWidget

from ckpt_gui.core.keys import safe_text
from ckpt_gui.gui.looks import SEVERITY_STYLES
from ckpt_gui.gui.panels.parts import button, label
from ckpt_gui.gui.theme import Theme
from ckpt_gui.gui.widgets.units import GRID


class TroubleBar(QFrame):
    """Shows the last trouble until it is dismissed."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._report = ""
        self.text = label(wrap=True)
        self.copy = button(self.tr("Copy report"))
        dismiss = button(self.tr("Dismiss"), kind="quiet")
        line = QHBoxLayout(self)
        line.setContentsMargins(2 * GRID, GRID, 2 * GRID, GRID)
        line.setSpacing(GRID)
        line.addWidget(label(SEVERITY_STYLES["error"][0], bold=True), 0, Qt.AlignmentFlag.AlignTop)
        line.addWidget(self.text, 1)
        line.addWidget(self.copy)
        line.addWidget(dismiss)
        dismiss.clicked.connect(self.hide)
        self.copy.clicked.connect(lambda: QGuiApplication.clipboard().setText(self._report))
        theme.changed.connect(self.update)
        self.hide()

    def show_text(self, text: str, report: str = "") -> None:
        """Show a sentence; the report can be copied."""
        self._report = report
        self.text.setText(safe_text(text, 500))
        self.copy.setVisible(bool(report))
        self.setAccessibleName(self.text.text())
        self.show()

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint a tinted ground."""
        painter = QPainter(self)
        painter.fillRect(self.rect(), self._theme.tint("red", 0.14, "window"))
        painter.fillRect(0, self.height() - 1, self.width(), 1, self._theme.color("red"))
