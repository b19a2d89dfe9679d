"""A line that says what is wrong at the place where it happened, with a button that copies a report of it."""

from __future__ import annotations

from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QHBoxLayout, QPushButton, QWidget

from ckpt_gui.core.keys import safe_text
from ckpt_gui.gui.error_report import error_report, error_sentence, is_expected
from ckpt_gui.gui.jobs import JobManager
from ckpt_gui.gui.language import said
from ckpt_gui.gui.widgets.units import GRID, plain_label, quoted


class TroubleLine(QWidget):
    """Hidden while there is nothing to say."""

    def __init__(self, jobs: JobManager, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._jobs = jobs
        self._report = ""
        self._label = plain_label(muted=True)
        self.copy_button = report_button()
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(GRID)
        row.addWidget(self._label, 1)
        row.addWidget(self.copy_button)
        self.copy_button.clicked.connect(lambda: QGuiApplication.clipboard().setText(self._report))
        self.say("")

    def text(self) -> str:
        """Return what is said."""
        return self._label.text()

    def say(self, text: str) -> None:
        """Say something; an empty text hides the line."""
        self._tell(text, "")

    def say_error(self, error: BaseException) -> None:
        """Say what went wrong; what the sentence does not tell in full can be copied."""
        report = "" if is_expected(error) else error_report(error, self._jobs.command())
        self._tell(quoted(error_sentence(error)), report)

    def _tell(self, text: str, report: str) -> None:
        self._report = report
        self._label.setText(safe_text(said(text), 600))
        self._label.setAccessibleName(self._label.text())
        self.copy_button.setVisible(bool(report))
        self.setVisible(bool(text))


def report_button() -> QPushButton:
    """Return a button that offers a report of an error."""
    made = QPushButton(said("Copy report"))
    made.setAccessibleName(said("Copy report"))
    made.setToolTip(said("Versions, the command to repeat it, and the trace; without your home folder's name"))
    return made
