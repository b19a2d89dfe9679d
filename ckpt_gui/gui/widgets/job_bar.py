"""Runs one job at a time for a widget, and shows how far it is, with a button that stops it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QHBoxLayout, QPushButton, QVBoxLayout, QWidget

from ckpt_gui.gui.jobs import Job, JobManager, Work
from ckpt_gui.gui.widgets.progress import ProgressBar
from ckpt_gui.gui.widgets.units import GRID, em, plain_label


class JobBar(QWidget):
    """The latest job of a widget: a new one silences the one before. Hidden while nothing runs.

    Signals:
        stopped(): The user pressed Cancel.
    """

    stopped = Signal()

    def __init__(self, jobs: JobManager, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._jobs = jobs
        self._job: Job | None = None
        self._label = plain_label(muted=True)
        self._bar = ProgressBar()
        self._bar.setTextVisible(False)
        self._bar.setFixedHeight(max(em(self, 0.45), 6))
        self._button = QPushButton(self.tr("Cancel"))
        self._button.setAccessibleName(self.tr("Cancel this calculation"))
        texts = QVBoxLayout()
        texts.setSpacing(GRID // 2)
        texts.addWidget(self._label)
        texts.addWidget(self._bar)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(GRID)
        row.addLayout(texts, 1)
        row.addWidget(self._button)
        jobs.progressed.connect(self._on_progress)
        self._button.clicked.connect(self._on_cancel)
        self.setVisible(False)

    @property
    def running(self) -> bool:
        """True while a job runs."""
        return self._job is not None

    def run(
        self,
        title: str,
        work: Work,
        done: Callable[[Any], None],
        failed: Callable[[BaseException], None],
        *,
        discard: Callable[[Any], None] | None = None,
    ) -> None:
        """Start a job in place of the one before, if any; `discard` gets a result that comes too late."""
        self.stop()

        def ended(tell: Callable[[Any], None], value: Any) -> None:
            self._job = None
            self.setVisible(False)
            tell(value)

        self._label.setText(title)
        self._bar.setRange(0, 0)
        self._bar.setAccessibleName(title)
        self.setVisible(True)
        self._job = self._jobs.start(
            title,
            work,
            lambda value: ended(done, value),
            lambda error: ended(failed, error),
            discard=discard,
            quiet=True,
        )

    def stop(self) -> None:
        """Stop the job without a word."""
        self._jobs.cancel(self._job, silently=True)
        self._job = None
        self.setVisible(False)

    def _on_cancel(self) -> None:
        self.stop()
        self.stopped.emit()

    def _on_progress(self, job: Job, _label: str, done: int, total: int) -> None:
        if job is self._job and total > 0:
            self._bar.setRange(0, 1000)
            self._bar.setValue(min(1000, done * 1000 // total))
