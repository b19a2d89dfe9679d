"""A page that works out what it shows while somebody looks at it, and stops when nobody does."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QHideEvent, QShowEvent
from PySide6.QtWidgets import QFrame, QScrollArea, QVBoxLayout, QWidget

from ckpt_gui.gui.jobs import JobManager
from ckpt_gui.gui.widgets.job_bar import JobBar
from ckpt_gui.gui.widgets.scroll_body import ScrollBody
from ckpt_gui.gui.widgets.trouble_line import TroubleLine
from ckpt_gui.gui.widgets.units import GRID


class LiveArea(QScrollArea):
    """A column that scrolls, with the bar of its one job and a line for what has to be said instead of figures.

    A subclass puts its widgets in place with `lay_out`, starts its job in `calculate` (called each time that it comes
    into sight) and says what became of it with `say` and `say_error`.

    Attributes:
        job: The job that works out what is shown; stopped when the page goes out of sight.
        message: What is said when there is nothing to show.
    """

    def __init__(self, jobs: JobManager, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWidgetResizable(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.job = JobBar(jobs)
        self.message = TroubleLine(jobs)

    def lay_out(self, *widgets: QWidget) -> None:
        """Put widgets one below the other."""
        body = ScrollBody()
        column = QVBoxLayout(body)
        column.setContentsMargins(12, 12, 12, 12)
        column.setSpacing(2 * GRID)
        for widget in widgets:
            column.addWidget(widget)
        column.addStretch(1)
        self.setWidget(body)

    def calculate(self) -> None:
        """Start what is wanted, unless it is known or being worked out."""
        raise NotImplementedError

    def showEvent(self, event: QShowEvent) -> None:
        """Start what is wanted, now that it is seen."""
        super().showEvent(event)
        if not event.spontaneous():
            self.calculate()

    def hideEvent(self, event: QHideEvent) -> None:
        """Stop what nobody looks at."""
        super().hideEvent(event)
        if not event.spontaneous():
            self.job.stop()

    def say(self, text: str) -> None:
        """Say something instead of figures; an empty text hides the line."""
        self.message.say(text)

    def say_error(self, error: BaseException) -> None:
        """Say why there are no figures."""
        self.message.say_error(error)
