"""The last page of the export dialog: what was written, and what can be done with it."""

from __future__ import annotations

from PySide6.QtCore import QUrl, Signal
from PySide6.QtGui import QDesktopServices, QGuiApplication
from PySide6.QtWidgets import QHBoxLayout, QVBoxLayout, QWidget

from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.text import plural
from ckpt_gui.gui.jobs import JobManager
from ckpt_gui.gui.panels.export_check import Written, file_lines, notes, save_report
from ckpt_gui.gui.panels.parts import Card, button
from ckpt_gui.gui.panels.report_dialog import ask_report_path
from ckpt_gui.gui.theme import Theme
from ckpt_gui.gui.widgets.banner import Banner
from ckpt_gui.gui.widgets.facts import FactList
from ckpt_gui.gui.widgets.scroll_body import ScrollBody, scroll_area
from ckpt_gui.gui.widgets.trouble_line import TroubleLine
from ckpt_gui.gui.widgets.units import GRID, heading, plain_label, quoted
from ckpt_gui.gui.wording import count_text, human_bytes

FILES_SHOWN = 12


class ResultPage(QWidget):
    """What was written.

    Signals:
        open_requested(folder): The user wants to open what was written.
        close_requested(): The user has seen it.
    """

    open_requested = Signal(str)
    close_requested = Signal()

    def __init__(self, jobs: JobManager, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._jobs = jobs
        self._written: Written | None = None
        tr = self.tr
        self.banner = Banner(theme)
        rows = [("folder", tr("Folder")), ("size", tr("Size")), ("files", tr("Files"))]
        self.facts = FactList("", rows, copied=("folder",))
        self.steps, self.notes = plain_label(), plain_label()
        self.open_button = button(tr("Open result"), kind="primary", tip=tr("Open what was written in this window"))
        self.show_button = button(tr("Show in folder"))
        self.copy_button = button(tr("Copy command"), tip=tr("Copy the command that does the same"))
        self.save_button = button(tr("Save report…"), tip=tr("As a web page, Markdown, JSON or SARIF"))
        self.close_button = button(tr("Close"))
        self._lay_out()
        self.open_button.clicked.connect(self._open)
        self.show_button.clicked.connect(self._show_in_folder)
        self.copy_button.clicked.connect(self._copy)
        self.save_button.clicked.connect(self._save)
        self.close_button.clicked.connect(self.close_requested)

    def _lay_out(self) -> None:
        self.notes_card = _card(self.notes, self.tr("Good to know"))
        self.message = TroubleLine(self._jobs)
        body = ScrollBody()
        column = QVBoxLayout(body)
        column.setContentsMargins(2 * GRID, 2 * GRID, 2 * GRID, GRID)
        column.setSpacing(12)
        column.addWidget(self.banner)
        for card in (_card(self.facts), _card(self.steps, self.tr("What was done")), self.notes_card):
            column.addWidget(card)
        column.addWidget(self.message)
        column.addStretch(1)
        box = QVBoxLayout(self)
        box.setContentsMargins(0, 0, 0, 0)
        box.setSpacing(0)
        box.addWidget(scroll_area(body), 1)
        box.addLayout(self._make_foot())

    def _make_foot(self) -> QHBoxLayout:
        foot = QHBoxLayout()
        foot.setContentsMargins(2 * GRID, GRID, 2 * GRID, 2 * GRID)
        foot.setSpacing(GRID)
        for widget in (self.show_button, self.copy_button, self.save_button):
            foot.addWidget(widget)
        foot.addStretch(1)
        foot.addWidget(self.close_button)
        foot.addWidget(self.open_button)
        return foot

    def show_written(self, written: Written) -> None:
        """Show what was written."""
        self._written, export, result, tr = written, written.export, written.result, self.tr
        title = tr("Written and verified {n}/{m}").format(n=count_text(result.verified), m=count_text(result.tensors))
        detail = tr("Every tensor was read back from the disk and compared.")
        self.banner.show_text("teal", "✓", title, detail)
        self.facts.set_value("folder", safe_text(result.folder, 2000), raw=result.folder)
        seconds = f"{result.seconds:.1f} s" if result.seconds >= 0.1 else tr("less than 0.1 s")
        size = tr("{size} of tensors in {seconds}").format(size=human_bytes(result.nbytes), seconds=seconds)
        self.facts.set_value("size", size)
        lines = file_lines(result)[:FILES_SHOWN]
        names = [safe_text(name) + (f"  ({human_bytes(size)})" if size is not None else "") for name, size in lines]
        if len(result.files) > FILES_SHOWN:
            names.append(tr("and {n} more").format(n=len(result.files) - FILES_SHOWN))
        self.facts.set_value("files", "\n".join(names))
        units = {"config": "file"}
        done = [f"✓  {quoted(s.title)}  ({plural(s.count, units.get(s.id, 'tensor'))})" for s in export.steps]
        self.steps.setText("\n".join(done) or tr("Nothing had to be changed."))
        known = notes(export, result)
        self.notes.setText("\n".join(quoted(note) for note in known))
        self.notes_card.setVisible(bool(known))
        self.message.say("")
        self.open_button.setFocus()

    # ------------------------------------------------------------------------------------------------------- buttons

    def _open(self) -> None:
        if self._written is not None:
            self.open_requested.emit(self._written.result.folder)

    def _show_in_folder(self) -> None:
        if self._written is not None:
            QDesktopServices.openUrl(QUrl.fromLocalFile(self._written.result.folder))

    def _copy(self) -> None:
        if self._written is not None:
            QGuiApplication.clipboard().setText(self._written.command)
            self.message.say(self.tr("The command is on the clipboard."))

    def _save(self) -> None:
        path = ask_report_path(self, "export-report")
        if path:
            self.save_report(path)

    def save_report(self, path: str) -> None:
        """Write the report of what was written."""
        written = self._written
        if written is None:
            return
        self._jobs.start(
            self.tr("Saving the report"),
            lambda _job: save_report(path, written.export, written.result),
            lambda _: self.message.say(self.tr("Saved: {path}").format(path=safe_text(path, 300))),
            self.message.say_error,
        )


def _card(content: QWidget, title: str = "") -> Card:
    card = Card()
    if title:
        card.body.addWidget(heading(title))
    card.body.addWidget(content)
    return card
