"""What the window shows if a checkpoint can not be opened: what, where, what to do. Never a dialog."""

from __future__ import annotations

import os

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QGridLayout, QHBoxLayout, QLayout, QVBoxLayout, QWidget

from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.keys import safe_text
from ckpt_gui.gui.error_report import error_report
from ckpt_gui.gui.language import said
from ckpt_gui.gui.looks import SEVERITY_STYLES
from ckpt_gui.gui.panels.parts import Card, FlowLayout, button, clear, label, set_look
from ckpt_gui.gui.theme import Theme
from ckpt_gui.gui.widgets.units import GRID, quoted

WIDTH_EM = 40
SALVAGEABLE = frozenset({"truncated", "damaged", "crc-mismatch"})  # codes of files that may be whole in part


class ErrorPanel(QWidget):
    """Says why a checkpoint could not be opened.

    Signals:
        again(): Try the same path again.
        other(): Choose another file.
        leave(): Back to the start page.
        salvage(): Open what is whole of the file.
        explain(): The user has a message of another program, too.
    """

    again = Signal()
    other = Signal()
    leave = Signal()
    salvage = Signal()
    explain = Signal()

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._report = ""
        self._build()
        self.again_button.clicked.connect(self.again)
        self.other_button.clicked.connect(self.other)
        self.leave_button.clicked.connect(self.leave)
        self.salvage_button.clicked.connect(self.salvage)
        self.explain_button.clicked.connect(self.explain)
        self.copy_button.clicked.connect(lambda: QGuiApplication.clipboard().setText(self._report))
        theme.changed.connect(self._restyle)
        self._restyle()

    def _build(self) -> None:
        card = Card(padding=3 * GRID)
        card.setMaximumWidth(WIDTH_EM * self.fontMetrics().height())
        card.body.setSpacing(2 * GRID)
        self.glyph = label(SEVERITY_STYLES["error"][0], size=1.7, bold=True)
        self.title = label(size=1.35, bold=True, wrap=True)
        head = QHBoxLayout()
        head.setSpacing(GRID)
        head.addWidget(self.glyph, 0, Qt.AlignmentFlag.AlignTop)
        head.addWidget(self.title, 1)
        card.body.addLayout(head)
        self.message = label(wrap=True)
        card.body.addWidget(self.message)
        self._details = QGridLayout()
        self._details.setHorizontalSpacing(2 * GRID)
        self._details.setVerticalSpacing(GRID)
        self._details.setColumnStretch(1, 1)
        card.body.addLayout(self._details)
        card.body.addSpacing(GRID)
        card.body.addLayout(self._build_buttons())
        # Not by alignment: a layout would work out the card's height at the width of the window.
        middle = QHBoxLayout()
        middle.addStretch(1)
        middle.addWidget(card, 100)
        middle.addStretch(1)
        outer = QVBoxLayout(self)
        outer.addStretch(2)
        outer.addLayout(middle)
        outer.addStretch(3)

    def _build_buttons(self) -> QLayout:
        self.other_button = button(self.tr("Open another file…"))
        self.again_button = button(self.tr("Try again"), tip="F5")
        self.salvage_button = button(
            self.tr("Open what is whole"), tip=self.tr("Only the tensors of which every byte is there")
        )
        self.explain_button = button(self.tr("Explain an error…"), tip=self.tr("What another program said of it"))
        self.copy_button = button(self.tr("Copy details"))
        self.leave_button = button(self.tr("Start page"), kind="quiet")
        line = FlowLayout()
        for each in (
            self.salvage_button,
            self.other_button,
            self.again_button,
            self.explain_button,
            self.copy_button,
            self.leave_button,
        ):
            line.addWidget(each)
        return line

    def show_error(self, path: str, error: BaseException, command: str = "") -> None:
        """Say what went wrong with a path; the command repeats it."""
        title, message, details = error_words(path, error)
        title, message = said(title), said(message)
        self.title.setText(title)
        self.message.setText(message)
        clear(self._details)
        for line, (name, text) in enumerate(details):
            value = label(text, wrap=True)
            value.setMinimumWidth(12 * self.fontMetrics().height())
            value.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
            self._details.addWidget(label(name, muted=True), line, 0, Qt.AlignmentFlag.AlignTop)
            self._details.addWidget(value, line, 1, Qt.AlignmentFlag.AlignTop)
        salvageable = isinstance(error, CheckpointError) and error.code in SALVAGEABLE
        self.salvage_button.setVisible(salvageable)
        set_look(self.salvage_button, "kind", "primary" if salvageable else "")
        set_look(self.other_button, "kind", "" if salvageable else "primary")  # one at most: the best way on
        self._report = "\n".join([title, message, *(f"{name}: {text}" for name, text in details)])
        unexpected = not isinstance(error, CheckpointError | OSError)
        self.copy_button.setText(self.tr("Copy report") if unexpected else self.tr("Copy details"))
        self.copy_button.setAccessibleName(self.copy_button.text())
        if unexpected:
            self._report = error_report(error, command)
        self.setAccessibleName(f"{title}. {message}")

    def _restyle(self) -> None:
        palette = self.glyph.palette()
        palette.setColor(self.glyph.foregroundRole(), self._theme.color("severity.error"))
        self.glyph.setPalette(palette)


def error_words(path: str, error: BaseException) -> tuple[str, str, list[tuple[str, str]]]:
    """Return a title, a sentence, and named details for an error of opening."""
    name = safe_text(os.path.basename(os.path.normpath(path)) or path, 80)
    where = error.path if isinstance(error, CheckpointError) and error.path else path
    details = [("Where", safe_text(where, 300))]
    if isinstance(error, CheckpointError):
        if error.offset is not None:
            details[0] = ("Where", f"{safe_text(where, 300)}, at byte {error.offset:,}")
        details += [("Tensor", safe_text(error.key))] if error.key else []
        details += [("What to do", quoted(error.fix, 500))] if error.fix else []
        details.append(("Code", error.code))
        message = quoted(error.message.replace(where, os.path.basename(os.path.normpath(where)) or where), 1000)
        return f"{name} cannot be opened", message, details
    if isinstance(error, OSError):
        reason = error.strerror or str(error)
        details.append(("What to do", "Check that the file is there and that you may read it, then try again."))
        return f"{name} cannot be opened", f"The system says: {safe_text(reason)}.", details
    details.append(("What to do", "This is a fault of this program. Copy the report and send it to its makers."))
    return f"Something went wrong with {name}", f"{type(error).__name__}: {safe_text(str(error), 300)}", details
