"""The jobs of a window: each with its name, how far it is, and a button that stops it; and those that ended lately."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from PySide6.QtCore import Qt, QUrl, Signal
from PySide6.QtGui import QDesktopServices, QGuiApplication
from PySide6.QtWidgets import QHBoxLayout, QVBoxLayout, QWidget

from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.pace import left_words
from ckpt_gui.gui.language import mark, said
from ckpt_gui.gui.models.job_book import JobBook, JobRecord
from ckpt_gui.gui.panels.parts import button, label
from ckpt_gui.gui.theme import Theme
from ckpt_gui.gui.widgets.progress import ProgressBar
from ckpt_gui.gui.widgets.scroll_body import ScrollBody, scroll_area
from ckpt_gui.gui.widgets.units import GRID, em, quoted, tip_text
from ckpt_gui.gui.wording import human_bytes

# State → glyph, word, colour role.
JOB_STYLES: Mapping[str, tuple[str, str, str]] = MappingProxyType({
    "waiting": ("○", mark("waits"), "grey"),
    "running": ("▸", mark("runs"), "blue"),
    "stopping": ("▸", mark("is being stopped"), "orange"),
    "done": ("✓", mark("done"), "teal"),
    "failed": ("✗", mark("failed"), "red"),
    "stopped": ("■", mark("stopped"), "grey"),
})  # fmt: skip


class JobsPanel(QWidget):
    """The list of jobs, the latest first.

    Attributes:
        rows: The rows by the numbers of their jobs.

    Signals:
        open_wanted(folder): The user wants to open what a job wrote.
    """

    open_wanted = Signal(str)

    def __init__(self, book: JobBook, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._book, self._theme = book, theme
        self.rows: dict[int, JobRow] = {}
        self.empty = label(self.tr("Nothing is running, and nothing has ended lately."), muted=True, wrap=True)
        self.clear_button = button(
            self.tr("Clear list"), kind="quiet", tip=self.tr("List the jobs no more that have ended")
        )
        self.clear_button.clicked.connect(book.forget_ended)
        body = ScrollBody()
        self._column = QVBoxLayout(body)
        self._column.setContentsMargins(GRID, GRID, GRID, GRID)
        self._column.setSpacing(GRID)
        self._column.addWidget(self.empty)
        self._column.addStretch(1)
        area = scroll_area(body)
        area.setAccessibleName(self.tr("Jobs"))
        foot = QHBoxLayout()
        foot.setContentsMargins(GRID, 0, GRID, GRID // 2)
        foot.addStretch(1)
        foot.addWidget(self.clear_button)
        box = QVBoxLayout(self)
        box.setContentsMargins(0, 0, 0, 0)
        box.setSpacing(0)
        box.addWidget(area, 1)
        box.addLayout(foot)
        book.changed.connect(self._show)
        book.dropped.connect(self._drop)
        for number in book.records:
            self._show(number)
        self._enable()

    def _show(self, number: int) -> None:
        if number not in self.rows:
            self.rows[number] = row = JobRow(self._theme)
            row.stop_wanted.connect(lambda: self._book.stop(number))
            row.open_wanted.connect(self.open_wanted)
            self._column.insertWidget(0, row)
        self.rows[number].show_record(self._book.records[number])
        self._enable()

    def _drop(self, number: int) -> None:
        row = self.rows.pop(number, None)
        if row is not None:
            self._column.removeWidget(row)
            row.hide()
            row.deleteLater()
        self._enable()

    def _enable(self) -> None:
        self.empty.setVisible(not self.rows)
        self.clear_button.setEnabled(any(not record.running for record in self._book.records.values()))


class JobRow(QWidget):
    """One job.

    Signals:
        stop_wanted(): The user wants it to stop.
        open_wanted(folder): The user wants to open what it wrote.
    """

    stop_wanted = Signal()
    open_wanted = Signal(str)

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._record: JobRecord | None = None
        self.glyph = label(bold=True)
        self.glyph.setFixedWidth(em(self))  # so that the titles stand in one line
        self.title = label(bold=True, wrap=True)
        self.news = label(muted=True, wrap=True)
        self.news.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.bar = ProgressBar()
        self.bar.setTextVisible(False)
        self.bar.setFixedHeight(GRID)
        self.stop_button = button(self.tr("Cancel"), tip=self.tr("Stop this job; nothing half-done stays"))
        self.copy_button = button(self.tr("Copy report"), tip=self.tr("Copy what went wrong, for the program's makers"))
        self.open_button = button(self.tr("Open result"), tip=self.tr("Open what was written in this window"))
        self.folder_button = button(self.tr("Show in folder"))
        self._lay_out()
        self.stop_button.clicked.connect(self.stop_wanted)
        self.copy_button.clicked.connect(self._copy)
        self.folder_button.clicked.connect(self._show_folder)
        self.open_button.clicked.connect(self._open)
        theme.changed.connect(self._restyle)

    def _lay_out(self) -> None:
        texts = QVBoxLayout()
        texts.setSpacing(GRID // 2)
        for widget in (self.title, self.bar, self.news):
            texts.addWidget(widget)
        line = QHBoxLayout(self)
        line.setContentsMargins(0, 0, 0, 0)
        line.setSpacing(GRID)
        line.addWidget(self.glyph, 0, Qt.AlignmentFlag.AlignTop)
        line.addLayout(texts, 1)
        for each in (self.open_button, self.folder_button, self.copy_button, self.stop_button):
            line.addWidget(each, 0, Qt.AlignmentFlag.AlignTop)

    def show_record(self, record: JobRecord) -> None:
        """Show a job as it is now."""
        self._record = record
        glyph, word, _ = JOB_STYLES[record.state]
        self.glyph.setText(glyph)
        title = safe_text(record.title, 200)
        self.title.setText(title)
        self.news.setText(news(record))
        self.bar.setVisible(record.running and record.state != "waiting")
        self.bar.setRange(0, 1000 if record.total > 0 else 0)
        self.bar.setValue(min(1000, record.done * 1000 // record.total) if record.total > 0 else 0)
        self.bar.setAccessibleName(self.tr("Progress of {title}").format(title=title))
        self.stop_button.setVisible(record.running)
        self.stop_button.setEnabled(record.state != "stopping")
        self.stop_button.setAccessibleName(self.tr("Cancel {title}").format(title=title))
        self.copy_button.setVisible(record.state == "failed")
        for each in (self.open_button, self.folder_button):
            each.setVisible(bool(record.folder))
        self.folder_button.setToolTip(tip_text(record.folder))
        self.setAccessibleName(f"{title}: {said(word)}. {self.news.text()}")
        self._restyle()

    def _restyle(self) -> None:
        if self._record is not None:
            palette = self.glyph.palette()
            palette.setColor(self.glyph.foregroundRole(), self._theme.color(JOB_STYLES[self._record.state][2]))
            self.glyph.setPalette(palette)

    def _copy(self) -> None:
        if self._record is not None:
            record = self._record
            QGuiApplication.clipboard().setText(record.report or f"{record.title}: {record.sentence}\n")

    def _open(self) -> None:
        if self._record is not None:
            self.open_wanted.emit(self._record.folder)

    def _show_folder(self) -> None:
        if self._record is not None:
            QDesktopServices.openUrl(QUrl.fromLocalFile(self._record.folder))


def news(record: JobRecord) -> str:
    """Return how far a job is, or what came of it."""
    if not record.running:
        return quoted(said(record.sentence or JOB_STYLES[record.state][1]))
    if record.state != "running" or record.total <= 0:
        return said(JOB_STYLES[record.state][1])
    text = said("{label}: {percent} % · {done} of {total}").format(
        label=safe_text(said(record.label), 60), percent=min(100, record.done * 100 // record.total),
        done=human_bytes(record.done), total=human_bytes(record.total),
    )  # fmt: skip
    return " · ".join(filter(None, (text, said(left_words(record.seconds_left)))))
