"""What stands above a comparison: the other side, what to compare, and a chip for each state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from PySide6.QtCore import QStringListModel, Qt, Signal
from PySide6.QtWidgets import QCompleter, QFileDialog, QHBoxLayout, QLineEdit, QToolButton, QVBoxLayout, QWidget

from ckpt_gui.core.families.known_models import KNOWN
from ckpt_gui.gui.language import said
from ckpt_gui.gui.models.compare_rows import COMPARE_STYLES
from ckpt_gui.gui.panels.parts import FlowLayout, button
from ckpt_gui.gui.theme import Theme
from ckpt_gui.gui.widgets.units import GRID, plain_label
from ckpt_gui.gui.wording import count_text

_NAMES_LIMIT = 14  # names of published models in sight


class CompareHead(QWidget):
    """The line with the other checkpoint, and the chips.

    Signals:
        wanted(name, values): Compare with this; with values or without.
        states_chosen(states): Chips were switched: these are on.
    """

    wanted = Signal(str, bool)
    states_chosen = Signal(list)

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        tr = self.tr
        self.other = QLineEdit()
        self.other.setPlaceholderText(tr("A file or folder, a config.json, or a model such as Llama-3.2-1B"))
        self.other.setAccessibleName(tr("Compare with"))
        self.other.setAcceptDrops(False)  # a file that is dropped is opened, wherever that is
        completer = QCompleter(QStringListModel([model.name for model in KNOWN], self), self)
        completer.setFilterMode(Qt.MatchFlag.MatchContains)
        completer.setCaseSensitivity(Qt.CaseSensitivity.CaseInsensitive)
        completer.setMaxVisibleItems(_NAMES_LIMIT)
        self.other.setCompleter(completer)
        self.file_button, self.folder_button = button(tr("File…")), button(tr("Folder…"))
        self.names_button = button(tr("Compare"), kind="primary", tip=tr("Names, shapes and types: headers only"))
        self.values_button = button(tr("Compare values"), tip=tr("Every byte of both; shows progress, can be stopped"))
        self.chips: dict[str, QToolButton] = {}
        self._lay_out()
        self.other.returnPressed.connect(lambda: self._want(values=False))
        self.other.textChanged.connect(lambda _: self.enable())
        self.names_button.clicked.connect(lambda: self._want(values=False))
        self.values_button.clicked.connect(lambda: self._want(values=True))
        self.file_button.clicked.connect(self._choose_file)
        self.folder_button.clicked.connect(self._choose_folder)
        self.enable()

    def _lay_out(self) -> None:
        name = plain_label(self.tr("Compare with"), wrap=False)
        name.setBuddy(self.other)
        first, second = QHBoxLayout(), QHBoxLayout()
        for widget in (name, self.other, self.file_button, self.folder_button):
            first.addWidget(widget)
        first.setStretch(1, 1)
        for widget in (self.names_button, self.values_button):
            second.addWidget(widget)
        second.addStretch()
        self._chip_place = QWidget()
        self._flow = FlowLayout(self._chip_place, spacing=GRID // 2)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(GRID)
        for each in (first, second):
            each.setSpacing(GRID)
            column.addLayout(each)
        column.addWidget(self._chip_place)

    def enable(self, *, running: bool = False) -> None:
        """Enable what makes sense now."""
        ready = bool(self.other.text().strip()) and not running
        self.names_button.setEnabled(ready)
        self.values_button.setEnabled(ready)

    def show_counts(self, counts: Mapping[Any, int]) -> None:
        """Show a chip for each state that there is; those that are on stay on."""
        on = {state for state, chip in self.chips.items() if chip.isChecked()}
        for chip in self.chips.values():
            self._flow.removeWidget(chip)
            chip.deleteLater()
        self.chips = {}
        for state, style in COMPARE_STYLES.items():
            if not counts.get(state):
                continue
            chip = QToolButton()
            chip.setText(f"{style.glyph}  {count_text(counts[state])} {said(style.word)}")
            chip.setToolTip(self.tr("Show only tensors that are {meaning}").format(meaning=said(style.meaning)))
            chip.setCheckable(True)
            chip.setChecked(state in on)
            chip.toggled.connect(self._on_chip)
            self.chips[state] = chip
            self._flow.addWidget(chip)
        self._chip_place.setVisible(bool(self.chips))

    def states(self) -> list[str]:
        """Return the states whose chips are on."""
        return [state for state, chip in self.chips.items() if chip.isChecked()]

    def _on_chip(self, _on: bool) -> None:
        self.states_chosen.emit(self.states())

    def _want(self, *, values: bool) -> None:
        if self.other.text().strip() and self.names_button.isEnabled():
            self.wanted.emit(self.other.text().strip(), values)

    def _choose_file(self) -> None:
        path, _ = QFileDialog.getOpenFileName(self, self.tr("Compare with a file"))
        if path:
            self.other.setText(path)

    def _choose_folder(self) -> None:
        path = QFileDialog.getExistingDirectory(self, self.tr("Compare with a folder"))
        if path:
            self.other.setText(path)
