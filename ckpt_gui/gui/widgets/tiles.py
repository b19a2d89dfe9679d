"""A row of figures that matter: a quiet name, a large value, and a note below."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QVBoxLayout, QWidget

from ckpt_gui.gui.widgets.units import GRID, plain_label


class Tiles(QWidget):
    """Equal boxes side by side.

    Args:
        names: (id, label) of each box.
        parent: The widget around it.
    """

    def __init__(self, names: Sequence[tuple[str, str]], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(GRID)
        self._tiles: dict[str, tuple[QLabel, QLabel, QLabel]] = {}
        for name, text in names:
            frame = QFrame()
            frame.setProperty("card", "true")
            box = QVBoxLayout(frame)
            box.setContentsMargins(10, GRID, 10, GRID)
            box.setSpacing(2)
            labels = (
                plain_label(text, muted=True, wrap=False),
                plain_label(wrap=False),
                plain_label(muted=True, wrap=False),
            )
            self._size(labels)
            for label in labels:
                box.addWidget(label)
            box.addStretch(1)
            row.addWidget(frame, 1)
            self._tiles[name] = labels

    def _size(self, labels: tuple[QLabel, QLabel, QLabel]) -> None:
        for label, share, bold in zip(labels, (0.9, 1.12, 0.9), (False, True, False), strict=True):
            font = label.font()
            font.setPointSizeF(font.pointSizeF() * share)
            font.setBold(bold)
            label.setFont(font)
        labels[1].setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)

    def set_value(self, name: str, text: str, note: str = "") -> None:
        """Fill a box."""
        title, value, below = self._tiles[name]
        value.setText(text)
        value.setAccessibleName(f"{title.text()}: {text} {note}".strip())
        below.setText(note)
        below.setVisible(bool(note))

    def value(self, name: str) -> str:
        """Return the value in a box."""
        return self._tiles[name][1].text()

    def note(self, name: str) -> str:
        """Return the note in a box."""
        return self._tiles[name][2].text()
