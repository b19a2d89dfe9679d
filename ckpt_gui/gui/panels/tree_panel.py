"""The key tree: what is in the file beside what is expected, with a filter, state chips and a walk over differences."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from PySide6.QtCore import QEvent, QItemSelection, QModelIndex, QObject, Qt, QTimer, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import (
    QMenu,
    QPushButton,
    QStackedLayout,
    QVBoxLayout,
    QWidget,
)  # fmt: skip

from ckpt_gui.core.diff import STATES, Row
from ckpt_gui.core.tree import CheckpointIndex, Filter, Hits, parse_filter, with_states
from ckpt_gui.gui.jobs import Job
from ckpt_gui.gui.models.tree_model import TreeModel
from ckpt_gui.gui.panels.filter_bar import FilterBar
from ckpt_gui.gui.panels.parts import GRID, button, label
from ckpt_gui.gui.panels.tree_view import KeyTreeView
from ckpt_gui.gui.session import Session, Snapshot
from ckpt_gui.gui.theme import Theme

DEBOUNCE_MS = 200
MANY = 50_000  # rows above which the filter runs in a job


class TreePanel(QWidget):
    """Shows the diff of the session's snapshot.

    Signals:
        selected(row): The current row, or None.
        group_selected(node): The current group, or None if nothing is current.
        all_shown(): The user wants to see more than only some tensors again.
        selection_changed(count, nbytes): Tensors selected, groups counted with all that is in them.
    """

    selected = Signal(object)
    group_selected = Signal(object)
    all_shown = Signal()
    selection_changed = Signal(int, object)

    def __init__(self, session: Session, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._session, self._theme = session, theme
        self._keys: frozenset[str] | None = None
        self.only = ""  # what the keys that are shown have in common
        self._current: str | None = None  # key of the selected row, kept over snapshots
        self._row: Row | None = None
        self._job: Job | None = None
        self._select_first = False  # once the filter has run
        self._flat_wanted: bool | None = None  # what the user chose; None: list while a filter is on
        self.model = TreeModel(theme, self)
        self._debounce = QTimer(self, singleShot=True, interval=DEBOUNCE_MS)
        self._build()
        self._debounce.timeout.connect(self.apply_filter)
        self.filter_box.textChanged.connect(self._on_text)
        self.filter_box.returnPressed.connect(self.apply_filter)
        for widget in (self.filter_box, self.view):
            widget.installEventFilter(self)
        self.bar.layout_chosen.connect(self._on_layout)
        self.bar.states_chosen.connect(self._on_states)
        self.bar.mode_chosen.connect(self.set_flat)
        self.bar.all_wanted.connect(self._show_all)
        self._clear.clicked.connect(self.clear_filter)
        self.view.state_wanted.connect(self.show_state)
        self.view.menu_opening.connect(self._on_menu)
        self.view.selectionModel().currentChanged.connect(self._on_current)
        self.view.selectionModel().selectionChanged.connect(self._on_selection)
        session.changed.connect(self.show_snapshot)
        session.closed.connect(self._on_closed)
        session.opening.connect(self._on_opening)
        theme.changed.connect(self._restyle)

    # ------------------------------------------------------------------------------------------------------ building

    def _build(self) -> None:
        self.bar = FilterBar(self._theme)
        self.filter_box = self.bar.box
        layout = QVBoxLayout(self)
        layout.setContentsMargins(GRID, GRID, GRID, GRID // 2)
        layout.setSpacing(GRID)
        layout.addWidget(self.bar)
        layout.addLayout(self._build_view(), 1)

    def _build_view(self) -> QStackedLayout:
        self.view = KeyTreeView(self.model, self._theme)
        self._nothing = QWidget()
        nothing = QVBoxLayout(self._nothing)
        nothing.addStretch()
        nothing.addWidget(label(self.tr("No tensor matches the filter."), muted=True), 0, Qt.AlignmentFlag.AlignCenter)
        self._clear: QPushButton = button(self.tr("Clear the filter"))
        nothing.addWidget(self._clear, 0, Qt.AlignmentFlag.AlignCenter)
        nothing.addStretch()
        self._stack = QStackedLayout()
        self._stack.addWidget(self.view)
        self._stack.addWidget(self._nothing)
        return self._stack

    # ------------------------------------------------------------------------------------------------------- showing

    def show_snapshot(self, snapshot: Snapshot) -> None:
        """Show a snapshot's diff; what was selected and unfolded stays so."""
        self.bar.show_layout(snapshot.plan, snapshot.decisions.target.layout)
        self.apply_filter()

    def apply_filter(self) -> None:
        """Show what the filter lets pass; in a job if there is much to look through."""
        self._debounce.stop()
        snapshot = self._session.snapshot
        if snapshot is None:
            return
        wanted, index, keys = parse_filter(self.filter_box.text()), snapshot.index, self._keys
        self._session.jobs.cancel(self._job, silently=True)
        self._job = None
        if len(index.rows) <= MANY or not (wanted or keys):
            self._show_hits(index, wanted, index.select(wanted, keys))
            return
        self._job = self._session.jobs.start(
            self.tr("Filtering"), lambda _: index.select(wanted, keys),
            lambda hits: self._show_hits(index, wanted, hits), lambda _: None, quiet=True,
        )  # fmt: skip

    def _show_hits(self, index: CheckpointIndex, wanted: Filter, hits: Hits) -> None:
        self._job = None
        filtered = bool(wanted) or self._keys is not None
        # Without a filter the tree shows everything; a filtered tree would show groups whose rows are not hits.
        flat = filtered or self._flat_wanted is True
        kept = self.view.unfolded()
        was_empty = not self.model.tree.rows
        self.model.show_rows(index, hits.rows if flat else None)
        if not flat:
            self.view.unfold_first(index) if was_empty or not kept else self.view.unfold(kept)
        self.view.setRootIsDecorated(not flat)
        self.view.share_room()
        self._stack.setCurrentIndex(1 if flat and not hits.rows else 0)
        self.bar.show_mode(flat=flat, filtered=filtered)
        self.bar.show_counts(hits.counts, wanted.states)
        self.bar.show_hits(len(hits.rows), len(index.rows), filtered=filtered)
        self._restore_current(index)
        self._tell_selection()  # a model that is reset says nothing of it
        if self._select_first:
            self.select_first()

    def show_keys(self, keys: Collection[str] | None, title: str = "") -> None:
        """Show only some tensors, such as those of a finding; None shows all again."""
        self._keys = frozenset(keys) if keys is not None else None
        self.only = title if keys is not None else ""
        self.bar.show_only(title if keys is not None else None)
        self.apply_filter()

    def _show_all(self) -> None:
        self.show_keys(None)
        self.all_shown.emit()

    def show_state(self, state: str) -> None:
        """Show only the rows in one state."""
        self.show_keys(None)
        self.set_filter(f"state:{state}")

    def set_filter(self, text: str) -> None:
        """Set the filter text and apply it at once."""
        self.filter_box.setText(text)
        self.apply_filter()

    def clear_filter(self) -> None:
        """Show everything again."""
        self.filter_box.clear()
        self._show_all()

    def set_flat(self, flat: bool) -> None:
        """Choose between the list of whole keys and the tree."""
        self._flat_wanted = flat
        if not flat:
            self.clear_filter()
        else:
            self.apply_filter()

    def select_first(self) -> None:
        """Select the first row, if there is one, as soon as the filter has run."""
        self._select_first = self._job is not None
        if self._select_first:
            return
        node = self.model.node(self.model.index(0, 0))
        if node is not None and not node.is_row:
            node = self.model.tree.next_row(node, STATES)
        if node is not None:
            self.view.go_to(node)

    def select_key(self, key: str) -> bool:
        """Select the row of a key; return False if there is none."""
        number = self.model.tree.find(key)
        if number is None:
            hits = self.model.tree.select(Filter(), {key}).rows
            number = hits[0] if hits else None
        if number is None:
            return False
        self.view.go_to(self.model.tree.locate(number))
        return True

    def toggle_dropped(self) -> None:
        """Leave the selected tensors out of the export, or take them in again; only those that may be left out."""
        snapshot = self._session.snapshot
        keys = {row.ref.full_key for row in self._droppable(self.view.selected_rows()) if row.ref is not None}
        if snapshot is None or not keys:
            return
        dropped = snapshot.decisions.policy.dropped
        self._session.change_policy(dropped=dropped - keys if keys <= dropped else dropped | keys)

    # ------------------------------------------------------------------------------------------------------- details

    def _droppable(self, rows: Sequence[Row]) -> list[Row]:
        """Return the rows that the user may leave out: what fits nowhere, and copies that collide."""
        snapshot = self._session.snapshot
        if snapshot is None:
            return []
        collide = {key for f in snapshot.plan.findings if f.code == "key-collision" for key in f.keys}
        return [row for row in rows if row.ref is not None and (row.state == "extra" or row.key in collide)]

    def _on_menu(self, menu: QMenu, rows: Sequence[Row]) -> None:
        usable = self._droppable(rows)
        if usable and self._session.snapshot is not None:
            dropped = self._session.snapshot.decisions.policy.dropped
            out = all(row.ref is not None and row.ref.full_key in dropped for row in usable)
            menu.addSeparator()
            menu.addAction(self.tr("Take into the export again") if out else self.tr("Leave out of the export"),
                           self.toggle_dropped)  # fmt: skip

    def _restore_current(self, index: CheckpointIndex) -> None:
        """Select the row that was selected before, if it is still there."""
        number = index.find(self._current) if self._current is not None else None
        if number is not None:
            place = self.model.index_of(index.locate(number))
            if place.isValid():
                self.view.go_to(index.locate(number))
                self._tell(index.rows[number])
                return
        self._tell(None)

    def _tell(self, row: Row | None) -> None:
        if row is not self._row:
            self._row = row
            self.selected.emit(row)

    def _on_current(self, current: QModelIndex, _previous: QModelIndex) -> None:
        row = self.model.row(current)
        if row is not None:
            node = self.model.node(current)
            assert node is not None
            self._current = self.model.tree.place(self.model.tree.number(node))
        self._tell(row)
        if row is None:
            selected = self.view.selectionModel().isSelected(current)  # Qt makes a row current when the focus comes
            self.group_selected.emit(self.model.node(current) if selected else None)

    def _on_selection(self, _on: QItemSelection, _off: QItemSelection) -> None:
        self._tell_selection()

    def _tell_selection(self) -> None:
        nodes = [self.model.node(index) for index in self.view.selectionModel().selectedRows()]
        found = [node for node in nodes if node is not None]
        self.selection_changed.emit(sum(n.size for n in found), sum(self.model.tree.nbytes(n) for n in found))

    def _on_text(self, _text: str) -> None:
        self._debounce.start()

    def _on_states(self, states: list[str]) -> None:
        self.set_filter(with_states(self.filter_box.text(), states))

    def _on_layout(self, layout: str) -> None:
        self._session.change_target(layout=layout)

    def _on_opening(self, _path: str) -> None:
        self._on_closed()

    def _on_closed(self) -> None:
        self._session.jobs.cancel(self._job, silently=True)
        self._job = None
        self._current = None
        self._keys, self.only = None, ""
        self.bar.show_only(None)
        self.filter_box.clear()
        self._debounce.stop()
        self.model.show_rows(CheckpointIndex(()))
        self._tell(None)

    def _restyle(self) -> None:
        self.model.restyle()
        self.view.viewport().update()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Escape shows everything again; if it is shown already, Escape or Down in the filter box goes to the tree."""
        if isinstance(event, QKeyEvent) and event.type() == QEvent.Type.KeyPress:
            if event.key() == Qt.Key.Key_Escape and (self.filter_box.text() or self.only):
                self.clear_filter()
                return True
            if watched is self.filter_box and event.key() in (Qt.Key.Key_Escape, Qt.Key.Key_Down):
                self.view.setFocus()
                return True
        return super().eventFilter(watched, event)
