"""The dialog that says which expected tensor a stored one is: the likeliest first, by shape and by name."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QDialog, QHeaderView, QTreeWidget, QTreeWidgetItem, QWidget

from ckpt_gui.core.candidates import Candidate, candidates
from ckpt_gui.core.diff import Diff, Row
from ckpt_gui.core.keys import safe_text
from ckpt_gui.gui.error_report import error_sentence
from ckpt_gui.gui.jobs import Job, JobManager
from ckpt_gui.gui.panels.parts import button, dialog_column, dialog_foot
from ckpt_gui.gui.theme import Theme
from ckpt_gui.gui.widgets.units import em, plain_label, quoted, tip_text
from ckpt_gui.gui.wording import shape_text


class MapDialog(QDialog):
    """Offers candidates for a row of the tree.

    Args:
        diff: The file beside what is expected.
        row: A tensor that fits nothing, or one that is expected and missing.

    Signals:
        chosen(candidate): The user says that it is this one.
    """

    chosen = Signal(object)

    def __init__(self, jobs: JobManager, theme: Theme, diff: Diff, row: Row, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._jobs, self._colours, self._row = jobs, theme, row
        self._found: tuple[Candidate, ...] = ()
        missing = row.ref is None
        self.setWindowTitle(self.tr("Which tensor of the file is it?") if missing else self.tr("Map to expected"))
        self.tree = self._make_tree(missing)
        self.note = plain_label(self.tr("Looking for candidates…"), muted=True)
        self.ok_button = button(self.tr("It is this one"), kind="primary", tip=self.tr("Add it to the plan (Enter)"))
        self.cancel_button = button(self.tr("Cancel"), tip=self.tr("Change nothing (Esc)"))
        self.ok_button.setEnabled(False)
        self._lay_out()
        self.tree.itemDoubleClicked.connect(lambda _item, _column: self._accept())
        self.tree.itemSelectionChanged.connect(lambda: self.ok_button.setEnabled(bool(self.tree.selectedItems())))
        self.ok_button.clicked.connect(self._accept)
        self.cancel_button.clicked.connect(self.reject)
        self.finished.connect(lambda _: self._stop())
        self._job: Job | None = jobs.start(
            self.tr("Looking for candidates"), lambda _: candidates(diff, row), self._show, self._fail, quiet=True
        )

    def _make_tree(self, missing: bool) -> QTreeWidget:
        tree = QTreeWidget()
        first = self.tr("Key in file") if missing else self.tr("Expected key")
        tree.setHeaderLabels([first, self.tr("Shape"), self.tr("Type"), self.tr("Alike")])
        tree.setAccessibleName(self.tr("Candidates, the likeliest first"))
        tree.setRootIsDecorated(False)
        tree.setUniformRowHeights(True)
        tree.header().setStretchLastSection(False)
        modes = QHeaderView.ResizeMode
        for column in range(4):
            tree.header().setSectionResizeMode(column, modes.ResizeToContents if column else modes.Stretch)
        return tree

    def _lay_out(self) -> None:
        row = self._row
        shape = shape_text(row.shape if row.shape is not None else row.expected_shape or ())
        about = plain_label(f"{safe_text(row.path)}  ·  {shape}  ·  {row.dtype}")
        about.setFont(self._colours.fixed_font())
        box = dialog_column(self)
        box.addWidget(about)
        box.addWidget(self.tree, 1)
        box.addLayout(dialog_foot(self.note, self.cancel_button, self.ok_button))
        self.ok_button.setDefault(True)
        self.resize(em(self, 44), em(self, 24))

    def _stop(self) -> None:
        self._jobs.cancel(self._job, silently=True)
        self._job = None

    def _show(self, found: tuple[Candidate, ...]) -> None:
        self._job, self._found = None, found
        for each in found:
            other = each.row
            shape = shape_text(other.shape if other.shape is not None else other.expected_shape or ())
            fits = "=" if each.same_shape else "≠"
            same = "=" if each.same_type else "~"
            item = QTreeWidgetItem(
                [safe_text(each.key), f"{fits} {shape}", f"{same} {other.dtype}", f"{each.likeness:.0%}"]
            )
            item.setFont(0, self._colours.fixed_font())
            item.setToolTip(0, tip_text(each.key))
            item.setTextAlignment(3, Qt.AlignmentFlag.AlignRight)
            self.tree.addTopLevelItem(item)
        first = self.tree.topLevelItem(0)
        if first is not None:
            self.tree.setCurrentItem(first)
            self.tree.setFocus()
        self.note.setText(
            self.tr("Equal shapes first, then by how much the names are alike.")
            if found
            else self.tr("Nothing is missing that it could be.")
        )

    def _fail(self, error: BaseException) -> None:
        self._job = None
        self.note.setText(quoted(error_sentence(error)))

    def _accept(self) -> None:
        current = self.tree.currentItem()
        place = self.tree.indexOfTopLevelItem(current) if current is not None else -1
        if 0 <= place < len(self._found):
            self.accept()
            self.chosen.emit(self._found[place])
