"""The page with the true values of a tensor: any part of it, read when it is looked at."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QItemSelectionRange
from PySide6.QtGui import QGuiApplication, QHideEvent
from PySide6.QtWidgets import QFileDialog, QHBoxLayout, QLineEdit, QTableView, QVBoxLayout, QWidget

from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.tables import csv_text, values_table
from ckpt_gui.core.tensors import TensorRef
from ckpt_gui.core.tokens import Vocabulary, vocabulary
from ckpt_gui.core.values import MOST, parse_index, read_values
from ckpt_gui.gui.jobs import Job
from ckpt_gui.gui.language import said
from ckpt_gui.gui.models.values_grid import Grid, value_text
from ckpt_gui.gui.models.values_model import ValuesModel
from ckpt_gui.gui.panels.parts import button
from ckpt_gui.gui.panels.tensor_choice import TensorChoice
from ckpt_gui.gui.session import Session
from ckpt_gui.gui.theme import Theme
from ckpt_gui.gui.widgets.job_bar import JobBar
from ckpt_gui.gui.widgets.units import GRID, em, plain_label
from ckpt_gui.gui.widgets.values_table import ValuesTable
from ckpt_gui.gui.wording import count_text, shape_text


class ValuesPage(QWidget):
    """A tensor, an index, and the grid of what it means."""

    def __init__(self, session: Session, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._session = session
        self._vocabularies: dict[str | None, Vocabulary | None] = {}
        self.setAccessibleName(self.tr("Values"))
        self.choice = TensorChoice(session, theme)
        self.index, self.token = QLineEdit(), QLineEdit()
        self.table = ValuesTable()
        self.model = ValuesModel(session.jobs, theme, self)
        self.table.setModel(self.model)
        self.table.setFont(theme.fixed_font())
        self.message, self.note = plain_label(), plain_label(muted=True)
        self.job = JobBar(session.jobs)
        self.copy_button, self.save_button = button(self.tr("Copy")), button(self.tr("Save as CSV…"))
        self._lay_out(theme)
        self._connect()
        self._show(self.choice.ref)

    def _lay_out(self, theme: Theme) -> None:
        tr = self.tr
        self.index.setFont(theme.fixed_font())
        self.index.setPlaceholderText("[:, :]")
        self.index.setToolTip(tr("Which part, as in Python: [0:8, :16], [-1], [..., 5]"))
        self.index.setAccessibleName(tr("Part of the tensor"))
        self.token.setPlaceholderText(tr("Row, or token"))
        self.token.setAccessibleName(tr("Go to a row by its number or token"))
        self.token.setToolTip(
            tr("Go to a row by its number, or by the token that it stands for; a token of digits in quotes")
        )
        self.token.setMaximumWidth(em(self, 10))
        for edit, text in (
            (self.copy_button, tr("Copy what is selected as tab-separated text")),
            (self.save_button, tr("Save what the index means; at most {n} values").format(n=count_text(MOST))),
        ):
            edit.setToolTip(text)
        second = QHBoxLayout()
        second.setSpacing(GRID)
        name = plain_label(tr("Part"), wrap=False)
        name.setBuddy(self.index)
        second.addWidget(name)
        second.addWidget(self.index, 1)
        second.addWidget(self.token)
        first = QHBoxLayout()
        first.setSpacing(GRID)
        first.addWidget(self.choice, 1)
        for widget in (self.copy_button, self.save_button):
            first.addWidget(widget)
        column = QVBoxLayout(self)
        column.setContentsMargins(12, 12, 12, 12)
        column.setSpacing(GRID)
        column.addLayout(first)
        column.addLayout(second)
        for each in (self.message, self.job):
            column.addWidget(each)
        column.addWidget(self.table, 1)
        column.addWidget(self.note)

    def _connect(self) -> None:
        self.choice.chosen.connect(self._show)
        self.index.returnPressed.connect(self._on_index)
        self.index.editingFinished.connect(self._on_index)
        self.token.returnPressed.connect(self._go)
        self.model.noted.connect(self._show_note)
        self.model.failed.connect(self._on_failed)
        self.table.copied.connect(self.copy)
        self.copy_button.clicked.connect(self.copy)
        self.save_button.clicked.connect(self._ask_where)
        self._session.opening.connect(lambda _: self.model.stop())
        self._session.closed.connect(self.model.stop)

    def hideEvent(self, event: QHideEvent) -> None:
        """Stop reading what nobody looks at."""
        super().hideEvent(event)
        if not event.spontaneous():
            self.model.stop()
            self.job.stop()

    # ------------------------------------------------------------------------------------------------------ showing

    def _show(self, ref: TensorRef | None) -> None:
        """Show another tensor, all of it."""
        self.index.clear()
        self._show_part(ref)

    def _show_part(self, ref: TensorRef | None) -> None:
        snapshot = self._session.snapshot
        grid, text = None, ""
        if ref is None or snapshot is None:
            text = self.tr("Select a tensor in the tree, or name one above, to see its values.")
        else:
            try:
                grid = Grid(ref, parse_index(self.index.text(), ref.shape))
                text = "" if grid.rows else self.tr("There is no element in this part.")
            except CheckpointError as error:
                text = f"{error.message} {error.fix or ''}".strip()
        source = snapshot.source if snapshot else None
        self.model.show_grid(source, grid)
        self._name_rows(ref if grid else None)
        self._say(text)
        self.table.setVisible(not text)
        self._show_note("")

    def _on_index(self) -> None:
        grid = self.model.grid
        if grid is None or str(grid.index) != self.index.text():
            self._show_part(self.choice.ref)

    def _show_note(self, note: str) -> None:
        grid = self.model.grid
        if grid is None:
            self.note.setText("")
            return
        origin = self.model.vocabulary.origin if self.model.vocabulary else ""
        parts = [
            self.tr("{dtype}, {shape}").format(dtype=grid.ref.dtype, shape=shape_text(grid.ref.shape)),
            self.tr("shown: {index}").format(index=grid.index),
            self.tr("rows named by {file}").format(file=origin) if origin else "",
            note,
        ]
        self.note.setText(said(" · ".join(filter(None, parts))))

    def _on_failed(self, error: BaseException) -> None:
        fix = error.fix if isinstance(error, CheckpointError) else ""
        self.model.show_grid(None, None)
        self.table.hide()
        self._say(safe_text(f"{error} {fix or ''}".strip(), 600))

    def _say(self, text: str) -> None:
        self.message.setText(said(text))
        self.message.setVisible(bool(text))

    # ------------------------------------------------------------------------------------------------------- tokens

    def _name_rows(self, ref: TensorRef | None) -> None:
        """Name the rows of embedding and head by their tokens; the vocabulary is read in a job, once."""
        snapshot = self._session.snapshot
        if snapshot is None or ref is None or ref not in (snapshot.plan.tie.embedding, snapshot.plan.tie.head):
            return
        folder = snapshot.source.sidecars.folder
        if folder in self._vocabularies:
            self.model.name_rows(self._vocabularies[folder])
            return

        def done(found: Vocabulary | None) -> None:
            self._vocabularies = {folder: found}
            if self.choice.ref is ref:
                self.model.name_rows(found)
                self._show_note("")

        self.job.run(self.tr("Reading the vocabulary"), lambda _: vocabulary(folder), done, self._on_failed)

    def _go(self) -> None:
        """Go to the row that was typed."""
        grid, typed = self.model.grid, self.token.text()
        if grid is None or not typed:
            return
        known = self.model.vocabulary
        number = known.row(typed) if known else None
        if number is None and typed.strip().lstrip("-").isdigit():
            number = int(typed)
            number += grid.ref.shape[0] if number < 0 and grid.ref.shape else 0
        row = grid.row_at(number) if number is not None else None
        if row is None:
            self._say(self.tr("There is no row “{}” in the part that is shown.").format(safe_text(typed, 60)))
            return
        self._say("")
        cell = self.model.index(row, 0)
        self.table.setCurrentIndex(cell)
        self.table.selectRow(row)
        self.table.scrollTo(cell, QTableView.ScrollHint.PositionAtTop)

    # ------------------------------------------------------------------------------------------------ copy and save

    def copy(self) -> None:
        """Copy the selected cells as text with tabs, whether they are in sight or not."""
        chosen = self.table.selectionModel().selection()
        source = self._session.snapshot.source if self._session.snapshot else None
        grid = self.model.grid
        if grid is None or source is None or chosen.isEmpty():
            return
        area: QItemSelectionRange = chosen.first()
        rows, columns = range(area.top(), area.bottom() + 1), range(area.left(), area.right() + 1)
        if len(rows) * len(columns) > MOST:
            self._say(
                self.tr("{n} values are selected; at most {most} are copied at once.").format(
                    n=count_text(len(rows) * len(columns)), most=count_text(MOST)
                )
            )
            return

        def work(_job: Job) -> str:
            values, _ = grid.read(source, rows, columns)
            return "\n".join("\t".join(map(value_text, line)) for line in values)

        self.job.run(self.tr("Copying"), work, QGuiApplication.clipboard().setText, self._on_failed)

    def _ask_where(self) -> None:
        grid = self.model.grid
        if grid is None:
            return
        if grid.index.numel > MOST:
            text = self.tr("The part has {n} values; at most {most} are saved at once. Name a smaller part.")
            self._say(text.format(n=count_text(grid.index.numel), most=count_text(MOST)))
            return
        name = f"{grid.ref.key.rpartition('.')[0] or grid.ref.key}.csv"
        path, _ = QFileDialog.getSaveFileName(self, self.tr("Save values"), safe_text(name, 80), "CSV (*.csv)")
        if path:
            self.save(path)

    def save(self, path: str) -> None:
        """Save the part that is shown as CSV, with positions before each row and above each column."""
        grid = self.model.grid
        source = self._session.snapshot.source if self._session.snapshot else None
        if grid is None or source is None:
            return

        def work(_job: Job) -> None:
            table = values_table(read_values(source, grid.ref, grid.index))
            Path(path).write_text(csv_text(table), encoding="utf-8")

        def done(_: None) -> None:
            saved = self.tr("Saved {n} values to {path}.")
            self._say(saved.format(n=count_text(grid.index.numel), path=safe_text(path, 200)))

        self.job.run(self.tr("Saving values"), work, done, self._not_saved)

    def _not_saved(self, error: BaseException) -> None:
        self._say(self.tr("Not saved: {}").format(safe_text(str(error), 300)))
