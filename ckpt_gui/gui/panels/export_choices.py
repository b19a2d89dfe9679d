"""The card of the export dialog that says what to write: layout, container, type, tied pair, files, head counts."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QSignalBlocker, Signal
from PySide6.QtGui import QStandardItemModel
from PySide6.QtWidgets import QComboBox, QDoubleSpinBox, QGridLayout, QHBoxLayout, QLabel, QSpinBox, QWidget

from ckpt_gui.core.export import GB
from ckpt_gui.core.families.layouts import title_of
from ckpt_gui.gui.language import said
from ckpt_gui.gui.layouts import LAYOUTS
from ckpt_gui.gui.models.adapter_rows import is_possible
from ckpt_gui.gui.panels.parts import Card, button
from ckpt_gui.gui.snapshot import Snapshot
from ckpt_gui.gui.widgets.units import GRID, em, heading, plain_label
from ckpt_gui.gui.wording import human_bytes

SHARDS = (1, 2, 5, 10, 20, 50)
NO_LIMIT = 1 << 62
Choice = tuple[str, object]


class ChoicesCard(Card):
    """Shows the decisions of a snapshot, and says what the user would rather have.

    Signals:
        target_wanted(changes), policy_wanted(changes): Fields of the target or the policy, as a dict.
    """

    target_wanted = Signal(dict)
    policy_wanted = Signal(dict)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._make_choices()
        self._make_heads()
        self._make_numbers()
        self._lay_out()
        self._connect()

    def _make_choices(self) -> None:
        tr = self.tr
        self.layout_box = _combo(tr("Layout"), [
            *((title, name) for name, title in LAYOUTS.items() if name != "same"),
            (tr("As it is, wrappers taken off"), "same"),
        ])  # fmt: skip
        self.container_box = _combo(
            tr("Container"), [(tr("safetensors"), "safetensors"), (tr("PyTorch file"), "torch")]
        )
        self.dtype_box = _combo(tr("Type"), [
            (tr("Keep"), "keep"), ("bf16", "bf16"), ("fp16", "fp16"), ("fp32", "fp32"),
        ])  # fmt: skip
        self.tie_box = _combo(tr("Tied pair"), [
            (tr("As the layout wants it"), "auto"), (tr("Keep a stored head"), "keep"),
            (tr("Leave out an equal head"), "drop"), (tr("Always write a head"), "copy"),
            (tr("The model has no head"), "none"),
        ])  # fmt: skip
        sizes: list[Choice] = [(tr("at most {n} GB").format(n=n), n * GB) for n in SHARDS]
        self.shard_box = _combo(tr("Files"), [*sizes, (tr("one file"), NO_LIMIT)])
        self.layout_note = plain_label(muted=True)

    def _make_heads(self) -> None:
        """Make the row that asks for head counts, where nothing tells them."""
        self.heads_row = QWidget()
        row = QHBoxLayout(self.heads_row)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(GRID)
        self.heads_spin, self.kv_heads_spin = QSpinBox(), QSpinBox()
        for text, spin in (
            (self.tr("&Query heads"), self.heads_spin),
            (self.tr("&Key/value heads"), self.kv_heads_spin),
        ):
            spin.setRange(0, 4096)  # 0 is "not known": a count is never guessed
            spin.setSpecialValueText("–")
            spin.setAccessibleName(text.replace("&", ""))
            label = QLabel(text)
            label.setBuddy(spin)
            row.addWidget(label)
            row.addWidget(spin)
            row.addSpacing(GRID)
        self.heads_button = button(self.tr("Use these"), tip=self.tr("Reorder the rows of q and k with these counts"))
        self.heads_button.setEnabled(False)
        row.addWidget(self.heads_button)
        row.addStretch(1)

    def _make_numbers(self) -> None:
        """Make the fields for tensor-parallel ranks and for the alpha of an adapter; 0 is what the file says."""
        self.ranks_spin, self.alpha_spin = QSpinBox(), QDoubleSpinBox()
        self.ranks_spin.setRange(0, 64)
        self.ranks_spin.setSpecialValueText(self.tr("one file"))
        self.ranks_spin.setAccessibleName(self.tr("Tensor-parallel files"))
        self.ranks_spin.setToolTip(self.tr("Files for as many ranks: consolidated.00.pth, .01.pth, …"))
        self.alpha_spin.setRange(0, 65536)
        self.alpha_spin.setDecimals(2)
        self.alpha_spin.setSpecialValueText(self.tr("as the adapter says"))
        self.alpha_spin.setAccessibleName(self.tr("Alpha of the adapter"))
        self.alpha_spin.setToolTip(self.tr("As it was in training; the tensors do not tell"))
        for spin in (self.ranks_spin, self.alpha_spin):
            spin.setKeyboardTracking(False)  # not with every digit

    def _lay_out(self) -> None:
        self.body.addWidget(heading(self.tr("What to write")))
        grid = QGridLayout()
        grid.setHorizontalSpacing(2 * GRID)
        grid.setVerticalSpacing(GRID)
        for column in (1, 3):
            grid.setColumnStretch(column, 1)
        grid.setColumnMinimumWidth(2, em(self, 3))
        tr = self.tr
        self._labels: dict[QWidget, QLabel] = {}
        rows = (
            (tr("&Layout"), self.layout_box, 0, 0, 3),
            (tr("&Container"), self.container_box, 2, 0, 1),
            (tr("&Type"), self.dtype_box, 2, 2, 1),
            (tr("Tied &pair"), self.tie_box, 3, 0, 1),
            (tr("&Files"), self.shard_box, 3, 2, 1),
            (tr("&Ranks"), self.ranks_spin, 3, 2, 1),
            (tr("&Alpha"), self.alpha_spin, 5, 0, 1),
        )
        for text, box, row, column, span in rows:
            label = QLabel(text)
            label.setBuddy(box)
            self._labels[box] = label
            grid.addWidget(label, row, column)
            grid.addWidget(box, row, column + 1, 1, span)
        grid.addWidget(self.layout_note, 1, 1, 1, 3)
        grid.addWidget(self.heads_row, 4, 0, 1, 4)
        self.body.addLayout(grid)

    def _connect(self) -> None:
        for box, field in (
            (self.dtype_box, "dtype"),
            (self.shard_box, "max_shard_bytes"),
            (self.container_box, "container"),
        ):
            box.activated.connect(lambda _, box=box, field=field: self.target_wanted.emit({field: box.currentData()}))
        self.layout_box.activated.connect(
            lambda _: self.target_wanted.emit(
                {"layout": self.layout_box.currentData(), "container": None, "model_parallel": None}
            )
        )
        self.tie_box.activated.connect(lambda _: self.policy_wanted.emit({"tie": self.tie_box.currentData()}))
        self.heads_button.clicked.connect(self._on_heads)
        self.ranks_spin.valueChanged.connect(lambda n: self.target_wanted.emit({"model_parallel": n or None}))
        self.alpha_spin.valueChanged.connect(lambda a: self.policy_wanted.emit({"lora_alpha": a or None}))
        for spin in (self.heads_spin, self.kv_heads_spin):
            spin.valueChanged.connect(self._on_count)

    def _on_count(self, _: int) -> None:
        self.heads_button.setEnabled(bool(self.heads_spin.value() and self.kv_heads_spin.value()))

    def _on_heads(self) -> None:
        self.policy_wanted.emit({"heads": self.heads_spin.value(), "kv_heads": self.kv_heads_spin.value()})

    def show_snapshot(self, snapshot: Snapshot) -> None:
        """Show the decisions and what follows from them."""
        target, export = snapshot.decisions.target, snapshot.export
        items = self.layout_box.model()
        assert isinstance(items, QStandardItemModel)
        for number in range(self.layout_box.count()):
            name = self.layout_box.itemData(number)
            items.item(number).setEnabled(is_possible(snapshot.plan, name))
        _choose(self.layout_box, target.layout)
        _choose(self.container_box, export.container)
        _choose(self.dtype_box, target.dtype)
        _choose(self.tie_box, snapshot.decisions.policy.tie)
        self._show_shard(target.max_shard_bytes)
        self._show_row(self.container_box, target.layout != "same")
        self._show_row(self.shard_box, target.layout == "hf")
        self._show_numbers(snapshot)
        self._show_row(self.tie_box, snapshot.plan.tie.embedding is not None)
        adapter = snapshot.plan.adapter is not None
        self.layout_note.setText(said(self._about_adapter(target.layout) if adapter else self._about(target.layout)))
        self._show_heads(snapshot)

    def _show_heads(self, snapshot: Snapshot) -> None:
        policy = snapshot.decisions.policy
        asked = any(f.code == "heads-unknown" for f in snapshot.export.findings)
        self.heads_row.setVisible(asked or policy.heads is not None)
        if policy.heads is not None:
            self.heads_spin.setValue(policy.heads)
            self.kv_heads_spin.setValue(policy.kv_heads or policy.heads)

    def _show_numbers(self, snapshot: Snapshot) -> None:
        decisions, adapter = snapshot.decisions, snapshot.plan.adapter or snapshot.plan.merged
        with QSignalBlocker(self.ranks_spin), QSignalBlocker(self.alpha_spin):
            self.ranks_spin.setValue(decisions.target.model_parallel or 0)
            self.alpha_spin.setValue(decisions.policy.lora_alpha or 0.0)
        self._show_row(self.ranks_spin, decisions.target.layout == "meta" and snapshot.plan.adapter is None)
        self._show_row(self.alpha_spin, adapter is not None)

    def _show_row(self, box: QWidget, shown: bool) -> None:
        box.setVisible(shown)
        self._labels[box].setVisible(shown)

    def _show_shard(self, size: int) -> None:
        if self.shard_box.findData(size) < 0:
            self.shard_box.addItem(self.tr("at most {size}").format(size=human_bytes(size)), size)
        _choose(self.shard_box, size)

    def _about_adapter(self, layout: str) -> str:
        known = {
            "hf": self.tr("adapter_model.safetensors and adapter_config.json, as PEFT has them."),
            "torchtune": self.tr("adapter_model.pt, as torchtune has it."),
        }
        return known.get(layout) or self.tr("The names stay as they are.")

    def _about(self, layout: str) -> str:
        tr = self.tr
        known = {
            "hf": tr("A folder for transformers, vLLM and most other loaders."),
            "meta": tr("consolidated.00.pth and params.json, as Meta's own code reads them."),
            "torchtune": tr("One file under torchtune's names, to fine-tune on."),
            "same": tr("Names, order and container stay; only wrappers and what is no weight go."),
        }
        return known.get(layout) or tr("Under the names of {}.").format(title_of(layout))


def _combo(name: str, choices: Sequence[Choice]) -> QComboBox:
    box = QComboBox()
    box.setAccessibleName(name)
    for text, data in choices:
        box.addItem(said(text), data)
    return box


def _choose(box: QComboBox, data: object) -> None:
    index = box.findData(data)
    if index >= 0:
        box.setCurrentIndex(index)
