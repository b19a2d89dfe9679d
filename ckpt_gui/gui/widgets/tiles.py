"""A few figures that matter, each with a quiet name and a note: side by side, or stacked where it is narrow."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QBoxLayout, QFrame, QLabel, QSizePolicy, QVBoxLayout, QWidget

from ckpt_gui.gui.language import said
from ckpt_gui.gui.widgets.units import GRID, em, plain_label

WIDE = 21  # ems from which on the boxes stand side by side, if their texts have room
SIDE, FRAME = 10, 2  # pixels beside the texts of a box, and of its frame
Labels = tuple[QLabel, QLabel, QLabel]


class Tiles(QWidget):
    """Equal boxes.

    Args:
        names: (id, label) of each box.
        parent: The widget around it.
    """

    def __init__(self, names: Sequence[tuple[str, str]], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._row = QBoxLayout(QBoxLayout.Direction.LeftToRight, self)
        self._row.setContentsMargins(0, 0, 0, 0)
        self._row.setSpacing(GRID)
        self._boxes: list[tuple[QVBoxLayout, QBoxLayout]] = []  # a box, and name and value in it
        self._tiles: dict[str, Labels] = {}
        for name, text in names:
            self._add(name, text)
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self._arrange(wide=True)

    def _add(self, name: str, text: str) -> None:
        frame = QFrame()
        frame.setProperty("card", "true")
        whole = QVBoxLayout(frame)
        whole.setSpacing(0)
        box = QBoxLayout(QBoxLayout.Direction.TopToBottom)
        labels = (
            plain_label(text, muted=True, wrap=False),
            plain_label(wrap=False),
            plain_label(muted=True, wrap=False),
        )
        for label, share, bold in zip(labels, (0.9, 1.12, 0.9), (False, True, False), strict=True):
            font = label.font()
            font.setPointSizeF(font.pointSizeF() * share)
            font.setBold(bold)
            label.setFont(font)
        box.addWidget(labels[0])
        box.addWidget(labels[1])
        labels[1].setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        box.addStretch(1)
        whole.addLayout(box)
        whole.addWidget(labels[2])
        self._row.addWidget(frame, 1)
        self._boxes.append((whole, box))
        self._tiles[name] = labels

    def minimumSizeHint(self) -> QSize:
        """Return less than the boxes need side by side: they can be stacked."""
        return QSize(em(self, 8), super().minimumSizeHint().height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Stack the boxes where it is narrow."""
        super().resizeEvent(event)
        self._fit()

    def _fit(self) -> None:
        """Stand the boxes side by side if each of them can show its texts whole."""
        widest = max((label.sizeHint().width() for labels in self._tiles.values() for label in labels), default=0)
        count = len(self._tiles)
        needed = count * (widest + 2 * SIDE + FRAME) + (count - 1) * GRID
        self._arrange(wide=self.width() >= max(em(self, WIDE), needed))

    def _arrange(self, *, wide: bool) -> None:
        directions = QBoxLayout.Direction
        self._row.setDirection(directions.LeftToRight if wide else directions.TopToBottom)
        self._row.setSpacing(GRID if wide else GRID // 2)
        for whole, box in self._boxes:
            box.setDirection(directions.TopToBottom if wide else directions.LeftToRight)
            whole.setContentsMargins(SIDE, GRID if wide else 4, SIDE, GRID if wide else 4)
            box.setSpacing(2 if wide else GRID)

    def set_value(self, name: str, text: str, note: str = "") -> None:
        """Fill a box."""
        title, value, below = self._tiles[name]
        text, note = said(text), said(note)
        value.setText(text)
        value.setAccessibleName(f"{title.text()}: {text} {note}".strip())
        below.setText(note)
        below.setVisible(bool(note))
        self._fit()

    def value(self, name: str) -> str:
        """Return the value in a box."""
        return self._tiles[name][1].text()

    def note(self, name: str) -> str:
        """Return the note in a box."""
        return self._tiles[name][2].text()
