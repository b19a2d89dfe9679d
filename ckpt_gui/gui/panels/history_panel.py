"""The history: every decision since the checkpoint was opened, the latest last; a click goes back to any of them."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QUndoView, QVBoxLayout, QWidget

from ckpt_gui.gui.session import Session
from ckpt_gui.gui.widgets.units import GRID, plain_label


class HistoryPanel(QWidget):
    """Shows the undo stack of a session."""

    def __init__(self, session: Session, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.view = QUndoView(session.undo_stack)
        self.view.setEmptyLabel(self.tr("As opened"))
        self.view.setAccessibleName(self.tr("History of decisions"))
        self.view.setToolTip(self.tr("Go back to a decision, or forward again. Files are never changed by this."))
        self.view.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        note = plain_label(muted=True)
        note.setText(self.tr("What an export has written is not undone here."))
        box = QVBoxLayout(self)
        box.setContentsMargins(GRID, GRID, GRID, GRID)
        box.setSpacing(GRID)
        box.addWidget(self.view, 1)
        box.addWidget(note)
