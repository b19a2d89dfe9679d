"""The status bar: that nothing is written, what is open, what is selected, and what is running."""

from __future__ import annotations

from PySide6.QtWidgets import QHBoxLayout, QStatusBar, QWidget

from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.text import plural
from ckpt_gui.gui.jobs import Job, JobManager
from ckpt_gui.gui.language import said
from ckpt_gui.gui.panels.parts import ElidedLabel, button, label
from ckpt_gui.gui.session import Session
from ckpt_gui.gui.snapshot import Snapshot
from ckpt_gui.gui.widgets.progress import ProgressBar
from ckpt_gui.gui.widgets.units import GRID
from ckpt_gui.gui.wording import count_text, human_bytes


class StatusBar(QStatusBar):
    """Follows the session and its jobs."""

    def __init__(self, session: Session, jobs: JobManager, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._jobs = jobs
        self._job: Job | None = None
        self.setSizeGripEnabled(False)
        self.setContentsMargins(GRID, 0, GRID, 0)
        self._build()
        self.stop.clicked.connect(lambda: jobs.cancel(self._job))
        session.opening.connect(self.path.set_text)
        session.changed.connect(self._on_snapshot)
        session.failed.connect(lambda _: self._nothing())
        session.closed.connect(self._nothing)
        jobs.started.connect(self._on_started)
        jobs.progressed.connect(self._on_progress)
        jobs.finished.connect(self._on_finished)

    def _build(self) -> None:
        self.badge = label(self.tr("READ-ONLY"), size=0.85, bold=True, muted=True)
        self.badge.setToolTip(self.tr("What you open is only read. Fixed checkpoints are written to a new folder."))
        self.path = ElidedLabel()
        self.selection = label(muted=True)
        self.work = QWidget()
        self.job_text = label()
        self.bar = ProgressBar()
        self.bar.setTextVisible(False)
        self.bar.setFixedSize(9 * self.fontMetrics().height(), GRID)
        self.bar.setAccessibleName(self.tr("Progress"))
        self.stop = button(self.tr("Cancel"), kind="quiet")
        line = QHBoxLayout(self.work)
        line.setContentsMargins(0, 0, 0, 0)
        line.setSpacing(GRID)
        for widget in (self.job_text, self.bar, self.stop):
            line.addWidget(widget)
        self.work.hide()
        all_ = QWidget()
        all_.setMinimumHeight(self.work.sizeHint().height() + 4)  # so that nothing moves when a job comes and goes
        whole = QHBoxLayout(all_)
        whole.setContentsMargins(GRID // 2, 2, GRID // 2, 2)
        whole.setSpacing(2 * GRID)
        whole.addWidget(self.badge)
        whole.addWidget(self.path, 1)
        for each in (self.selection, self.work):
            whole.addWidget(each)
        self.addWidget(all_, 1)

    def show_selection(self, count: int, nbytes: int) -> None:
        """Say how much is selected."""
        self.selection.setText(
            self.tr("{} selected, {}").format(count_text(count), human_bytes(nbytes)) if count else ""
        )

    def _on_snapshot(self, snapshot: Snapshot) -> None:
        self.path.set_text(snapshot.source.path)

    def _nothing(self) -> None:
        self.selection.clear()
        self.path.set_text("")

    def _on_started(self, job: Job) -> None:
        if not job.quiet:
            self._show(job, job.title)

    def _on_progress(self, job: Job, text: str, done: int, total: int) -> None:
        if job.quiet:  # it shows its progress where it was started
            return
        self._show(job, f"{job.title}: {safe_text(text, 60)}" if text else job.title)
        self.bar.setRange(0, 1000 if total else 0)
        self.bar.setValue(round(1000 * done / total) if total else 0)

    def _on_finished(self, _job: Job) -> None:
        rest = [job for job in self._jobs.running() if not job.quiet]
        if rest:
            self._show(rest[-1], rest[-1].title)
        else:
            self._job = None
            self.work.hide()

    def _show(self, job: Job, text: str) -> None:
        if job is not self._job:
            self._job = job
            self.bar.setRange(0, 0)
        waiting = len([j for j in self._jobs.running() if not j.quiet]) - 1
        text = said(text)
        self.job_text.setText(f"{text}  (+{waiting})" if waiting > 0 else text)
        self.job_text.setAccessibleName(
            self.tr("{jobs} running: {what}").format(jobs=said(plural(waiting + 1, "job")), what=text)
        )
        self.work.show()
