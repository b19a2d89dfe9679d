"""The table in which the values of a tensor stand."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QKeyEvent, QKeySequence
from PySide6.QtWidgets import QTableView

from ckpt_gui.gui.widgets.units import em


class ValuesTable(QTableView):
    """A table that copies with the usual key, and whose rows stand close.

    Signals:
        copied(): The key for copying was pressed.
    """

    copied = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName(self.tr("Values"))
        self.setAlternatingRowColors(True)
        self.setShowGrid(False)
        self.setTabKeyNavigation(False)  # Tab leads on; the arrow keys go from value to value
        self.setWordWrap(False)
        self.setHorizontalScrollMode(QTableView.ScrollMode.ScrollPerPixel)
        self.setSelectionMode(QTableView.SelectionMode.ContiguousSelection)
        self.verticalHeader().setDefaultSectionSize(em(self, 1.5))
        self.verticalHeader().setDefaultAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        self.horizontalHeader().setDefaultSectionSize(em(self, 6.5))

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Copy."""
        if event.matches(QKeySequence.StandardKey.Copy):
            self.copied.emit()
        else:
            super().keyPressEvent(event)
