"""The other pages of the export dialog: while it writes, and when it is done."""

from __future__ import annotations

import time

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QHBoxLayout, QProgressBar, QPushButton, QVBoxLayout, QWidget

from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.retarget import Export
from ckpt_gui.core.text import human_bytes, plural
from ckpt_gui.core.writer import WriteResult
from ckpt_gui.gui.panels.export_check import file_lines, notes
from ckpt_gui.gui.panels.parts import Card, button
from ckpt_gui.gui.theme import Theme
from ckpt_gui.gui.widgets.banner import Banner
from ckpt_gui.gui.widgets.facts import FactList
from ckpt_gui.gui.widgets.scroll_body import ScrollBody, scroll_area
from ckpt_gui.gui.widgets.units import GRID, em, heading, plain_label, quoted

FILES_SHOWN = 12


class ProgressPage(QWidget):
    """How far the export is, and a button that stops it.

    Signals:
        cancel_requested(): The user wants it to stop.
    """

    cancel_requested = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._begun = 0.0
        self.title = plain_label(wrap=False)
        font = self.title.font()
        font.setPointSizeF(font.pointSizeF() * 1.3)
        font.setBold(True)
        self.title.setFont(font)
        self.bar = QProgressBar()
        self.bar.setTextVisible(False)
        self.bar.setFixedHeight(max(em(self, 0.6), 8))
        self.note = plain_label(muted=True, wrap=False)
        self.cancel_button = QPushButton(self.tr("Cancel"))
        self.cancel_button.clicked.connect(self.cancel_requested)
        self._lay_out()

    def _lay_out(self) -> None:
        foot = QHBoxLayout()
        foot.addWidget(self.note, 1)
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
        self._begun = time.monotonic()
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
        self.title.setText(f"{safe_text(label)}…")
        self.bar.setRange(0, 1000)
        self.bar.setValue(min(1000, done * 1000 // total))
        text = self.tr("{percent} % · {done} of {total}").format(
            percent=done * 100 // total, done=human_bytes(done), total=human_bytes(total)
        )
        left = time_left(time.monotonic() - self._begun, done, total)
        self.note.setText(f"{text} · {left}" if left else text)


def time_left(elapsed: float, done: int, total: int) -> str:
    """Return how long the rest takes, in words; empty as long as nobody can tell.

    >>> time_left(10, 50, 100), time_left(60, 10, 100), time_left(0.2, 1, 100)
    ('about 10 s left', 'about 9 min left', '')
    """
    if elapsed < 1 or done <= 0 or done >= total:
        return ""
    seconds = elapsed * (total - done) / done
    return f"about {seconds:.0f} s left" if seconds < 100 else f"about {seconds / 60:.0f} min left"


class ResultPage(QWidget):
    """What was written.

    Signals:
        open_requested(), show_requested(), copy_requested(), save_requested(), close_requested(): Buttons.
    """

    open_requested = Signal()
    show_requested = Signal()
    copy_requested = Signal()
    save_requested = Signal()
    close_requested = Signal()

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        tr = self.tr
        self.banner = Banner(theme)
        rows = [("folder", tr("Folder")), ("size", tr("Size")), ("files", tr("Files"))]
        self.facts = FactList("", rows, copied=("folder",))
        self.steps, self.notes = plain_label(), plain_label()
        self.open_button = button(tr("Open result"), kind="primary", tip=tr("Open what was written in this window"))
        self.show_button = button(tr("Show in folder"))
        self.copy_button = button(tr("Copy command"), tip=tr("Copy the command that does the same"))
        self.save_button = button(tr("Save report…"), tip=tr("As HTML, Markdown or JSON"))
        self.close_button = button(tr("Close"))
        self._lay_out()
        pairs = (
            (self.open_button, self.open_requested), (self.show_button, self.show_requested),
            (self.copy_button, self.copy_requested), (self.save_button, self.save_requested),
            (self.close_button, self.close_requested),
        )  # fmt: skip
        for widget, signal in pairs:
            widget.clicked.connect(signal)

    def _lay_out(self) -> None:
        self.notes_card = _card(self.notes, self.tr("Good to know"))
        self.message = plain_label(muted=True)
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

    def show_result(self, export: Export, result: WriteResult) -> None:
        """Show a result."""
        tr = self.tr
        title = tr("Written and verified {n}/{m}").format(n=f"{result.verified:,}", m=f"{result.tensors:,}")
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
        self.message.setText("")


def _card(content: QWidget, title: str = "") -> Card:
    card = Card()
    if title:
        card.body.addWidget(heading(title))
    card.body.addWidget(content)
    return card
