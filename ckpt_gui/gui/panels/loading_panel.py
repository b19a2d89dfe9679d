"""What the window shows while a checkpoint is opened: what, and how far it is."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QVBoxLayout, QWidget

from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.text import human_bytes
from ckpt_gui.gui.language import said
from ckpt_gui.gui.panels.parts import button, label
from ckpt_gui.gui.widgets.progress import ProgressBar
from ckpt_gui.gui.widgets.units import GRID

if TYPE_CHECKING:
    from ckpt_gui.gui.jobs import Job


class LoadingPanel(QWidget):
    """Says what is being opened and how far it is.

    Signals:
        cancel(): Stop opening.
    """

    cancel = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.title = label(size=1.35, bold=True, wrap=True)
        self.step = label(muted=True, wrap=True)
        self.bar = ProgressBar()
        self.bar.setTextVisible(False)
        self.bar.setAccessibleName(self.tr("Progress of opening"))
        self.bar.setFixedSize(20 * self.fontMetrics().height(), GRID)
        stop = button(self.tr("Cancel"))
        stop.clicked.connect(self.cancel)
        outer = QVBoxLayout(self)
        outer.setSpacing(2 * GRID)
        outer.addStretch(2)
        for text in (self.title, self.step):
            text.setAlignment(Qt.AlignmentFlag.AlignCenter)
            outer.addWidget(text)
        for widget in (self.bar, stop):
            outer.addWidget(widget, 0, Qt.AlignmentFlag.AlignHCenter)
        outer.addStretch(3)

    def show_path(self, path: str) -> None:
        """Start anew for a path."""
        self.title.setText(self.tr("Opening {}").format(safe_text(os.path.basename(os.path.normpath(path)), 80)))
        self.step.setText(self.tr("Reading headers"))
        self.bar.setRange(0, 0)

    def show_progress(self, _job: Job, text: str, done: int, total: int) -> None:
        """Show how far it is, in bytes."""
        self.step.setText(
            said(
                f"{safe_text(text, 80)}: {human_bytes(done)} of {human_bytes(total)}" if total else safe_text(text, 80)
            )
        )
        self.bar.setRange(0, 1000 if total else 0)
        self.bar.setValue(round(1000 * done / total) if total else 0)
