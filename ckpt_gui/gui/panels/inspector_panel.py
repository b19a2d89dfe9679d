"""The inspector: what is known of the selected tensor, and of the tied pair.

Details come from headers at once. Statistics and the pair are calculated only while their tab is looked at, and stopped
when the selection moves on.
"""

from __future__ import annotations

from PySide6.QtCore import Slot
from PySide6.QtWidgets import QTabWidget, QVBoxLayout, QWidget

from ckpt_gui.core.diff import Row
from ckpt_gui.core.rows import row_of, without_ref
from ckpt_gui.gui.models.overview import Overview
from ckpt_gui.gui.panels.inspector_details import DetailsTab
from ckpt_gui.gui.panels.inspector_stats import StatisticsTab
from ckpt_gui.gui.panels.inspector_tied import TiedTab
from ckpt_gui.gui.session import Session
from ckpt_gui.gui.snapshot import Snapshot
from ckpt_gui.gui.theme import Theme


class InspectorPanel(QWidget):
    """Three tabs: Details, Statistics, Tied pair."""

    def __init__(self, session: Session, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._session = session
        self._row: Row | None = None
        self.details = DetailsTab(session, theme)
        self.statistics = StatisticsTab(session, theme)
        self.tied = TiedTab(session, theme)
        self.tabs = QTabWidget()
        self.tabs.setDocumentMode(True)
        self.tabs.setAccessibleName(self.tr("Inspector"))
        self.tabs.tabBar().setAccessibleName(self.tr("Tabs of the inspector"))
        for tab, title in (
            (self.details, self.tr("Details")),
            (self.statistics, self.tr("Statistics")),
            (self.tied, self.tr("Tied pair")),
        ):
            tab.setAccessibleName(title)
            self.tabs.addTab(tab, title)
        box = QVBoxLayout(self)
        box.setContentsMargins(0, 0, 0, 0)
        box.addWidget(self.tabs)
        session.changed.connect(self._on_changed)
        session.closed.connect(self._on_closed)
        session.opening.connect(self._on_opening)
        self._on_changed(session.snapshot)

    @Slot(object)
    def show_row(self, row: Row | None) -> None:
        """Show a row of the diff; None for no selection."""
        self._show(row, None)

    @Slot(object)
    def show_group(self, overview: Overview | None) -> None:
        """Show a group of the tree in figures; None for the whole."""
        self._show(None, overview)

    def _show(self, row: Row | None, overview: Overview | None) -> None:
        self._row = row
        snapshot = self._session.snapshot
        self.details.show_row(row, snapshot, overview)
        self.statistics.show_row(row, snapshot.plan.source if snapshot else None)

    def show_pair(self) -> None:
        """Turn to the tied pair: where a finding about it leads."""
        if self.tabs.isTabEnabled(self.tabs.indexOf(self.tied)):
            self.tabs.setCurrentWidget(self.tied)

    def _on_changed(self, snapshot: Snapshot | None) -> None:
        self.show_row(_same_row(self._row, snapshot))
        self.tied.show_snapshot(snapshot)
        index = self.tabs.indexOf(self.tied)
        self.tabs.setTabEnabled(index, self.tied.has_pair())
        tip = (
            self.tr("The input embedding and the output head") if self.tied.has_pair() else self.tr("No pair is known")
        )
        self.tabs.setTabToolTip(index, tip)

    def _on_opening(self, _path: str) -> None:
        self.tied.job.stop()

    def _on_closed(self) -> None:
        self._on_changed(None)


def _same_row(row: Row | None, snapshot: Snapshot | None) -> Row | None:
    """Return the row of another snapshot that stands for the same tensor."""
    if row is None or snapshot is None:
        return None
    index = snapshot.index
    number = index.find(row.path)
    found = index.rows[number] if number is not None else None
    same = found is not None and found.ref is row.ref and (row.ref is not None or found.expected == row.expected)
    if same:  # nearly always: no look at each of 500,000 rows
        return found
    if row.ref is not None:
        return row_of(index.rows, row.ref)
    return next((r for r in without_ref(index.rows) if r.expected == row.expected), None)
