"""The page that reads every weight: what looks wrong, and the figures of all tensors beside each other."""

from __future__ import annotations

from PySide6.QtCore import QModelIndex, Qt, QTimer
from PySide6.QtWidgets import QHBoxLayout, QScrollArea, QSplitter, QTableView, QVBoxLayout, QWidget

from ckpt_gui.core.errors import Finding
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.scan import Scan, TensorScan, scan
from ckpt_gui.core.source import Source
from ckpt_gui.core.stats import StatsCache
from ckpt_gui.core.text import plural
from ckpt_gui.gui.jobs import Job
from ckpt_gui.gui.language import said
from ckpt_gui.gui.models.reports import save_check
from ckpt_gui.gui.models.scan_model import ScanModel
from ckpt_gui.gui.panels.finding_card import FindingCard
from ckpt_gui.gui.panels.parts import button, clear
from ckpt_gui.gui.panels.report_dialog import ask_report_path
from ckpt_gui.gui.session import Session
from ckpt_gui.gui.snapshot import Snapshot
from ckpt_gui.gui.theme import Theme
from ckpt_gui.gui.widgets.job_bar import JobBar
from ckpt_gui.gui.widgets.scroll_body import ScrollBody
from ckpt_gui.gui.widgets.units import GRID, em, plain_label
from ckpt_gui.gui.wording import count_text, human_bytes

WIDTHS = (16, 3.2, 6.4, 5.6, 5.6, 6.4, 4, 5.4)  # of the columns, in ems
DRAIN = 400  # milliseconds between two looks at what has come: beside threads at work painting it takes 20 to 50
SCREEN = 60  # rows that fill a table
DRAIN_BELOW = 2_000  # the same once rows come below those in sight: Qt draws the whole table again for them


class ScanPage(QWidget):
    """Starts a scan when asked, shows what comes, and keeps it while the same file is open.

    A scan goes on while another page is looked at: that of a large model takes minutes.
    """

    def __init__(self, session: Session, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._session, self._theme = session, theme
        self._source: Source | None = None  # what was scanned
        self._fresh: list[TensorScan] = []  # filled by the job's thread
        self.result: Scan | None = None
        self.cards: list[FindingCard] = []
        self.setAccessibleName(self.tr("Scan of all values"))
        self.start_button = button("", kind="primary")
        self.report_button = button(
            self.tr("Save report…"), tip=self.tr("What is said of the checkpoint, with what the scan has found")
        )
        self.summary = plain_label(muted=True)
        self.job = JobBar(session.jobs)
        self.model = ScanModel(theme, self)
        self.table = self._make_table()
        self.findings = QVBoxLayout()
        self._timer = QTimer(self)
        self._laid_out = QTimer(self, singleShot=True, interval=0)  # due once what is shown has its place
        self._lay_out()
        self._connect()
        self._show_state()

    def _make_table(self) -> QTableView:
        table = QTableView()
        table.setModel(self.model)
        table.setAccessibleName(self.tr("Figures of every tensor"))
        table.setFont(self._theme.fixed_font())
        table.setAlternatingRowColors(True)
        table.setShowGrid(False)
        table.setWordWrap(False)
        table.setSortingEnabled(True)
        table.horizontalHeader().setSortIndicator(-1, Qt.SortOrder.AscendingOrder)
        table.setSelectionBehavior(QTableView.SelectionBehavior.SelectRows)
        table.setSelectionMode(QTableView.SelectionMode.SingleSelection)
        table.setTextElideMode(Qt.TextElideMode.ElideMiddle)
        table.verticalHeader().hide()
        table.verticalHeader().setDefaultSectionSize(em(table, 1.5))
        header = table.horizontalHeader()
        header.setMinimumSectionSize(em(table, 3))
        for column, ems in enumerate(WIDTHS):
            table.setColumnWidth(column, em(table, ems))
        return table

    def _lay_out(self) -> None:
        head = QHBoxLayout()
        head.setSpacing(2 * GRID)
        head.addWidget(self.start_button)
        head.addWidget(self.summary, 1)
        head.addWidget(self.report_button)
        self._body = body = ScrollBody()
        self.findings.setContentsMargins(0, 0, 0, 0)
        self.findings.setSpacing(GRID)
        body.setLayout(self.findings)
        self.area = QScrollArea()
        self.area.setWidget(body)
        self.area.setWidgetResizable(True)
        self.area.setFrameShape(QScrollArea.Shape.NoFrame)
        self.area.setAccessibleName(self.tr("What looks wrong"))
        self.split = QSplitter(Qt.Orientation.Vertical)
        self.split.addWidget(self.area)
        self.split.addWidget(self.table)
        self.split.setStretchFactor(1, 1)
        self.split.setChildrenCollapsible(False)
        self.split.setSizes([em(self, 12), em(self, 16)])
        column = QVBoxLayout(self)
        column.setContentsMargins(12, 12, 12, 12)
        column.setSpacing(GRID)
        column.addLayout(head)
        column.addWidget(self.job)
        column.addWidget(self.split, 1)
        column.addStretch()

    def _connect(self) -> None:
        session = self._session
        self.start_button.clicked.connect(self.start)
        self.report_button.clicked.connect(self._ask_where)
        self.job.stopped.connect(self._on_stopped)
        self._timer.timeout.connect(self._drain)
        self._laid_out.timeout.connect(self._share_height)
        self.table.activated.connect(self._go)
        self.table.doubleClicked.connect(self._go)
        session.changed.connect(self._on_changed)
        session.opening.connect(lambda _: self._forget())
        session.closed.connect(self._forget)

    def start(self) -> None:
        """Read every weight; what was read before and kept in the cache comes at once."""
        snapshot = self._session.snapshot
        if snapshot is None or self.job.running:
            return
        self._forget()
        self._source = snapshot.source
        fresh = self._fresh = []

        def work(job: Job) -> Scan:
            return scan(
                snapshot.plan,
                progress=job.progress,
                cancelled=job.cancelled,
                cache=StatsCache(),
                workers=job.workers,
                on_result=fresh.append,
            )

        def stopped(part: Scan) -> None:
            if self._fresh is fresh and not self.job.running:
                self._done(part)

        self._timer.start(DRAIN)
        self.job.run(self.tr("Reading every weight"), work, self._done, self._failed, discard=stopped)
        self._show_state()

    def turn_to(self, name: str) -> bool:
        """Start, if that is asked for."""
        if name == "start":
            self.start()
        return name == "start"

    def _on_changed(self, snapshot: Snapshot) -> None:
        if self._source is not snapshot.source:
            self._forget()
        self._show_state()

    def _forget(self) -> None:
        self._timer.stop()
        self.job.stop()
        self._fresh = []
        self._source = self.result = None
        self.model.clear()
        self._show_findings(())
        self._show_state()

    # ------------------------------------------------------------------------------------------------------ showing

    def _drain(self) -> None:
        """Show what has come since the last look."""
        fresh, count = self._fresh, len(self._fresh)
        self.model.add(fresh[:count])
        del fresh[:count]
        if self._timer.isActive() and self.model.rowCount() >= SCREEN:
            self._timer.setInterval(DRAIN_BELOW)
        self._show_state()

    def _done(self, result: Scan) -> None:
        self._finish()
        self.result = result
        self._show_findings(result.findings)
        self._show_state()

    def _failed(self, error: BaseException) -> None:
        self._finish()
        self._show_state()
        self.summary.setText(safe_text(str(error), 400))

    def _on_stopped(self) -> None:
        self._finish()
        self._show_state()

    def _finish(self) -> None:
        self._timer.stop()
        self._drain()
        self.model.settle()

    def _show_state(self) -> None:
        tr, running, rows = self.tr, self.job.running, self.model.rowCount()
        self.start_button.setText(tr("Scan again") if rows and not running else tr("Scan all values"))
        self.start_button.setAccessibleName(self.start_button.text())
        self.start_button.setEnabled(self._session.snapshot is not None and not running)
        whole = self.result is not None and self.result.complete
        self.report_button.setVisible(whole and not running)
        self.split.setVisible(bool(rows))
        self.summary.setText(said(self._words(running, rows)))

    def _words(self, running: bool, rows: int) -> str:
        tr, result, snapshot = self.tr, self.result, self._session.snapshot
        if running:
            return tr("{n} so far; what is wrong is said at the end, or when you stop.").format(
                n=said(plural(rows, "tensor"))
            )
        if result is None and rows:
            return tr("Stopped after {n}. The table holds what was read until then.").format(
                n=said(plural(rows, "tensor"))
            )
        if result is None:
            total = human_bytes(snapshot.overview.nbytes) if snapshot else ""
            return tr(
                "Reads every weight ({total}) and looks for NaN and infinities, dead rows, layers unlike the others, "
                "untrained tensors and damage by casts. Nothing is changed."
            ).format(total=total)
        found = plural(len(result.findings), "finding") if result.findings else tr("nothing looks wrong")
        if not result.complete:
            return tr("Stopped after {n}: {found} so far.").format(
                n=said(plural(len(result.tensors), "tensor")), found=found
            )
        return tr("{tensors}, {n} parameters, {size} read: {found}.").format(
            tensors=plural(len(result.tensors), "tensor"),
            n=count_text(result.parameters),
            size=human_bytes(result.done),
            found=found,
        )

    def _show_findings(self, findings: tuple[Finding, ...]) -> None:
        self._session.tell_scan(findings)
        clear(self.findings)
        self.cards = []
        for finding in findings:
            card = FindingCard(finding, self._theme)
            card.chosen.connect(self._lead)
            self.cards.append(card)
            self.findings.addWidget(card)
        self.findings.addStretch()
        self.area.setVisible(bool(findings))
        if findings:
            self._laid_out.start()

    def _share_height(self) -> None:
        """Give the findings the height that they need, up to the larger half."""
        inside, width = self._body, max(self.area.viewport().width(), 1)
        needed = inside.heightForWidth(width) if inside.hasHeightForWidth() else inside.sizeHint().height()
        height = self.split.height()
        upper = min(needed + GRID, height * 55 // 100)
        self.split.setSizes([upper, height - upper])

    def _ask_where(self) -> None:
        path = ask_report_path(self, "scan-report")
        if path:
            self.save_report(path)

    def save_report(self, path: str) -> None:
        """Write what is said of the checkpoint, with what the scan has found."""
        snapshot, result = self._session.snapshot, self.result
        if snapshot is None or result is None:
            return
        plan = snapshot.plan

        def done(_: None) -> None:
            self._show_state()
            self.summary.setText(self.tr("Saved {}.").format(safe_text(path, 200)))

        self.job.run(self.tr("Saving the report"), lambda job: save_check(path, plan, result, job), done, self._failed)

    def _lead(self, finding: Finding) -> None:
        self._session.show_keys(finding.keys, self.tr("tensors of the finding “{}”").format(finding.code))

    def _go(self, index: QModelIndex) -> None:
        self._session.show_key(self.model.found[index.row()].ref.full_key)
