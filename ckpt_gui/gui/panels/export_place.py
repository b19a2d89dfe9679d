"""The card of the export dialog that says where to write, and what was found there."""

from __future__ import annotations

from PySide6.QtCore import QDateTime, QLocale, Signal
from PySide6.QtWidgets import QCheckBox, QHBoxLayout, QLineEdit, QWidget

from ckpt_gui.core.keys import safe_text
from ckpt_gui.gui.language import said
from ckpt_gui.gui.panels.export_check import Check
from ckpt_gui.gui.panels.parts import Card, button
from ckpt_gui.gui.theme import Theme
from ckpt_gui.gui.widgets.units import GRID, heading, plain_label
from ckpt_gui.gui.wording import human_bytes


class PlaceCard(Card):
    """Names the folder.

    Signals:
        folder_changed(text): Another folder was named.
        browse_requested(): The user wants to choose one.
        overwrite_changed(): The consent to replace was given or taken back.
    """

    folder_changed = Signal(str)
    browse_requested = Signal()
    overwrite_changed = Signal()

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self.folder_edit = QLineEdit()
        self.folder_edit.setAccessibleName(self.tr("Folder to write"))
        self.browse_button = button(self.tr("Browse…"), tip=self.tr("Choose another folder"))
        self.folder_note = plain_label(muted=True)
        self.overwrite_box = QCheckBox(self.tr("Replace what is there"))
        self.overwrite_box.hide()
        row = QHBoxLayout()
        row.setSpacing(GRID)
        row.addWidget(self.folder_edit, 1)
        row.addWidget(self.browse_button)
        self.body.addWidget(heading(self.tr("Where to")))
        self.body.addLayout(row)
        self.body.addWidget(self.folder_note)
        self.body.addWidget(self.overwrite_box)
        self.folder_edit.textEdited.connect(self.folder_changed)
        self.browse_button.clicked.connect(self.browse_requested)
        self.overwrite_box.toggled.connect(self.overwrite_changed)

    def show_check(self, check: Check | None) -> None:
        """Show what was found at the folder; None while it is being looked at."""
        if check is None:
            self._note(self.tr("Looking at the folder…"), "muted")
            return
        self.overwrite_box.setVisible(bool(check.existing) and not check.problem)
        if not check.existing:
            self.overwrite_box.setChecked(False)
        if check.problem:
            self._note(f"{safe_text(check.problem, 600)} {safe_text(check.fix, 300)}".strip(), "red")
        elif check.existing:
            when = QLocale().toString(QDateTime.fromSecsSinceEpoch(int(check.changed)), QLocale.FormatType.ShortFormat)
            text = self.tr("The folder is not empty: {n} entries, last changed {when}.")
            self._note(text.format(n=check.existing, when=when), "orange")
        else:
            free = human_bytes(check.free) if check.free is not None else self.tr("unknown")
            self._note(self.tr("A new folder; {free} free on that disk.").format(free=free), "muted")

    def _note(self, text: str, role: str) -> None:
        self.folder_note.setText(said(text))
        self.folder_note.setStyleSheet(f"color: {self._theme.color(role).name()};")
