"""The card over the batch table that says what all checkpoints shall become, and where the new folders go."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QComboBox, QFileDialog, QHBoxLayout, QLabel, QPushButton, QWidget

from ckpt_gui.core.export import GB, Target
from ckpt_gui.gui.layouts import LAYOUTS
from ckpt_gui.gui.panels.parts import Card, ElidedLabel, FlowLayout, button
from ckpt_gui.gui.widgets.units import GRID, em

SIZES = (1, 2, 5, 10, 20, 50)
NO_LIMIT = 1 << 62


class BatchTargetCard(Card):
    """The choices that hold for every checkpoint of a batch.

    Signals:
        target_wanted(changes): Fields of the target, as a dict.
        parent_wanted(folder): Where the new folders go; empty for beside each checkpoint.
        plan_wanted(path): A plan file whose decisions hold for all; empty to forget it.
    """

    target_wanted = Signal(dict)
    parent_wanted = Signal(str)
    plan_wanted = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent, padding=int(1.5 * GRID))
        tr = self.tr
        shown = [(title, name) for name, title in LAYOUTS.items() if name != "same"]
        self.layout_box = _box([*shown, (tr("As it is, wrappers taken off"), "same")])
        self.dtype_box = _box([(tr("Keep"), "keep"), ("bf16", "bf16"), ("fp16", "fp16"), ("fp32", "fp32")])
        sizes = [(tr("at most {n} GB").format(n=n), n * GB) for n in SIZES]
        self.size_box = _box([*sizes, (tr("one file"), NO_LIMIT)])
        self.place = ElidedLabel()
        self.place.setMinimumWidth(em(self, 12))
        self.choose = button(tr("Choose…"), tip=tr("Put all new folders into one folder"))
        self.choose.setAccessibleName(tr("Choose the folder for all exports"))
        self.beside = button(tr("Beside each"), kind="quiet", tip=tr("Put each new folder beside its checkpoint"))
        self.plan = ElidedLabel()
        self.load = button(tr("Load plan…"), tip=tr("Take the decisions of a plan file for every checkpoint"))
        self.forget = button(tr("Forget plan"), kind="quiet", tip=tr("Decide each checkpoint on its own again"))
        self._lay_out()
        for box, field in ((self.layout_box, "layout"), (self.dtype_box, "dtype"), (self.size_box, "max_shard_bytes")):
            box.activated.connect(lambda _, box=box, field=field: self.target_wanted.emit({field: box.currentData()}))
        self.choose.clicked.connect(self._choose)
        self.beside.clicked.connect(lambda: self.parent_wanted.emit(""))
        self.load.clicked.connect(self._load)
        self.forget.clicked.connect(lambda: self.plan_wanted.emit(""))

    def _lay_out(self) -> None:
        tr = self.tr
        choices = FlowLayout(spacing=int(1.5 * GRID))
        named = ((tr("&Layout"), self.layout_box), (tr("&Type"), self.dtype_box), (tr("&Files"), self.size_box))
        for text, box in named:
            choices.addWidget(_named(text, box))
        self.body.addLayout(choices)
        self._add_line(tr("&Into"), self.place, self.choose, self.beside)
        self._add_line(tr("&Plan"), self.plan, self.load, self.forget)

    def _add_line(self, text: str, shown: ElidedLabel, first: QPushButton, second: QPushButton) -> None:
        """Add what is chosen, with the two buttons that choose it."""
        line = QHBoxLayout()
        line.setSpacing(GRID)
        name = QLabel(text)
        name.setBuddy(first)
        line.addWidget(name)
        line.addWidget(shown, 1)
        line.addWidget(first)
        line.addWidget(second)
        self.body.addLayout(line)

    def show_target(self, target: Target, folder: str, plan: str, *, enabled: bool) -> None:
        """Show the choices; while something is written they stay as they are."""
        for box, value in (
            (self.layout_box, target.layout),
            (self.dtype_box, target.dtype),
            (self.size_box, target.max_shard_bytes),
        ):
            box.setCurrentIndex(box.findData(value))
            box.setEnabled(enabled)
        self.place.set_text(folder or self.tr("a new folder beside each checkpoint"))
        self.beside.setVisible(bool(folder))
        self.plan.set_text(plan or self.tr("none: each is decided by what is in it"))
        self.forget.setVisible(bool(plan))
        self.forget.setEnabled(enabled)
        self.load.setEnabled(enabled)
        self.choose.setEnabled(enabled)
        self.beside.setEnabled(enabled)

    def _choose(self) -> None:
        folder = QFileDialog.getExistingDirectory(self, self.tr("Folder for all exports"))
        if folder:
            self.parent_wanted.emit(folder)

    def _load(self) -> None:
        path, _ = QFileDialog.getOpenFileName(self, self.tr("Load a plan"), "", "JSON (*.json)")
        if path:
            self.plan_wanted.emit(path)


def _box(choices: Sequence[tuple[str, object]]) -> QComboBox:
    made = QComboBox()
    for text, value in choices:
        made.addItem(text, value)
    return made


def _named(text: str, box: QComboBox) -> QWidget:
    """Return a box with its name in front, kept together where a line is full."""
    pair = QWidget()
    line = QHBoxLayout(pair)
    line.setContentsMargins(0, 0, 0, 0)
    line.setSpacing(GRID)
    name = QLabel(text)
    name.setBuddy(box)
    box.setAccessibleName(text.replace("&", ""))
    line.addWidget(name)
    line.addWidget(box)
    return pair
