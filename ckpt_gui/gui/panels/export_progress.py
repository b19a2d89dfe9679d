"""The page of the export dialog that shows how far the writing is."""

from __future__ import annotations

import time

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QHBoxLayout, QPushButton, QVBoxLayout, QWidget

from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.pace import Pace, left_words
from ckpt_gui.gui.language import said
from ckpt_gui.gui.widgets.progress import ProgressBar
from ckpt_gui.gui.widgets.units import GRID, em, plain_label
from ckpt_gui.gui.wording import human_bytes


class ProgressPage(QWidget):
    """How far the export is, and a button that stops it.

    Signals:
        cancel_requested(): The user wants it to stop.
        hide_requested(): The user wants to do something else meanwhile.
    """

    cancel_requested = Signal()
    hide_requested = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._pace = Pace()
        self.title = plain_label(wrap=False)
        font = self.title.font()
        font.setPointSizeF(font.pointSizeF() * 1.3)
        font.setBold(True)
        self.title.setFont(font)
        self.bar = ProgressBar()
        self.bar.setTextVisible(False)
        self.bar.setFixedHeight(max(em(self, 0.6), 8))
        self.note = plain_label(muted=True, wrap=False)
        self.cancel_button = QPushButton(self.tr("Cancel"))
        self.cancel_button.clicked.connect(self.cancel_requested)
        self.hide_button = QPushButton(self.tr("Go on in the background"))
        self.hide_button.setToolTip(self.tr("Close this dialog; the Jobs panel shows how far it is"))
        self.hide_button.clicked.connect(self.hide_requested)
        self._lay_out()

    def _lay_out(self) -> None:
        foot = QHBoxLayout()
        foot.addWidget(self.note, 1)
        foot.addWidget(self.hide_button)
        foot.addWidget(self.cancel_button)
        box = QVBoxLayout(self)
        box.setContentsMargins(5 * GRID, 2 * GRID, 5 * GRID, 2 * GRID)
        box.setSpacing(2 * GRID)
        box.addStretch(2)
        box.addWidget(self.title)
        box.addWidget(self.bar)
        box.addLayout(foot)
        safe = plain_label(
            self.tr("Everything is written beside the target and put in place only when it is whole and verified."),
            muted=True,
        )
        box.addWidget(safe)
        box.addStretch(3)

    def start(self) -> None:
        """Begin anew."""
        self._pace = Pace()
        self.title.setText(self.tr("Preparing…"))
        self.note.setText("")
        self.bar.setRange(0, 0)
        self.cancel_button.setEnabled(True)

    def stopping(self) -> None:
        """Say that it will stop as soon as it can."""
        self.title.setText(self.tr("Stopping…"))
        self.cancel_button.setEnabled(False)

    def show_progress(self, label: str, done: int, total: int) -> None:
        """Show bytes done and in all, and how long the rest will take."""
        if not self.cancel_button.isEnabled() or total <= 0:
            return
        self.title.setText(f"{said(safe_text(label))}…")
        self.bar.setRange(0, 1000)
        self.bar.setValue(min(1000, done * 1000 // total))
        text = self.tr("{percent} % · {done} of {total}").format(
            percent=done * 100 // total, done=human_bytes(done), total=human_bytes(total)
        )
        self._pace.note(time.monotonic(), done, total)
        left = left_words(self._pace.seconds_left())
        self.note.setText(said(f"{text} · {left}" if left else text))
