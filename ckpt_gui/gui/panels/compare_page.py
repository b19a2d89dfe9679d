"""The page that holds another checkpoint beside the one that is open."""

from __future__ import annotations

from PySide6.QtCore import QModelIndex, Qt
from PySide6.QtWidgets import QHBoxLayout, QScrollArea, QSplitter, QTreeView, QVBoxLayout, QWidget

from ckpt_gui.core.compare import RankEstimate, Row
from ckpt_gui.core.errors import Cancelled, CheckpointError
from ckpt_gui.core.keys import safe_text
from ckpt_gui.gui.jobs import Job, Work
from ckpt_gui.gui.language import said
from ckpt_gui.gui.models.compare_model import CompareModel
from ckpt_gui.gui.models.compare_rows import COMPARE_STYLES, in_states
from ckpt_gui.gui.models.comparing import Compared, change_rank, compare_with, rank_text
from ckpt_gui.gui.models.reports import save_diff
from ckpt_gui.gui.panels.compare_changes import CompareChanges
from ckpt_gui.gui.panels.compare_head import CompareHead
from ckpt_gui.gui.panels.parts import button
from ckpt_gui.gui.panels.report_dialog import ask_report_path
from ckpt_gui.gui.session import Session
from ckpt_gui.gui.snapshot import Snapshot
from ckpt_gui.gui.theme import Theme
from ckpt_gui.gui.widgets.job_bar import JobBar
from ckpt_gui.gui.widgets.overview_strip import OverviewStrip
from ckpt_gui.gui.widgets.units import GRID, em, plain_label

WIDTHS = (8.2, 14, 14, 5.6, 6.6, 5.8, 9.5)  # of the columns, in ems


class ComparePage(QWidget):
    """A is what is open, B what is named here; values only when asked for."""

    def __init__(self, session: Session, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._session = session
        self.compared: Compared | None = None
        self._asked: Work | None = None  # the comparison that was asked for last, of what is open
        self.setAccessibleName(self.tr("Compare two checkpoints"))
        self.head, self.job = CompareHead(theme), JobBar(session.jobs)
        self.message = plain_label()
        self.model = CompareModel(theme, self)
        self.tree, self.strip = self._make_tree(theme), OverviewStrip(theme)
        self.changes = CompareChanges(theme)
        tr = self.tr
        self.previous_button = button(tr("◀  Previous"), tip=tr("The difference before this one"))
        self.next_button = button(tr("Next  ▶"), tip=tr("The next difference"))
        self.rank_button = button(
            tr("Rank of the change"), tip=tr("How many directions the change of this matrix has: that of a LoRA")
        )
        self.report_button = button(tr("Save report…"), tip=tr("Every difference, as a web page, Markdown or JSON"))
        self._lay_out()
        self._connect()
        self._show(None)

    def _make_tree(self, theme: Theme) -> QTreeView:
        tree = QTreeView()
        tree.setModel(self.model)
        tree.setAccessibleName(self.tr("Tensors of both checkpoints"))
        tree.setUniformRowHeights(True)
        tree.setAlternatingRowColors(True)
        tree.setAllColumnsShowFocus(True)
        tree.setTextElideMode(Qt.TextElideMode.ElideLeft)  # the end of a key tells layer and matrix
        tree.setFont(theme.fixed_font())
        for column, ems in enumerate(WIDTHS):
            tree.setColumnWidth(column, em(tree, ems))
        return tree

    def _lay_out(self) -> None:
        steps = QHBoxLayout()
        steps.setSpacing(GRID)
        steps.addStretch()
        for widget in (self.report_button, self.rank_button, self.previous_button, self.next_button):
            steps.addWidget(widget)
        self.listing = QWidget()
        beside = QHBoxLayout(self.listing)
        beside.setContentsMargins(0, 0, 0, 0)
        beside.setSpacing(GRID // 2)
        beside.addWidget(self.tree, 1)
        beside.addWidget(self.strip)
        body = QWidget()
        body.setProperty("plain", "true")
        inner = QVBoxLayout(body)
        inner.setContentsMargins(0, 0, GRID, 0)
        inner.addWidget(self.changes)
        inner.addStretch()
        self.area = QScrollArea()
        self.area.setWidget(body)
        self.area.setWidgetResizable(True)
        self.area.setFrameShape(QScrollArea.Shape.NoFrame)
        self.area.setAccessibleName(self.tr("What has changed"))
        self.split = QSplitter(Qt.Orientation.Vertical)
        self.split.addWidget(self.listing)
        self.split.addWidget(self.area)
        self.split.setStretchFactor(0, 1)
        self.split.setChildrenCollapsible(False)
        column = QVBoxLayout(self)
        column.setContentsMargins(12, 12, 12, 12)
        column.setSpacing(GRID)
        column.addWidget(self.head)
        column.addWidget(self.job)
        column.addWidget(self.message)
        column.addLayout(steps)
        column.addWidget(self.split, 1)
        column.addStretch()

    def _connect(self) -> None:
        session = self._session
        self.head.wanted.connect(self.start)
        self.head.states_chosen.connect(lambda _: self._show_lines())
        self.job.stopped.connect(lambda: self._failed(Cancelled()))
        self.tree.selectionModel().currentChanged.connect(lambda *_: self._enable())
        self.tree.activated.connect(self._go)
        self.strip.chosen.connect(self._select)
        self.previous_button.clicked.connect(lambda: self.step(forward=False))
        self.next_button.clicked.connect(lambda: self.step(forward=True))
        self.rank_button.clicked.connect(self._ask_rank)
        self.report_button.clicked.connect(self._ask_where)
        self.changes.chosen.connect(self._find)
        session.changed.connect(self._on_changed)
        session.opening.connect(lambda _: self._forget())
        session.closed.connect(self._forget)

    def start(self, name: str, values: bool) -> None:
        """Compare what is open with another checkpoint."""
        snapshot, known = self._session.snapshot, self.compared
        if snapshot is None:
            return
        plan = snapshot.plan
        self.head.other.setText(name)

        def work(job: Job) -> Compared:
            return compare_with(plan, name, known, values=values, job=job)

        def discard(late: Compared) -> None:
            if self._asked is work and not self.job.running:  # stopped by the user: what was compared by then
                self._show(late)
            elif known is None or late.source is not known.source:
                late.close()

        self._asked = work
        title = self.tr("Comparing values") if values else self.tr("Comparing names, shapes and types")
        self.job.run(title, work, self._show, self._failed, discard=discard)
        self.head.enable(running=True)

    def _on_changed(self, snapshot: Snapshot) -> None:
        if self.compared is not None and self.compared.plan.source is not snapshot.source:
            self._forget()

    def _forget(self) -> None:
        self._asked = None
        self.job.stop()
        self._show(None)

    # ------------------------------------------------------------------------------------------------------ showing

    def _show(self, compared: Compared | None) -> None:
        old, self.compared = self.compared, compared
        if old is not None and (compared is None or compared.source is not old.source):
            old.close()
        self.head.enable()
        self.head.show_counts(compared.counts if compared else {})
        self.split.setVisible(compared is not None)
        for widget in (self.previous_button, self.next_button, self.rank_button, self.report_button):
            widget.setVisible(compared is not None)
        self.area.setVisible(compared is not None and compared.result.values)
        if compared is None:
            self._say(
                self.tr("Names are matched through the layouts, so a Meta file can be held against Hugging Face's.")
            )
        else:
            config = len(compared.result.config)
            more = self.tr(" Their configs differ in {n} facts.").format(n=config) if config else ""
            self._say(compared.verdict + more)
            if compared.result.values:
                self.changes.show_changes(compared.layers, compared.roles)
        self._show_lines()

    def _show_lines(self) -> None:
        found = in_states(self.compared.lines, self.head.states()) if self.compared is not None else ()
        self.model.show_lines(found)
        roles = [""] * len(found)
        for place in self.model.different:
            roles[place] = COMPARE_STYLES[found[place].state].colour
        self.strip.show_marks(roles)
        self._enable()

    def _failed(self, error: BaseException) -> None:
        self.head.enable()
        fix = error.fix if isinstance(error, CheckpointError) else None
        text = self.tr("Stopped.") if isinstance(error, Cancelled) else f"{error} {fix or ''}".strip()
        self._say(safe_text(text, 600))

    def _say(self, text: str) -> None:
        self.message.setText(said(text))

    # ------------------------------------------------------------------------------------------------------ walking

    def _enable(self) -> None:
        for each in (self.previous_button, self.next_button):
            each.setEnabled(bool(self.model.different))
        self.rank_button.setEnabled(self._row() is not None)

    def _row(self) -> Row | None:
        """Return the current row, if it is a matrix whose change can be looked at."""
        index, compared = self.tree.currentIndex(), self.compared
        if not index.isValid() or compared is None or compared.source is None:
            return None
        line = self.model.line(index)
        row = line.rows[0]
        alike = row.a is not None and row.b is not None and row.a.shape == row.b.shape and len(row.a.shape) == 2
        return row if len(line.rows) == 1 and alike else None

    def step(self, *, forward: bool) -> None:
        """Go to the next or previous difference, round the end."""
        step = 1 if forward else -1
        places = self.model.different
        if not places:
            return
        index = self.tree.currentIndex()
        top = index.parent() if index.parent().isValid() else index
        now = top.row() if top.isValid() else (-1 if step > 0 else len(self.model.lines))
        ahead = [place for place in places if (place > now if step > 0 else place < now)]
        self._select((ahead[0] if step > 0 else ahead[-1]) if ahead else places[0 if step > 0 else -1])

    def _select(self, place: int) -> None:
        index = self.model.index(place, 0)
        self.tree.setCurrentIndex(index)
        self.tree.scrollTo(index)

    def _find(self, name: str) -> None:
        """Select the first line of a layer or a role."""
        wanted = name.split("N")
        for place, line in enumerate(self.model.lines):
            if any(_is_of(row.key, name, wanted) for row in line.rows):
                self._select(place)
                return

    def _go(self, index: QModelIndex) -> None:
        """Show the tensor of A in the tree of tensors."""
        stored = self.model.line(index).rows[0].a
        if stored is not None and stored.entry is not None:
            self._session.show_key(stored.entry.ref.full_key)

    # --------------------------------------------------------------------------------------------------------- rank

    def _ask_rank(self) -> None:
        row, compared = self._row(), self.compared
        if row is None or compared is None:
            return

        def done(found: RankEstimate) -> None:
            self._say(rank_text(found))

        self.job.run(self.tr("Estimating the rank"), lambda job: change_rank(compared, row, job), done, self._failed)

    # ------------------------------------------------------------------------------------------------------- report

    def _ask_where(self) -> None:
        path = ask_report_path(self, "diff-report")
        if path:
            self.save_report(path)

    def save_report(self, path: str) -> None:
        """Write what the comparison says."""
        compared = self.compared
        if compared is None:
            return

        def done(_: None) -> None:
            self._say(self.tr("Saved {}.").format(safe_text(path, 200)))

        title = self.tr("Saving the report")
        self.job.run(title, lambda job: save_diff(path, compared.result, job), done, self._failed)


def _is_of(key: str, name: str, parts: list[str]) -> bool:
    """Return True if a key belongs to a layer, or has a role (the name with `N` for numbers)."""
    if len(parts) == 1:
        return key == name or key.startswith(f"{name}.")
    return key.startswith(parts[0]) and key.endswith(parts[-1])
