"""A verdict in a tinted box: a glyph, one sentence, and a quieter one below."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFrame, QHBoxLayout, QPushButton, QVBoxLayout, QWidget

from ckpt_gui.gui.language import said
from ckpt_gui.gui.theme import Theme
from ckpt_gui.gui.widgets.units import GRID, plain_label


class Banner(QFrame):
    """Says one thing, coloured by a role of the theme, never by the colour alone."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._role = "grey"
        self.setObjectName("banner")
        self._glyph = plain_label(wrap=False)
        self._title, self._detail = plain_label(), plain_label()
        for label, size, bold in ((self._glyph, 1.35, True), (self._title, 1.08, True)):
            font = label.font()
            font.setPointSizeF(font.pointSizeF() * size)
            font.setBold(bold)
            label.setFont(font)
        self._lay_out()
        theme.changed.connect(self._restyle)
        self._restyle()

    def _lay_out(self) -> None:
        texts = QVBoxLayout()
        texts.setSpacing(GRID // 2)
        texts.addWidget(self._title)
        texts.addWidget(self._detail)
        self._row = row = QHBoxLayout(self)
        row.setContentsMargins(12, 10, 12, 10)
        row.setSpacing(12)
        row.addWidget(self._glyph, 0, Qt.AlignmentFlag.AlignTop)
        row.addLayout(texts, 1)

    def show_text(self, role: str, glyph: str, title: str, detail: str = "") -> None:
        """Show a verdict.

        Args:
            role: Colour role of the theme.
            glyph: One character.
            title: The verdict.
            detail: What follows from it; may be empty.
        """
        self._role = role
        title, detail = said(title), said(detail)
        self._glyph.setText(glyph)
        self._title.setText(title)
        self._detail.setText(detail)
        self._detail.setVisible(bool(detail))
        self.setAccessibleName(f"{title}. {detail}".strip())
        self._restyle()

    def add_button(self, button: QPushButton) -> None:
        """Put a button at the right."""
        self._row.addWidget(button, 0, Qt.AlignmentFlag.AlignTop)

    @property
    def text(self) -> str:
        """The verdict shown."""
        return self._title.text()

    @property
    def detail(self) -> str:
        """What is said below it."""
        return self._detail.text()

    def _restyle(self) -> None:
        ground, edge = self._theme.tint(self._role, 0.10), self._theme.tint(self._role, 0.35)
        colour = self._theme.color(self._role).name()
        self.setStyleSheet(
            f"QFrame#banner {{ background: {ground.name()}; border: 1px solid {edge.name()}; border-radius: 8px; }}"
        )
        self._glyph.setStyleSheet(f"color: {colour};")
        self._title.setStyleSheet(f"color: {colour};")
