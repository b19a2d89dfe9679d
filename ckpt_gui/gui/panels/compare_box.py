"""The box that says what the checkpoint is compared with: its own layout, a known model, or a file of the user's."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QComboBox, QCompleter, QHBoxLayout, QWidget

from ckpt_gui.core.families.known import KNOWN
from ckpt_gui.core.keys import safe_text
from ckpt_gui.gui.panels.parts import label
from ckpt_gui.gui.widgets.units import GRID, em

LEAST_EMS = 8  # width of the box where there is no room for more
OWN, FILE, FOLDER = range(3)  # the entries before the known models


class CompareBox(QWidget):
    """A combo that can be searched; a path may be typed, too.

    Signals:
        reference_wanted(name): Compare with it; empty for the checkpoint's own layout.
        file_wanted(), folder_wanted(): The user wants to choose a checkpoint or a config.
    """

    reference_wanted = Signal(str)
    file_wanted = Signal()
    folder_wanted = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._shown = ""
        self.combo = self._make_combo()
        self.name = label(self.tr("Compare with"), muted=True)
        self.name.setBuddy(self.combo)
        line = QHBoxLayout(self)
        line.setContentsMargins(GRID, 0, 0, 0)
        line.setSpacing(GRID)
        line.addWidget(self.name)
        line.addWidget(self.combo)
        self.combo.activated.connect(self._on_chosen)
        edit = self.combo.lineEdit()
        assert edit is not None
        edit.returnPressed.connect(self._on_typed)
        edit.editingFinished.connect(self._restore)
        self.show_reference("")

    def _make_combo(self) -> QComboBox:
        combo = QComboBox()
        combo.setEditable(True)
        combo.setInsertPolicy(QComboBox.InsertPolicy.NoInsert)
        combo.setAccessibleName(self.tr("Compare with"))
        combo.setToolTip(self.tr("What the keys are held against: type to search the published models, or a path"))
        combo.setMinimumContentsLength(18)
        combo.setMinimumWidth(em(combo, LEAST_EMS))
        combo.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        combo.addItem(self.tr("its own layout"))
        combo.addItem(self.tr("a file: checkpoint or config.json…"))
        combo.addItem(self.tr("a folder…"))
        combo.insertSeparator(combo.count())
        for model in KNOWN:
            combo.addItem(model.name, model.name)
        completer = QCompleter(combo.model(), combo)
        completer.setFilterMode(Qt.MatchFlag.MatchContains)
        completer.setCaseSensitivity(Qt.CaseSensitivity.CaseInsensitive)
        completer.setCompletionMode(QCompleter.CompletionMode.PopupCompletion)
        combo.setCompleter(completer)
        return combo

    def show_reference(self, name: str) -> None:
        """Show what the checkpoint is compared with; empty for its own layout."""
        self._shown = name
        place = self.combo.findData(name) if name else OWN
        self.combo.setCurrentIndex(place)
        self.combo.setEditText(self.combo.itemText(place) if place >= 0 else safe_text(name, 300))

    def _on_chosen(self, place: int) -> None:
        if place == FILE:
            self.show_reference(self._shown)
            self.file_wanted.emit()
        elif place == FOLDER:
            self.show_reference(self._shown)
            self.folder_wanted.emit()
        else:
            self._want("" if place == OWN else str(self.combo.itemData(place)))

    def _on_typed(self) -> None:
        text = self.combo.currentText().strip()
        if self.combo.findText(text, Qt.MatchFlag.MatchFixedString) < 0:  # else `activated` tells
            self._want(text)

    def _want(self, name: str) -> None:
        if name != self._shown:
            self._shown = name
            self.reference_wanted.emit(name)

    def _restore(self) -> None:
        """Show again what is compared with, where nothing was chosen."""
        if not self.combo.hasFocus():
            self.show_reference(self._shown)
