"""The fix plan: every step that an export takes, with its evidence, before anything is written.

Steps that the export can do without are ticked off here, which makes another plan; required ones say why they are. What
stands in the way comes first, in red, with what to do about it.
"""

from __future__ import annotations

import dataclasses

from PySide6.QtCore import QSignalBlocker, Qt, QTimer, Signal
from PySide6.QtGui import QBrush, QGuiApplication, QResizeEvent
from PySide6.QtWidgets import (
    QAbstractItemView,
    QHBoxLayout,
    QHeaderView,
    QPushButton,
    QSplitter,
    QTreeWidget,
    QTreeWidgetItem,
    QVBoxLayout,
    QWidget,
)

from ckpt_gui.core.errors import Finding
from ckpt_gui.core.keys import safe_text, template
from ckpt_gui.core.normalise import normalise
from ckpt_gui.core.plan import Step
from ckpt_gui.core.retarget import Export, retarget
from ckpt_gui.gui.fix_command import fix_command, unsayable
from ckpt_gui.gui.panels.parts import tip_text
from ckpt_gui.gui.session import Session, Snapshot
from ckpt_gui.gui.theme import Theme
from ckpt_gui.gui.widgets.check_tree import CheckTree
from ckpt_gui.gui.widgets.units import GRID, em, heading, plain_label, quoted

CHECK, STEP, COUNT, VALUES, SURE, EVIDENCE = range(6)
EXAMPLES = 6
KEYS_SHOWN = 200
ROOMY = 52  # ems from which on the list shows the evidence too
# Steps that the user asked for: to tick one off is to take the wish back.
WISHES = ("cast", "drop")


class PlanPanel(QWidget):
    """The rows of the plan, examples of the selected one, and the buttons that act on all.

    Signals:
        step_selected(keys): The tensors of the selected row, as full keys; empty for all.
        export_requested(): The user wants to export.
    """

    step_selected = Signal(tuple)
    export_requested = Signal()

    def __init__(self, session: Session, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._session, self._theme = session, theme
        self._rows: list[Step | Finding] = []
        self._ticked: list[str] = []
        self._later = QTimer(self)
        self._later.setSingleShot(True)
        self._later.setInterval(0)
        self.tree = self._make_tree()
        self.title, self.evidence, self.reason = heading(""), plain_label(), plain_label(muted=True)
        self.examples = self._make_examples()
        self.summary = plain_label(wrap=False)
        self.copy_button = QPushButton(self.tr("Copy command"))
        self.export_button = QPushButton(self.tr("Fix && export…"))
        self.export_button.setProperty("kind", "primary")
        self._lay_out()
        self.tree.itemChanged.connect(self._on_ticked)
        self._later.timeout.connect(self._act_on_ticks)
        self.split.splitterMoved.connect(self._fit_columns)
        self.tree.itemSelectionChanged.connect(self._on_selected)
        self.copy_button.clicked.connect(self._copy_command)
        self.export_button.clicked.connect(self.export_requested)
        session.changed.connect(self._show)
        session.closed.connect(self._on_closed)
        theme.changed.connect(self._on_theme)
        self._show(session.snapshot)

    # -------------------------------------------------------------------------------------------------------- making

    def _make_tree(self) -> CheckTree:
        tree = CheckTree(self._theme)
        tree.setAccessibleName(self.tr("Steps of the fix plan"))
        tr = self.tr
        tree.setHeaderLabels(["", tr("Step"), tr("Tensors"), tr("Values"), tr("Sure"), tr("Evidence")])
        tree.setRootIsDecorated(False)
        tree.setUniformRowHeights(True)
        tree.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        tree.setTextElideMode(Qt.TextElideMode.ElideRight)
        header = tree.header()
        header.setStretchLastSection(False)
        tree.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        header.setMinimumSectionSize(em(tree, 1.6))
        for column, width in ((CHECK, 1.9), (COUNT, 4.6), (VALUES, 4.6), (SURE, 4.6)):
            header.resizeSection(column, em(tree, width))
        header.setSectionResizeMode(CHECK, QHeaderView.ResizeMode.Fixed)
        for column in (STEP, EVIDENCE):
            header.setSectionResizeMode(column, QHeaderView.ResizeMode.Stretch)
        tree.headerItem().setTextAlignment(COUNT, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        return tree

    def _make_examples(self) -> QTreeWidget:
        tree = QTreeWidget()
        tree.setAccessibleName(self.tr("Examples of the selected step"))
        tree.setHeaderLabels([self.tr("Before"), self.tr("After")])
        tree.setRootIsDecorated(False)
        tree.setUniformRowHeights(True)
        tree.setSelectionMode(QAbstractItemView.SelectionMode.NoSelection)
        tree.setTextElideMode(Qt.TextElideMode.ElideMiddle)
        tree.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        tree.header().setSectionResizeMode(QHeaderView.ResizeMode.Stretch)
        return tree

    def _lay_out(self) -> None:
        detail = QWidget()
        column = QVBoxLayout(detail)
        column.setContentsMargins(GRID, 0, 0, 0)
        column.setSpacing(GRID // 2)
        self.title.setWordWrap(True)
        for label in (self.title, self.evidence, self.reason):
            column.addWidget(label)
        column.addSpacing(GRID // 2)
        column.addWidget(self.examples, 1)
        column.addStretch(0)
        self.split = split = QSplitter(Qt.Orientation.Horizontal)
        split.setChildrenCollapsible(False)
        split.addWidget(self.tree)
        split.addWidget(detail)
        split.setStretchFactor(0, 3)
        split.setStretchFactor(1, 2)
        split.setSizes([600, 400])
        foot = QHBoxLayout()
        foot.setSpacing(GRID)
        foot.addWidget(self.summary, 1)
        foot.addWidget(self.copy_button)
        foot.addWidget(self.export_button)
        box = QVBoxLayout(self)
        box.setContentsMargins(GRID, GRID, GRID, GRID)
        box.setSpacing(GRID)
        box.addWidget(split, 1)
        box.addLayout(foot)

    # ------------------------------------------------------------------------------------------------------- showing

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Give the steps the room of their evidence where there is little: it stands beside them anyway."""
        super().resizeEvent(event)
        self._fit_columns()

    def _fit_columns(self, *_: int) -> None:
        self.tree.setColumnHidden(EVIDENCE, self.split.sizes()[0] < em(self, ROOMY))

    def _on_closed(self) -> None:
        self._show(None)

    def _on_theme(self) -> None:
        self._show(self._session.snapshot)

    def _show(self, snapshot: Snapshot | None) -> None:
        chosen = self._chosen()
        with QSignalBlocker(self.tree):
            self.tree.clear()
            self._rows = [*snapshot.export.blocked, *all_steps(snapshot)] if snapshot else []
            for row in self._rows:
                made = self._finding_item(row) if isinstance(row, Finding) else self._step_item(row, snapshot)
                self.tree.addTopLevelItem(made)
            again = next((n for n, row in enumerate(self._rows) if _name(row) == chosen), None)
            item = self.tree.topLevelItem(again) if again is not None else None
            if item is not None:
                self.tree.setCurrentItem(item)
        for button in (self.copy_button, self.export_button):
            button.setEnabled(snapshot is not None)
        self._show_summary(snapshot)
        self._show_detail()

    def _step_item(self, step: Step, snapshot: Snapshot | None) -> QTreeWidgetItem:
        tr = self.tr
        values = tr("change") if step.changes_values else tr("same")
        sure = tr("certain") if step.certain else tr("likely")
        item = QTreeWidgetItem(
            ["", quoted(step.title), f"{step.count:,}", values, sure, _sentence(quoted(step.evidence))]
        )
        skipped = snapshot is not None and step.id in snapshot.decisions.policy.skip
        item.setCheckState(CHECK, Qt.CheckState.Unchecked if skipped else Qt.CheckState.Checked)
        flags = Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemIsSelectable
        item.setFlags(flags | Qt.ItemFlag.ItemIsUserCheckable if _can_be_left(step) else flags)
        item.setToolTip(CHECK, self._why(step))
        item.setToolTip(STEP, tip_text(step.title))
        item.setToolTip(EVIDENCE, tip_text(step.evidence, 600))
        item.setTextAlignment(COUNT, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        for column, told, role in ((VALUES, step.changes_values, "violet"), (SURE, not step.certain, "orange")):
            item.setForeground(column, QBrush(self._theme.color(role if told else "muted")))
        item.setForeground(EVIDENCE, QBrush(self._theme.color("muted")))
        self._name_cells(item, tr("left out") if skipped else tr("done"))
        return item

    def _finding_item(self, finding: Finding) -> QTreeWidgetItem:
        text, fix = quoted(finding.message), quoted(finding.fix or "")
        count = f"{len(finding.keys):,}" if finding.keys else ""
        item = QTreeWidgetItem(["✗", text, count, "", self.tr("blocks"), fix])
        item.setFlags(Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemIsSelectable)
        item.setTextAlignment(COUNT, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        item.setTextAlignment(CHECK, Qt.AlignmentFlag.AlignCenter)
        ground = QBrush(self._theme.tint("red", 0.10))
        for column in range(self.tree.columnCount()):
            item.setForeground(column, QBrush(self._theme.color("red")))
            item.setBackground(column, ground)
            item.setToolTip(column, tip_text(f"{finding.message} {finding.fix or ''}".strip(), 600))
        font = item.font(STEP)
        font.setBold(True)
        item.setFont(STEP, font)
        self._name_cells(item, self.tr("blocks the export"))
        return item

    def _name_cells(self, item: QTreeWidgetItem, state: str) -> None:
        role = Qt.ItemDataRole.AccessibleTextRole
        item.setData(CHECK, role, state)
        item.setData(STEP, role, f"{item.text(STEP)}, {state}. {item.text(EVIDENCE)}")

    def _show_summary(self, snapshot: Snapshot | None) -> None:
        if snapshot is None:
            self.summary.setText(self.tr("No checkpoint is open."))
            return
        text = self.tr("After the plan: {summary}").format(summary=snapshot.diff.summary())
        blocked = len(snapshot.export.blocked)
        if blocked == 1:
            text += self.tr(" · 1 finding blocks the export")
        elif blocked:
            text += self.tr(" · {n} findings block the export").format(n=blocked)
        self.summary.setText(text)
        whole = not blocked and not any(snapshot.diff.counts.get(name) for name in ("missing", "shape", "error"))
        role = "teal" if whole else "red"
        self.summary.setStyleSheet(f"color: {self._theme.color(role).name()}; font-weight: 600;")

    def _chosen(self) -> str:
        row = self._selected()
        return _name(row) if row is not None else ""

    def _selected(self) -> Step | Finding | None:
        items = self.tree.selectedItems()
        index = self.tree.indexOfTopLevelItem(items[0]) if items else -1
        return self._rows[index] if 0 <= index < len(self._rows) else None

    # -------------------------------------------------------------------------------------------------------- detail

    def _show_detail(self) -> None:
        row, snapshot = self._selected(), self._session.snapshot
        self.examples.clear()
        if isinstance(row, Finding):
            self._tell(quoted(row.message), quoted(row.fix or ""), "")
        elif row is not None:
            self._tell(quoted(row.title), _sentence(quoted(row.evidence)), self._why(row))
        elif snapshot is None:
            self._tell("", "", "")
        elif self._rows:
            self._tell("", "", self.tr("Select a step to see examples, and only its tensors in the tree."))
        else:
            self._tell(self.tr("Nothing to change"), self.tr("Names, order and types stay as they are."), "")
        self._show_examples(row, snapshot)

    def _show_examples(self, row: Step | Finding | None, snapshot: Snapshot | None) -> None:
        """List before → after of a step, or the tensors that a finding is about."""
        pairs: tuple[tuple[str, ...], ...] = ()
        if isinstance(row, Step) and snapshot is not None:
            pairs = examples(row, snapshot.export)
            self.examples.setHeaderLabels([self.tr("Before"), self.tr("After")])
        elif isinstance(row, Finding):
            pairs = tuple((key,) for key in row.keys[:KEYS_SHOWN])
            self.examples.setHeaderLabels([self.tr("Tensors concerned")])
        self.examples.setColumnCount(len(pairs[0]) if pairs else 2)
        for texts in pairs:
            item = QTreeWidgetItem([safe_text(text) for text in texts])
            for column, text in enumerate(texts):
                item.setToolTip(column, tip_text(text, 600))
                item.setFont(column, self._theme.fixed_font())
            self.examples.addTopLevelItem(item)
        self.examples.setVisible(bool(pairs))

    def _tell(self, title: str, evidence: str, reason: str) -> None:
        for label, text in ((self.title, title), (self.evidence, evidence), (self.reason, reason)):
            label.setText(text)
            label.setVisible(bool(text))

    def _why(self, step: Step) -> str:
        """Say why a step can not be left out, or what leaving it out means."""
        tr = self.tr
        known = {
            "section": tr("Required: loaders look for the tensors at the top of the file."),
            "unwrap": tr("Required: loaders do not know names with wrappers in them."),
            "rename": tr("Required: the target's loaders know their own names only."),
            "permute": tr("Required: without it the export would load without a word and produce gibberish."),
            "untie": tr("Required: a loader that believes the tied flag would throw the trained head away."),
            "config": tr("Required: it is what makes a folder of tensors a model."),
            "buffers": tr("Optional: ticked off, they are carried along."),
            "cast": tr("You asked for this; ticked off, types stay as they are."),
            "drop": tr("You asked for this; ticked off, these tensors are written."),
        }
        if step.id == "tie":
            return (
                tr("Optional: ticked off, the head is written too.") if step.optional else tr("Required by the layout.")
            )
        return known.get(step.id, tr("Optional.") if step.optional else tr("Required by the target."))

    # ------------------------------------------------------------------------------------------------------- wishes

    def _on_selected(self) -> None:
        self._show_detail()
        row, snapshot = self._selected(), self._session.snapshot
        if row is None or snapshot is None:
            self.step_selected.emit(())
        elif isinstance(row, Finding):
            wanted = set(row.keys)
            full = {r.key: r.full_key for r in snapshot.source.refs if r.key in wanted}
            self.step_selected.emit(tuple(full.get(key, key) for key in row.keys))
        else:
            self.step_selected.emit(row.keys)

    def _on_ticked(self, item: QTreeWidgetItem, column: int) -> None:
        """Note a tick; it is acted on once the tree is done with it, as that replaces every row."""
        row = self._rows[self.tree.indexOfTopLevelItem(item)]
        if column == CHECK and isinstance(row, Step):
            self._ticked.append(row.id)
            self._later.start()

    def _act_on_ticks(self) -> None:
        ticked, self._ticked = self._ticked, []
        for name in ticked:
            snapshot = self._session.snapshot
            if snapshot is None:
                return
            if name == "cast":
                self._session.change_target(dtype="keep")
            elif name == "drop":
                self._session.change_policy(dropped=frozenset())
            else:
                self._session.change_policy(skip=snapshot.decisions.policy.skip ^ {name})

    def _copy_command(self) -> None:
        snapshot = self._session.snapshot
        if snapshot is None:
            return
        QGuiApplication.clipboard().setText(fix_command(snapshot))
        untold = unsayable(snapshot)
        note = self.tr("Copied; {n} choices made by hand are not in it.").format(n=untold) if untold else ""
        self.copy_button.setToolTip(note or self.tr("Copied to the clipboard."))


def all_steps(snapshot: Snapshot) -> tuple[Step, ...]:
    """Return the steps of an export, with those that were ticked off in their places."""
    policy = snapshot.decisions.policy
    if not policy.skip:
        return snapshot.export.steps
    whole = normalise(snapshot.source, dataclasses.replace(policy, skip=frozenset()), snapshot.plan.evidence)
    steps = retarget(whole, snapshot.decisions.target).steps
    now = {step.id: step for step in snapshot.export.steps}
    return tuple(now.get(step.id, step) for step in steps if step.id in now or step.id in policy.skip)


def examples(step: Step, export: Export) -> tuple[tuple[str, str], ...]:
    """Return a few (before, after) pairs of a step: its own, or read off the tensors that it concerns."""
    if step.examples:
        return step.examples
    keys = set(step.keys)
    found: dict[tuple[str, str], tuple[str, str]] = {}
    for entry in export.entries:
        if len(found) >= EXAMPLES:
            break
        if entry.ref.full_key in keys:
            before, after = entry.ref.key, entry.key
            words = [op.describe(export.plan.dims) for op in entry.ops if op.name == step.id]
            shown = "; ".join(words) or after
            if shown != before:
                found.setdefault((template(before), shown if words else template(after)), (before, shown))
    gone = [d for d in export.dropped if d.ref.full_key in keys][: EXAMPLES - len(found)]
    return (*found.values(), *((d.ref.key, f"– ({d.reason})") for d in gone))


def _can_be_left(step: Step) -> bool:
    return step.optional or step.id in WISHES


def _name(row: Step | Finding) -> str:
    return f"step:{row.id}" if isinstance(row, Step) else f"finding:{row.code}:{row.message}"


def _sentence(text: str) -> str:
    """Return a text that starts with a capital and ends with a full stop."""
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith(('.', '!', '?')) else '.'}" if text else ""
