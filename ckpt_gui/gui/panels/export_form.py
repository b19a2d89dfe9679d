"""The first page of the export dialog: what to write, where, and what should be known before."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QDateTime, QLocale, Qt, Signal
from PySide6.QtGui import QStandardItemModel
from PySide6.QtWidgets import (
    QCheckBox,
    QComboBox,
    QFrame,
    QGridLayout,
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QScrollArea,
    QSpinBox,
    QVBoxLayout,
    QWidget,
)

from ckpt_gui.core.errors import Finding
from ckpt_gui.core.families.layouts import title_of
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.retarget import GB
from ckpt_gui.core.text import human_bytes
from ckpt_gui.gui.panels.export_check import Check
from ckpt_gui.gui.panels.parts import Card, button
from ckpt_gui.gui.session import Snapshot
from ckpt_gui.gui.theme import SEVERITY_STYLES, Theme
from ckpt_gui.gui.widgets.banner import Banner
from ckpt_gui.gui.widgets.scroll_body import ScrollBody
from ckpt_gui.gui.widgets.units import GRID, breakable, em, heading, plain_label, quoted
from ckpt_gui.gui.wording import LAYOUTS

SHARDS = (1, 2, 5, 10, 20, 50)
NO_LIMIT = 1 << 62
Choice = tuple[str, object]


class ExportForm(QScrollArea):
    """Shows the decisions of a snapshot, and says what the user would rather have.

    Signals:
        target_wanted(changes), policy_wanted(changes): Fields of the target or the policy, as a dict.
        folder_changed(text): Another folder was named.
        browse_requested(), base_requested(), base_dropped(): Buttons.
        overwrite_changed(): The consent to replace was given or taken back.
    """

    target_wanted = Signal(dict)
    policy_wanted = Signal(dict)
    folder_changed = Signal(str)
    browse_requested = Signal()
    base_requested = Signal()
    base_dropped = Signal()
    overwrite_changed = Signal()

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self.setWidgetResizable(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.banner = Banner(theme)
        self.banner.hide()
        self._blocking = False
        self._make_choices()
        self._make_heads()
        self._make_folder()
        self._make_base()
        self.findings = QVBoxLayout()
        self._lay_out()
        self._connect()

    # -------------------------------------------------------------------------------------------------------- making

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

    def _make_folder(self) -> None:
        self.folder_edit = QLineEdit()
        self.folder_edit.setAccessibleName(self.tr("Folder to write"))
        self.browse_button = button(self.tr("Browse…"), tip=self.tr("Choose another folder"))
        self.folder_note = plain_label(muted=True)
        self.overwrite_box = QCheckBox(self.tr("Replace what is there"))
        self.overwrite_box.hide()

    def _make_base(self) -> None:
        self.carried = plain_label()
        self.base_note = plain_label(muted=True)
        self.base_button = button(
            self.tr("Take from a folder…"),
            tip=self.tr("Carry config, tokenizer and generation files of another folder"),
        )
        self.drop_base_button = button(self.tr("Without"), kind="quiet", tip=self.tr("Carry nothing from that folder"))

    def _lay_out(self) -> None:
        body = ScrollBody()
        column = QVBoxLayout(body)
        column.setContentsMargins(2 * GRID, 2 * GRID, 2 * GRID, GRID)
        column.setSpacing(12)
        column.addWidget(self.banner)
        for card in (self._choices_card(), self._folder_card(), self._carried_card()):
            column.addWidget(card)
        self.findings_card = Card()
        self.findings_card.body.addWidget(heading(self.tr("Good to know")))
        self.findings.setSpacing(GRID)
        self.findings_card.body.addLayout(self.findings)
        column.addWidget(self.findings_card)
        column.addStretch(1)
        self.setWidget(body)

    def _choices_card(self) -> Card:
        card = Card()
        card.body.addWidget(heading(self.tr("What to write")))
        grid = QGridLayout()
        grid.setHorizontalSpacing(2 * GRID)
        grid.setVerticalSpacing(GRID)
        for column in (1, 3):
            grid.setColumnStretch(column, 1)
        grid.setColumnMinimumWidth(2, em(self, 3))
        tr = self.tr
        self._labels: dict[QComboBox, QLabel] = {}
        rows = (
            (tr("&Layout"), self.layout_box, 0, 0, 3),
            (tr("&Container"), self.container_box, 2, 0, 1),
            (tr("&Type"), self.dtype_box, 2, 2, 1),
            (tr("Tied &pair"), self.tie_box, 3, 0, 1),
            (tr("&Files"), self.shard_box, 3, 2, 1),
        )
        for text, box, row, column, span in rows:
            label = QLabel(text)
            label.setBuddy(box)
            self._labels[box] = label
            grid.addWidget(label, row, column)
            grid.addWidget(box, row, column + 1, 1, span)
        grid.addWidget(self.layout_note, 1, 1, 1, 3)
        grid.addWidget(self.heads_row, 4, 0, 1, 4)
        card.body.addLayout(grid)
        return card

    def _folder_card(self) -> Card:
        card = Card()
        card.body.addWidget(heading(self.tr("Where to")))
        row = QHBoxLayout()
        row.setSpacing(GRID)
        row.addWidget(self.folder_edit, 1)
        row.addWidget(self.browse_button)
        card.body.addLayout(row)
        card.body.addWidget(self.folder_note)
        card.body.addWidget(self.overwrite_box)
        return card

    def _carried_card(self) -> Card:
        card = Card()
        row = QHBoxLayout()
        row.addWidget(heading(self.tr("Beside the weights")), 1)
        row.addWidget(self.drop_base_button)
        row.addWidget(self.base_button)
        card.body.addLayout(row)
        card.body.addWidget(self.carried)
        card.body.addWidget(self.base_note)
        return card

    def _connect(self) -> None:
        for box, field in (
            (self.dtype_box, "dtype"),
            (self.shard_box, "max_shard_bytes"),
            (self.container_box, "container"),
        ):
            box.activated.connect(lambda _, box=box, field=field: self.target_wanted.emit({field: box.currentData()}))
        self.layout_box.activated.connect(
            lambda _: self.target_wanted.emit({"layout": self.layout_box.currentData(), "container": None})
        )
        self.tie_box.activated.connect(lambda _: self.policy_wanted.emit({"tie": self.tie_box.currentData()}))
        self.heads_button.clicked.connect(self._on_heads)
        for spin in (self.heads_spin, self.kv_heads_spin):
            spin.valueChanged.connect(self._on_count)
        self.folder_edit.textEdited.connect(self.folder_changed)
        self.browse_button.clicked.connect(self.browse_requested)
        self.base_button.clicked.connect(self.base_requested)
        self.drop_base_button.clicked.connect(self.base_dropped)
        self.overwrite_box.toggled.connect(self.overwrite_changed)

    def _on_count(self, _: int) -> None:
        self.heads_button.setEnabled(bool(self.heads_spin.value() and self.kv_heads_spin.value()))

    def _on_heads(self) -> None:
        self.policy_wanted.emit({"heads": self.heads_spin.value(), "kv_heads": self.kv_heads_spin.value()})

    # ------------------------------------------------------------------------------------------------------- showing

    def show_snapshot(self, snapshot: Snapshot) -> None:
        """Show the decisions and what follows from them."""
        target, export = snapshot.decisions.target, snapshot.export
        family = snapshot.plan.family
        items = self.layout_box.model()
        assert isinstance(items, QStandardItemModel)
        for number in range(self.layout_box.count()):
            name = self.layout_box.itemData(number)
            possible = name == "same" or (family is not None and family.layout(name) is not None)
            items.item(number).setEnabled(possible)
        _choose(self.layout_box, target.layout)
        _choose(self.container_box, export.container)
        _choose(self.dtype_box, target.dtype)
        _choose(self.tie_box, snapshot.decisions.policy.tie)
        self._show_shard(target.max_shard_bytes)
        self._show_row(self.container_box, target.layout != "same")
        self._show_row(self.shard_box, target.layout == "hf")
        self._show_row(self.tie_box, snapshot.plan.tie.embedding is not None)
        self.layout_note.setText(self._about(target.layout))
        self._show_heads(snapshot)
        self._show_carried(snapshot)
        self._show_findings(export.findings)

    def _show_heads(self, snapshot: Snapshot) -> None:
        policy = snapshot.decisions.policy
        asked = any(f.code == "heads-unknown" for f in snapshot.export.findings)
        self.heads_row.setVisible(asked or policy.heads is not None)
        if policy.heads is not None:
            self.heads_spin.setValue(policy.heads)
            self.kv_heads_spin.setValue(policy.kv_heads or policy.heads)

    def _show_row(self, box: QComboBox, shown: bool) -> None:
        box.setVisible(shown)
        self._labels[box].setVisible(shown)

    def _show_shard(self, size: int) -> None:
        if self.shard_box.findData(size) < 0:
            self.shard_box.addItem(self.tr("at most {size}").format(size=human_bytes(size)), size)
        _choose(self.shard_box, size)

    def _about(self, layout: str) -> str:
        tr = self.tr
        known = {
            "hf": tr("A folder for transformers, vLLM and most other loaders."),
            "meta": tr("consolidated.00.pth and params.json, as Meta's own code reads them."),
            "torchtune": tr("One file under torchtune's names, to fine-tune on."),
            "same": tr("Names, order and container stay; only wrappers and what is no weight go."),
        }
        return known.get(layout) or tr("Under the names of {}.").format(title_of(layout))

    def _show_carried(self, snapshot: Snapshot) -> None:
        export, base = snapshot.export, snapshot.decisions.target.base
        written = [self.tr("{name} (written anew)").format(name=safe_text(name)) for name in export.texts]
        names = [*written, *(safe_text(name) for name in export.carried)]
        self.carried.setText(
            ", ".join(names) if names else self.tr("Nothing: no config and no tokenizer lie beside the source.")
        )
        folder = base.folder if base else None
        self.base_note.setText(
            self.tr("Filled up from {folder}").format(folder=breakable(safe_text(folder))) if folder else ""
        )
        self.base_note.setVisible(bool(folder))
        self.drop_base_button.setVisible(bool(folder))

    def _show_findings(self, findings: Sequence[Finding]) -> None:
        while (item := self.findings.takeAt(0)) is not None:
            row = item.widget()
            if row is not None:
                row.hide()
                row.deleteLater()
        rest = [finding for finding in findings if not finding.blocking]
        for finding in rest:
            self.findings.addWidget(self._finding_row(finding))
        self.findings_card.setVisible(bool(rest))
        self._show_blocking([finding for finding in findings if finding.blocking])

    def _show_blocking(self, findings: Sequence[Finding]) -> None:
        """Say at the top what stands in the way."""
        if findings:
            words = [quoted(f"{f.message} {self._fix(f)}".strip()) for f in findings[1:]]
            detail = "\n".join([quoted(self._fix(findings[0])), *words]).strip()
            self.banner.show_text("red", "✗", quoted(findings[0].message), detail)
        self._blocking = bool(findings)
        self.banner.setVisible(self._blocking)

    def say(self, role: str, glyph: str, title: str, detail: str) -> None:
        """Say how the last attempt ended, unless something blocks the next one."""
        if not self._blocking:
            self.banner.show_text(role, glyph, title, detail)
            self.banner.show()
            self.ensureWidgetVisible(self.banner)

    def _finding_row(self, finding: Finding) -> QWidget:
        glyph, word, role = SEVERITY_STYLES[finding.severity]
        row = QWidget()
        box = QHBoxLayout(row)
        box.setContentsMargins(0, 0, 0, 0)
        box.setSpacing(GRID)
        mark = plain_label(glyph, wrap=False)
        mark.setStyleSheet(f"color: {self._theme.color(role).name()}; font-weight: 600;")
        mark.setFixedWidth(em(self, 1.1))
        mark.setAccessibleName(word)
        mark.setToolTip(word)
        texts = QVBoxLayout()
        texts.setSpacing(2)
        texts.addWidget(plain_label(quoted(finding.message)))
        fix = self._fix(finding)
        if fix:
            texts.addWidget(plain_label(quoted(fix), muted=True))
        box.addWidget(mark, 0, Qt.AlignmentFlag.AlignTop)
        box.addLayout(texts, 1)
        row.setAccessibleName(f"{word}: {finding.message}")
        return row

    def _fix(self, finding: Finding) -> str:
        """Say what to do about a finding, by the buttons of this dialog where it has them."""
        if finding.code in ("config-missing", "tokenizer-missing"):
            return self.tr("Use “Take from a folder…” above to carry them along.")
        if finding.code == "heads-unknown":
            return self.tr("Give the head counts below, or open the checkpoint with its config.json.")
        return finding.fix or ""

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
        self.folder_note.setText(text)
        self.folder_note.setStyleSheet(f"color: {self._theme.color(role).name()};")


def _combo(name: str, choices: Sequence[Choice]) -> QComboBox:
    box = QComboBox()
    box.setAccessibleName(name)
    for text, data in choices:
        box.addItem(text, data)
    return box


def _choose(box: QComboBox, data: object) -> None:
    index = box.findData(data)
    if index >= 0:
        box.setCurrentIndex(index)
