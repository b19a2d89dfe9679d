"""What a step of the plan makes of each tensor: before and after in two columns, layers folded into one line."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QAbstractItemView, QHeaderView, QTreeWidget, QTreeWidgetItem, QWidget

from ckpt_gui.core.export import Export
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.plan import Step
from ckpt_gui.gui.jobs import Job, JobManager
from ckpt_gui.gui.models.plan_rows import Change, changes
from ckpt_gui.gui.theme import Theme
from ckpt_gui.gui.widgets.units import GRID, em, tip_text

MANY = 3_000  # tensors above which they are folded in a job: 30 ms
LINES_SHOWN = 200
ROWS_SHOWN = 8  # without scrolling inside
_RIGHT = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter


class ChangesTree(QTreeWidget):
    """Lists what one step changes, or the tensors that a finding names."""

    def __init__(self, jobs: JobManager, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._jobs, self._colours = jobs, theme
        self._job: Job | None = None
        self.setAccessibleName(self.tr("What the selected step changes"))
        self.setRootIsDecorated(False)
        self.setUniformRowHeights(True)
        self.setSelectionMode(QAbstractItemView.SelectionMode.NoSelection)
        self.setTextElideMode(Qt.TextElideMode.ElideLeft)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.header().setStretchLastSection(False)
        self.setMinimumWidth(em(self, 5))

    def show_step(self, step: Step, export: Export) -> None:
        """Show what a step changes; folded in a job where there are many tensors."""
        self._stop()
        if max(len(step.keys), len(export.entries)) <= MANY:
            self._show_changes(changes(step, export))
            return
        self._list([self.tr("Working it out…")], ())
        title = self.tr("Folding the changes of a step")
        self._job = self._jobs.start(title, lambda _: changes(step, export), self._worked_out, self._failed, quiet=True)

    def show_keys(self, keys: Sequence[str]) -> None:
        """Show the tensors that a finding names."""
        self._stop()
        self._list([self.tr("Tensors concerned")], [(key,) for key in keys[:LINES_SHOWN]])

    def show_nothing(self) -> None:
        """Show no lines."""
        self._stop()
        self._list([""], ())

    def _stop(self) -> None:
        self._jobs.cancel(self._job, silently=True)
        self._job = None

    def _worked_out(self, found: tuple[Change, ...]) -> None:
        self._job = None
        self._show_changes(found)

    def _failed(self, error: BaseException) -> None:
        self._job = None
        self._list([str(error)], ())

    def _show_changes(self, found: Sequence[Change]) -> None:
        rows = [(each.before, each.after, f"×{each.count:,}") for each in found[:LINES_SHOWN]]
        if len(found) > LINES_SHOWN:
            rest = sum(each.count for each in found[LINES_SHOWN:])
            rows.append((self.tr("and more"), "", f"×{rest:,}"))
        self._list([self.tr("Before"), self.tr("After"), self.tr("Tensors")], rows)

    def _list(self, titles: list[str], rows: Sequence[tuple[str, ...]]) -> None:
        self.clear()
        self.setColumnCount(len(titles))
        self.setHeaderLabels(titles)
        for column in range(len(titles)):
            modes = QHeaderView.ResizeMode
            self.header().setSectionResizeMode(column, modes.Stretch if column < 2 else modes.ResizeToContents)
        for texts in rows:
            item = QTreeWidgetItem([safe_text(text) for text in texts])
            for column, text in enumerate(texts[:2]):
                item.setToolTip(column, tip_text(text, 600))
                item.setFont(column, self._colours.fixed_font())
            if len(texts) > 2:
                item.setTextAlignment(2, _RIGHT)
            self.addTopLevelItem(item)
        shown = min(len(rows), ROWS_SHOWN) + 1  # and the header
        self.setFixedHeight(round(shown * 1.9 * em(self)) + GRID)
        self.setVisible(bool(rows) or self._job is not None)
