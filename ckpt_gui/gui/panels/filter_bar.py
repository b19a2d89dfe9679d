"""What stands above the key tree: the filter box, the expected layout, the modes, and a chip for each state."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QButtonGroup, QComboBox, QHBoxLayout, QToolButton, QVBoxLayout, QWidget

from ckpt_gui.core.diff import STATES
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.plan import Plan
from ckpt_gui.core.text import plural
from ckpt_gui.gui.language import said
from ckpt_gui.gui.layouts import LAYOUTS
from ckpt_gui.gui.models.adapter_rows import is_possible
from ckpt_gui.gui.models.tree_columns import Mode
from ckpt_gui.gui.panels.filter_box import FilterBox
from ckpt_gui.gui.panels.filter_builder import FilterBuilder
from ckpt_gui.gui.panels.parts import FlowLayout, button, label
from ckpt_gui.gui.panels.state_paint import StateChip
from ckpt_gui.gui.theme import Theme
from ckpt_gui.gui.widgets.units import GRID, plain_label
from ckpt_gui.gui.wording import count_text

MODES: tuple[Mode, ...] = ("tree", "flat", "families")
NARROW_EMS = 28  # width below which the modes stand below the filter
ROOMY_EMS = 34  # width from which on the layout has a label
ALWAYS = ("missing", "extra")  # states whose chip is there even at 0


class FilterBar(QWidget):
    """Shows what is asked for; what follows from it is the tree panel's business.

    Signals:
        states_chosen(states): Chips were switched: these are on.
        layout_chosen(name): Another layout is expected.
        mode_chosen(mode): Another way to show the keys.
        all_wanted(): Not only some tensors any more.
    """

    states_chosen = Signal(list)
    layout_chosen = Signal(str)
    mode_chosen = Signal(str)
    all_wanted = Signal()

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self.box = FilterBox()
        self.wrong_line = plain_label()
        self.builder = FilterBuilder(self.box, self)
        self.dtypes: frozenset[str] = frozenset()  # of the tensors there are
        self.build_button = self._make_build()
        self.layout_combo = self._make_combo()
        self._wanted = label(self.tr("Expected in"), muted=True)
        self._wanted.setBuddy(self.layout_combo)
        self._wanted.setMinimumWidth(1)  # it gives way first, see resizeEvent
        self.modes = QButtonGroup(self)
        self.chips: dict[str, StateChip] = {}
        self.counter = label(muted=True)
        self.only_button = button("", kind="quiet", tip=self.tr("Show all keys again"))
        self.show_only(None)
        self._say_wrong("")
        self._lay_out()
        self.box.wrong.connect(self._say_wrong)
        theme.changed.connect(lambda: self._say_wrong(self.box.told))
        self.layout_combo.activated.connect(lambda place: self.layout_chosen.emit(self.layout_combo.itemData(place)))
        self.modes.idClicked.connect(lambda place: self.mode_chosen.emit(MODES[place]))
        self.only_button.clicked.connect(self.all_wanted)

    def _make_build(self) -> QToolButton:
        made = QToolButton()
        made.setText("▾")
        made.setProperty("kind", "segment")
        made.setToolTip(self.tr("Build a filter: choose state, type, layers, shape and size from fields"))
        made.setAccessibleName(self.tr("Build a filter"))
        made.clicked.connect(lambda: self.builder.open_below(made, self.dtypes))
        return made

    def _make_combo(self) -> QComboBox:
        combo = QComboBox()
        combo.setAccessibleName(self.tr("Expected in"))
        combo.setToolTip(self.tr("The layout that the keys are compared with, and that an export has"))
        combo.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        combo.setMinimumContentsLength(9)
        combo.setMinimumWidth(5 * self.fontMetrics().height())  # where the window is narrow
        for name, title in LAYOUTS.items():
            combo.addItem(said(title), name)
        return combo

    def _lay_out(self) -> None:
        top = self._top = QHBoxLayout()
        top.setSpacing(GRID)
        asked = QHBoxLayout()
        asked.setSpacing(0)
        asked.addWidget(self.box, 1)
        asked.addWidget(self.build_button)
        top.addLayout(asked, 1)
        top.addWidget(self._wanted)
        top.addWidget(self.layout_combo)
        self._mode_box = self._make_modes()
        top.addWidget(self._mode_box)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(GRID)
        layout.addLayout(top)
        layout.addWidget(self.wrong_line)
        layout.addWidget(self._make_chips())
        layout.addWidget(self.only_button, 0, Qt.AlignmentFlag.AlignLeft)

    def _make_modes(self) -> QWidget:
        made_box = QWidget()
        box = QHBoxLayout(made_box)
        box.setContentsMargins(0, 0, 0, 0)
        box.setSpacing(0)
        titles = (
            (self.tr("Tree"), self.tr("Keys by their parts (Ctrl+1)")),
            (self.tr("Flat"), self.tr("Whole keys, one below the other (Ctrl+2)")),
            (self.tr("Families"), self.tr("Keys that differ in numbers only as one line: layers.{0-31} (Ctrl+3)")),
        )
        for mode, (text, tip) in enumerate(titles):
            made = QToolButton()
            made.setText(text)
            made.setCheckable(True)
            made.setToolTip(tip)
            made.setAccessibleName(self.tr("Show as {}").format(text.lower()))
            made.setProperty("kind", "segment")
            self.modes.addButton(made, mode)
            box.addWidget(made)
        self.modes.button(0).setChecked(True)
        return made_box

    def _make_chips(self) -> QWidget:
        strip = QWidget()
        flow = self._flow = FlowLayout(strip, spacing=GRID // 2 + 2)
        for state in STATES:
            chip = StateChip(state, self._theme)
            chip.clicked.connect(self._on_chip)
            flow.addWidget(chip)
            self.chips[state] = chip
        self.counter.setContentsMargins(GRID // 2, GRID // 2 + 1, 0, 0)  # on the line of the chips' texts
        flow.addWidget(self.counter)
        return strip

    def _on_chip(self) -> None:
        self.states_chosen.emit([state for state, chip in self.chips.items() if chip.isChecked()])

    def _say_wrong(self, sentence: str) -> None:
        """Say below the box why it is framed; a frame in red alone tells nothing."""
        text = f"✗ {safe_text(sentence, 300)}" if sentence else ""
        self.wrong_line.setText(text)
        self.wrong_line.setAccessibleName(text)
        self.wrong_line.setStyleSheet(f"color: {self._theme.color('red').name()};")
        self.wrong_line.setVisible(bool(text))

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Leave out the label of the layout where it would be cut; where there is less, put the modes below."""
        super().resizeEvent(event)
        ems = self.width() / self.fontMetrics().height()
        self._wanted.setVisible(ems >= ROOMY_EMS)
        below = self._flow.indexOf(self._mode_box) >= 0
        if below != (ems < NARROW_EMS):
            old, new = (self._flow, self._top) if below else (self._top, self._flow)
            old.removeWidget(self._mode_box)
            new.addWidget(self._mode_box)

    # ------------------------------------------------------------------------------------------------------- showing

    def show_layout(self, plan: Plan, layout: str) -> None:
        """Show which layout is expected, and which ones could be."""
        combo = self.layout_combo
        combo.setCurrentIndex(combo.findData(layout))
        for place in range(combo.count()):
            name = combo.itemData(place)
            combo.model().item(place).setEnabled(is_possible(plan, name))  # type: ignore[attr-defined]

    def show_counts(self, counts: Mapping[str, int], states: Collection[str]) -> None:
        """Show how many tensors are in each state, and which states are asked for."""
        for state, chip in self.chips.items():
            chip.set_count(counts.get(state, 0))
            chip.setChecked(state in states)
            chip.setVisible(bool(chip.count) or state in ALWAYS or state in states)

    def show_hits(self, hits: int, total: int, *, filtered: bool) -> None:
        """Show how many tensors there are, and how many of them are shown."""
        self.counter.setText(self.tr("{} of {}").format(count_text(hits), count_text(total)))
        self.counter.setVisible(filtered)
        self.box.setPlaceholderText(self.tr("Filter {}").format(said(plural(total, "tensor"))))

    def show_mode(self, mode: Mode) -> None:
        """Show in which way the keys are shown."""
        self.modes.button(MODES.index(mode)).setChecked(True)

    def show_only(self, title: str | None) -> None:
        """Say that only some tensors are shown, and what they have in common; None for all."""
        words = safe_text(title or "", 80)
        self.only_button.setText(self.tr("Only {}   ✕").format(words))
        self.only_button.setAccessibleName(self.tr("Stop showing only {}").format(words))
        self.only_button.setVisible(title is not None)
