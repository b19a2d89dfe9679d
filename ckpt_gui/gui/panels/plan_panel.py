"""The fix plan: every step that an export takes, with its evidence, before anything is written.

Steps that the export can do without are ticked off here, which makes another plan; required ones say why they are. What
stands in the way comes first, in red, with what to do about it.
"""

from __future__ import annotations

from collections.abc import Collection

from PySide6.QtCore import QPoint, QSignalBlocker, Qt, QTimer, Signal
from PySide6.QtGui import QGuiApplication, QResizeEvent
from PySide6.QtWidgets import QBoxLayout, QCheckBox, QHBoxLayout, QSplitter, QVBoxLayout, QWidget

from ckpt_gui.core.after import after_summary
from ckpt_gui.core.errors import Finding
from ckpt_gui.core.text import plural
from ckpt_gui.gui.fix_command import check_command, fix_command, unsayable
from ckpt_gui.gui.language import said
from ckpt_gui.gui.models.plan_rows import PlanRow
from ckpt_gui.gui.models.resolutions import Way, step_ways, ways_out
from ckpt_gui.gui.panels.parts import button
from ckpt_gui.gui.panels.plan_detail import StepDetail
from ckpt_gui.gui.panels.plan_steps import StepList
from ckpt_gui.gui.panels.plan_wishes import PlanWishes
from ckpt_gui.gui.session import Session
from ckpt_gui.gui.snapshot import Snapshot
from ckpt_gui.gui.theme import Theme
from ckpt_gui.gui.widgets.units import GRID, em, plain_label, quoted, tip_text

ROOMY_EMS = 36  # width from which on summary and buttons are on one line


class PlanPanel(QWidget):
    """The steps, the selected one in full, and the buttons that act on all.

    Signals:
        step_selected(keys): The tensors of the selected row, as full keys; empty for all.
        export_requested(): The user wants to export.
    """

    step_selected = Signal(tuple)
    export_requested = Signal()

    def __init__(self, session: Session, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._session, self._theme = session, theme
        self._ticked: list[str] = []
        self.wishes = PlanWishes(session, self)
        self._later = QTimer(self)
        self._later.setSingleShot(True)
        self._later.setInterval(0)
        self.tree, self.detail = StepList(theme), StepDetail(session.jobs, theme)
        self.summary = plain_label()
        self.only_button = button("", kind="quiet", tip=self.tr("Show every step again (F7)"))
        self.only_button.hide()
        self._only: frozenset[str] | None = None  # full keys: only the steps that concern these are listed
        self.preview_box = QCheckBox(self.tr("Previe&w"))
        self.preview_box.setToolTip(self.tr("Show the tree as the plan would write it (F9)"))
        self.preview_box.setAccessibleName(self.tr("Preview in the tree"))
        self.copy_button = button(self.tr("Copy command"), tip=self.tr("Copy the command that does the same"))
        self.export_button = button(self.tr("Fix && export…"), kind="primary")
        self._lay_out()
        self.tree.ticked.connect(self._on_ticked)
        self._later.timeout.connect(self._act_on_ticks)
        self.only_button.clicked.connect(lambda: self.show_steps_of(None))
        self.preview_box.toggled.connect(session.set_preview)
        self.tree.chosen.connect(self._on_selected)
        self.tree.customContextMenuRequested.connect(self._on_menu)
        self.tree.itemActivated.connect(lambda _item, _column: self._on_activated())
        self.tree.key_pressed.connect(self._on_key)
        self.detail.way_chosen.connect(self.wishes.resolve)
        self.copy_button.clicked.connect(self.copy_command)
        self.export_button.clicked.connect(self.export_requested)
        session.changed.connect(self._show)
        session.closed.connect(self._on_closed)
        theme.changed.connect(self._on_theme)
        self._show(session.snapshot)

    def _lay_out(self) -> None:
        self.split = split = QSplitter(Qt.Orientation.Horizontal)
        split.setChildrenCollapsible(False)
        split.addWidget(self.tree)
        split.addWidget(self.detail)
        split.setStretchFactor(0, 3)
        split.setStretchFactor(1, 2)
        split.setSizes([600, 400])
        self.tree.setMinimumWidth(em(self, 10))
        self.detail.setMinimumWidth(em(self, 6))
        self.summary.setAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)
        self.preview_box.setMinimumWidth(self.preview_box.sizeHint().width())
        self._foot = foot = QBoxLayout(QBoxLayout.Direction.LeftToRight)
        foot.setSpacing(GRID)
        foot.addWidget(self.summary, 1)
        buttons = QHBoxLayout()
        buttons.setSpacing(GRID)
        buttons.addWidget(self.preview_box)
        buttons.addStretch(1)
        buttons.addWidget(self.copy_button)
        buttons.addWidget(self.export_button)
        foot.addLayout(buttons)
        box = QVBoxLayout(self)
        box.setContentsMargins(GRID, GRID, GRID, GRID)
        box.setSpacing(GRID)
        box.addWidget(self.only_button, 0, Qt.AlignmentFlag.AlignLeft)
        box.addWidget(split, 1)
        box.addLayout(foot)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Put the buttons below the summary where it is narrow."""
        super().resizeEvent(event)
        wide = self.width() >= em(self, ROOMY_EMS)
        directions = QBoxLayout.Direction
        self._foot.setDirection(directions.LeftToRight if wide else directions.TopToBottom)

    # ------------------------------------------------------------------------------------------------------- showing

    def _on_closed(self) -> None:
        self._only = None
        self.only_button.hide()
        self._show(None)

    def _on_theme(self) -> None:
        self._show(self._session.snapshot)

    def _show(self, snapshot: Snapshot | None) -> None:
        self.preview_box.setEnabled(snapshot is not None)
        with QSignalBlocker(self.preview_box):
            self.preview_box.setChecked(snapshot is not None and snapshot.preview is not None)
        rows: list[PlanRow] = [*snapshot.export.blocked, *snapshot.steps] if snapshot else []
        rows = [row for row in rows if self._only is None or isinstance(row, Finding) or self._only & set(row.keys)]
        skipped = snapshot.decisions.policy.skip if snapshot else ()
        self.tree.show_rows(rows, skipped, snapshot.unconfirmed if snapshot else ())
        self.tree.setVisible(bool(rows) or snapshot is None)
        self._show_buttons(snapshot)
        self._show_summary(snapshot)
        self._show_detail(snapshot)

    def _show_buttons(self, snapshot: Snapshot | None) -> None:
        blocked = snapshot.export.blocked if snapshot else ()
        self.copy_button.setEnabled(snapshot is not None)
        self.export_button.setEnabled(snapshot is not None and not blocked)
        text = self.tr("Blocked: {}").format(quoted(blocked[0].message)) if blocked else ""
        self.export_button.setToolTip(tip_text(text or self.tr("Choose where to, and write it"), 600))

    def _show_summary(self, snapshot: Snapshot | None) -> None:
        if snapshot is None:
            self.summary.setText(self.tr("No checkpoint is open."))
            return
        text = self.tr("After the plan: {summary}").format(summary=said(after_summary(snapshot.export, snapshot.diff)))
        blocked = len(snapshot.export.blocked)
        if blocked == 1:
            text += self.tr(" · 1 finding blocks the export")
        elif blocked:
            text += self.tr(" · {n} findings block the export").format(n=blocked)
        elif snapshot.unconfirmed:
            text += self.tr(" · a likely step wants a tick")
        self.summary.setText(text)
        self.summary.setAccessibleName(text)
        whole = not blocked and not any(snapshot.diff.counts.get(name) for name in ("missing", "shape", "error"))
        role = "teal" if whole else "red"
        self.summary.setStyleSheet(f"color: {self._theme.color(role).name()}; font-weight: 600;")

    def _show_detail(self, snapshot: Snapshot | None) -> None:
        """Show the selected row in full. Without one the list has all the room, and its evidence column."""
        row = self.tree.row()
        self.detail.setVisible(snapshot is not None and (row is not None or self.tree.topLevelItemCount() == 0))
        self.detail.show_row(row, snapshot.export if snapshot else None, self._ways())

    def show_steps_of(self, keys: Collection[str] | None) -> None:
        """List only the steps that concern some tensors, by their full keys; None lists all."""
        self._only = frozenset(keys) if keys is not None else None
        text = self.tr("Only what concerns {tensors}  ✕").format(
            tensors=said(plural(len(keys or ()), "selected tensor"))
        )
        self.only_button.setText(text)
        self.only_button.setAccessibleName(text.removesuffix("  ✕"))
        self.only_button.setVisible(keys is not None)
        self._show(self._session.snapshot)

    def clear_selection(self) -> None:
        """Select no step."""
        self.tree.clearSelection()

    # ------------------------------------------------------------------------------------------------------- wishes

    def _on_selected(self) -> None:
        row, snapshot = self.tree.row(), self._session.snapshot
        self._show_detail(snapshot)
        if row is None or snapshot is None:
            self.step_selected.emit(())
        elif isinstance(row, Finding):
            wanted = set(row.keys)
            full = {r.key: r.full_key for r in snapshot.source.refs if r.key in wanted}
            self.step_selected.emit(tuple(full.get(key, key) for key in row.keys))
        else:
            self.step_selected.emit(row.keys)

    def _on_ticked(self, name: str) -> None:
        """Note a tick; it is acted on once the list is done with it, as that replaces every row."""
        self._ticked.append(name)
        self._later.start()

    def _act_on_ticks(self) -> None:
        ticked, self._ticked = self._ticked, []
        snapshot = self._session.snapshot
        for step in snapshot.steps if snapshot else ():
            if step.id in ticked:
                self.wishes.tick(step)

    def _ways(self) -> tuple[Way, ...]:
        """Return the ways out of the selected row."""
        row, snapshot = self.tree.row(), self._session.snapshot
        if row is None or snapshot is None:
            return ()
        if isinstance(row, Finding):
            return ways_out(row, snapshot.export)
        return step_ways(row, len(snapshot.decisions.policy.renames))

    def _on_menu(self, point: QPoint) -> None:
        self.wishes.open_menu(self._ways(), self.tree.viewport(), point)

    def _on_activated(self) -> None:
        """Edit a step of the user's; offer the ways out of what blocks."""
        item, ways = self.tree.currentItem(), self._ways()
        if ways and ways[0].kind in ("edit", "field"):
            self.wishes.resolve(ways[0])
        elif item is not None:
            self._on_menu(self.tree.visualItemRect(item).bottomLeft())

    def _on_key(self, kind: str) -> None:
        """Do what a key asks for with the selected row, if it can be done."""
        for way in self._ways():
            if way.kind == kind:
                self.wishes.resolve(way)

    def copy_command(self) -> None:
        """Copy the command that does the same as the plan."""
        snapshot = self._session.snapshot
        if snapshot is None:
            return
        words = [fix_command(snapshot)]
        if self._session.reference.name:
            words.insert(0, check_command(snapshot, self._session.reference.name))
        QGuiApplication.clipboard().setText("\n".join(words))
        untold = unsayable(snapshot)
        note = self.tr("Copied; {n} choices made by hand are not in it.").format(n=untold) if untold else ""
        self.copy_button.setToolTip(note or self.tr("Copied to the clipboard."))
