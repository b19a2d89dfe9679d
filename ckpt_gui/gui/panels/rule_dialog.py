"""The dialog for a rule that renames keys: what it finds and what it makes, with a live count and three examples."""

from __future__ import annotations

from PySide6.QtCore import QTimer, Signal
from PySide6.QtWidgets import (
    QCheckBox,
    QDialog,
    QFormLayout,
    QHeaderView,
    QLineEdit,
    QTreeWidget,
    QTreeWidgetItem,
    QWidget,
)

from ckpt_gui.core.edits import Rename
from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.plan import Plan
from ckpt_gui.core.renames import as_rule, check_rule
from ckpt_gui.core.text import plural
from ckpt_gui.gui.error_report import error_sentence
from ckpt_gui.gui.jobs import Job, JobManager
from ckpt_gui.gui.language import said
from ckpt_gui.gui.models.rule_preview import SHOWN, RulePreview, preview_rule
from ckpt_gui.gui.panels.parts import button, dialog_column, dialog_foot
from ckpt_gui.gui.theme import Theme
from ckpt_gui.gui.widgets.units import GRID, em, plain_label, quoted, tip_text

PAUSE = 150  # milliseconds without a key before it is counted
MANY = 3_000  # tensors above which it is counted in a job


class RuleDialog(QDialog):
    """Edits one rule.

    Args:
        plan: The checkpoint, understood with the rules that there are.
        rule: What to begin with.
        number: Its place among the rules of the plan.

    Signals:
        accepted_rule(rule): The user wants this one.
    """

    accepted_rule = Signal(object)

    def __init__(
        self, jobs: JobManager, theme: Theme, plan: Plan, rule: Rename, number: int, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._jobs, self._colours, self._plan, self._number = jobs, theme, plan, number
        self._job: Job | None = None
        self.setWindowTitle(self.tr("Rename keys"))
        self.old_edit, self.new_edit = QLineEdit(rule.old), QLineEdit(rule.new)
        self.regex_box = QCheckBox(self.tr("Regular e&xpression"))
        self.regex_box.setChecked(rule.kind == "regex")
        self.regex_box.setToolTip(self.tr("Replace what is found in the keys; \\1 is its first group"))
        self.count_label, self.examples = plain_label(), self._make_examples()
        self.ok_button = button(self.tr("Rename"), kind="primary", tip=self.tr("Add it to the fix plan (Enter)"))
        self.cancel_button = button(self.tr("Cancel"), tip=self.tr("Change nothing (Esc)"))
        self._pause = QTimer(self, singleShot=True, interval=PAUSE)
        self._lay_out()
        self._connect()
        self._count()
        self.new_edit.setFocus()
        self.new_edit.selectAll()

    def _make_examples(self) -> QTreeWidget:
        tree = QTreeWidget()
        tree.setHeaderLabels([self.tr("Before"), self.tr("After")])
        tree.setAccessibleName(self.tr("Examples of what the rule does"))
        tree.setRootIsDecorated(False)
        tree.header().setSectionResizeMode(QHeaderView.ResizeMode.Stretch)
        tree.setFixedHeight(round((SHOWN + 1) * 1.9 * em(tree)) + GRID)
        return tree

    def _lay_out(self) -> None:
        form = QFormLayout()
        for text, edit, tip in (
            (self.tr("&Key"), self.old_edit, self.tr("Which keys: one, or many with {layer} for a number")),
            (self.tr("&New name"), self.new_edit, self.tr("What they shall be called, with the same {layer}")),
        ):
            edit.setFont(self._colours.fixed_font())
            edit.setAccessibleName(text.replace("&", ""))
            edit.setToolTip(tip_text(tip))
            form.addRow(text, edit)
        form.addRow("", self.regex_box)
        note = plain_label(
            self.tr(
                "Keys are named as they stand in the file, without wrappers; everything else follows from the name."
            ),
            muted=True,
        )
        box = dialog_column(self)
        box.addLayout(form)
        box.addWidget(note)
        box.addWidget(self.examples)
        box.addLayout(dialog_foot(self.count_label, self.cancel_button, self.ok_button))
        self.ok_button.setDefault(True)
        self.resize(em(self, 42), self.sizeHint().height())

    def _connect(self) -> None:
        for edit in (self.old_edit, self.new_edit):
            edit.textChanged.connect(self._soon)
        self.regex_box.toggled.connect(self._soon)
        self._pause.timeout.connect(self._count)
        self.ok_button.clicked.connect(self._accept)
        self.cancel_button.clicked.connect(self.reject)
        self.finished.connect(lambda _: self._stop())

    @property
    def rule(self) -> Rename:
        """The rule as it is typed now."""
        old, new = self.old_edit.text().strip(), self.new_edit.text().strip()
        return Rename(old, new, "regex") if self.regex_box.isChecked() else as_rule(old, new)

    # ------------------------------------------------------------------------------------------------------ counting

    def _soon(self) -> None:
        self._stop()
        self.ok_button.setEnabled(False)
        self._pause.start()

    def _stop(self) -> None:
        self._pause.stop()
        self._jobs.cancel(self._job, silently=True)
        self._job = None

    def _count(self) -> None:
        """Count what the rule matches; in a job where there are many keys."""
        self._stop()
        plan, rule, number = self._plan, self.rule, self._number
        try:
            check_rule(rule)
            if len(plan.source.refs) <= MANY:
                self._show(preview_rule(plan, rule, number))
                return
        except CheckpointError as error:
            self._fail(error)
            return
        self.count_label.setText(self.tr("Counting…"))
        title = self.tr("Counting what a rule matches")
        self._job = self._jobs.start(
            title, lambda _: preview_rule(plan, rule, number), self._counted, self._fail, quiet=True
        )

    def _counted(self, found: RulePreview) -> None:
        self._job = None
        self._show(found)

    def _show(self, found: RulePreview) -> None:
        text = self.tr("Matches {tensors}").format(tensors=said(plural(found.count, "tensor")))
        if self.rule.old == self.rule.new and not found.count:
            text = self.tr("The two names are the same so far")
        self._say(text, "teal" if found.count else "orange")
        self.examples.clear()
        for pair in found.pairs:
            item = QTreeWidgetItem([safe_text(name) for name in pair])
            for column, name in enumerate(pair):
                item.setFont(column, self._colours.fixed_font())
                item.setToolTip(column, tip_text(name))
            self.examples.addTopLevelItem(item)
        self.ok_button.setEnabled(found.count > 0)

    def _fail(self, error: BaseException) -> None:
        self._job = None
        self.examples.clear()
        self._say(quoted(error_sentence(error)), "red")
        self.ok_button.setEnabled(False)

    def _say(self, text: str, role: str) -> None:
        self.count_label.setText(text)
        self.count_label.setAccessibleName(text)
        self.count_label.setStyleSheet(f"color: {self._colours.color(role).name()};")

    def _accept(self) -> None:
        rule = self.rule
        self.accept()
        self.accepted_rule.emit(rule)
