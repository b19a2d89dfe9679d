"""The key tree: what is in the file beside what is expected, with a filter, state chips and a walk over differences."""

from __future__ import annotations

from collections.abc import Collection

from PySide6.QtCore import QEvent, QObject, Qt, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import (
    QPushButton,
    QStackedLayout,
    QVBoxLayout,
    QWidget,
)  # fmt: skip

from ckpt_gui.core.diff import STATES
from ckpt_gui.core.filtering import FilterError, Query, replaced
from ckpt_gui.core.tree import CheckpointIndex, Hits
from ckpt_gui.gui.models.tree_model import AFTER, EXPECTED, KEY, TreeModel
from ckpt_gui.gui.panels.filter_bar import FilterBar
from ckpt_gui.gui.panels.parts import button, label
from ckpt_gui.gui.panels.preview_bar import PreviewBar
from ckpt_gui.gui.panels.tree_drop import Dropping
from ckpt_gui.gui.panels.tree_filter import FilterRun
from ckpt_gui.gui.panels.tree_selection import TreeSelection
from ckpt_gui.gui.panels.tree_view import KeyTreeView
from ckpt_gui.gui.session import Session
from ckpt_gui.gui.snapshot import Snapshot
from ckpt_gui.gui.theme import Theme
from ckpt_gui.gui.widgets.trouble_line import TroubleLine
from ckpt_gui.gui.widgets.units import GRID


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
        self.search = FilterRun(session.jobs, self)
        self.only = ""  # what the keys that are shown have in common
        self._select_first = False  # once the filter has run
        self._flat_wanted: bool | None = None  # what the user chose; None: list while a filter is on
        self.model = TreeModel(theme, self)
        self._build()
        self.search.due.connect(self.apply_filter)
        self.search.found.connect(self._show_hits)
        self.search.refused.connect(self._on_refused)
        self.search.failed.connect(self.trouble.say_error)
        self.bar.builder.edited.connect(self.search.wait)
        self.filter_box.textChanged.connect(self.search.wait)
        self.filter_box.returnPressed.connect(self.apply_filter)
        for widget in (self.filter_box, self.view):
            widget.installEventFilter(self)
        self.bar.layout_chosen.connect(self._on_layout)
        self.bar.states_chosen.connect(self._on_states)
        self.bar.mode_chosen.connect(self.set_flat)
        self.bar.all_wanted.connect(self._show_all)
        self._clear.clicked.connect(self.clear_filter)
        self.view.state_wanted.connect(self.show_state)
        self.selection.row_chosen.connect(self.selected)
        self.selection.group_chosen.connect(self.group_selected)
        self.selection.counted.connect(self.selection_changed)
        session.changed.connect(self.show_snapshot)
        session.closed.connect(self._on_closed)
        session.opening.connect(self._on_opening)
        theme.changed.connect(self._restyle)

    # ------------------------------------------------------------------------------------------------------ building

    def _build(self) -> None:
        self.bar = FilterBar(self._theme)
        self.trouble = TroubleLine(self._session.jobs)
        self.preview_bar = PreviewBar(self._session, self._theme)
        self.filter_box = self.bar.box
        layout = QVBoxLayout(self)
        layout.setContentsMargins(GRID, GRID, GRID, GRID // 2)
        layout.setSpacing(GRID)
        layout.addWidget(self.bar)
        layout.addWidget(self.trouble)
        layout.addWidget(self.preview_bar)
        layout.addLayout(self._build_view(), 1)

    def _build_view(self) -> QStackedLayout:
        self.view = KeyTreeView(self.model, self._theme)
        self.selection = TreeSelection(self.view)
        self.dropping = Dropping(self._session, self.view)
        self._clear = button(self.tr("Clear the filter"))
        self._stack = QStackedLayout()
        self._stack.addWidget(self.view)
        self._nothing = _nothing(self.tr("No tensor matches the filter."), self._clear)
        self._stack.addWidget(self._nothing)
        return self._stack

    # ------------------------------------------------------------------------------------------------------- showing

    def show_snapshot(self, snapshot: Snapshot) -> None:
        """Show a snapshot's diff; what was selected and unfolded stays so."""
        self.model.expected_title = (
            "Key in the reference" if snapshot.beside is not None and snapshot.preview is None else EXPECTED
        )
        self.model.key_title = KEY if snapshot.preview is None else AFTER
        self.preview_bar.show_snapshot(snapshot)
        self.bar.show_layout(snapshot.plan, snapshot.decisions.target.layout)
        self.bar.dtypes = frozenset(row.dtype for row in snapshot.shown.rows)
        self.apply_filter()

    def apply_filter(self) -> None:
        """Show what the filter lets pass."""
        snapshot = self._session.snapshot
        if snapshot is not None:
            self.search.run(snapshot.shown, self.filter_box.text())

    def _show_hits(self, index: CheckpointIndex, wanted: Query, hits: Hits) -> None:
        self.trouble.say("")
        self.filter_box.show_error("")
        filtered = bool(wanted) or self.search.keys is not None
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
        self.selection.restore(index)
        if self._select_first:
            self.select_first()

    def _on_refused(self, index: CheckpointIndex, error: FilterError) -> None:
        """Say what is wrong with the filter; what is shown stays, unless it is of an older snapshot."""
        if index is not self.model.tree:
            self._show_hits(index, Query(), index.select(Query(), self.search.keys))
        self.filter_box.show_error(error.message)

    def show_keys(self, keys: Collection[str] | None, title: str = "") -> None:
        """Show only some tensors, such as those of a finding; None shows all again."""
        self.search.show_only(keys)
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
        self._select_first = self.search.running
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
            hits = self.model.tree.select(Query(), {key}).rows
            number = hits[0] if hits else None
        if number is None:
            return False
        self.view.go_to(self.model.tree.locate(number))
        return True

    # ------------------------------------------------------------------------------------------------------- details

    def _on_states(self, states: list[str]) -> None:
        self.set_filter(replaced(self.filter_box.text(), "state", "|".join(states)))

    def _on_layout(self, layout: str) -> None:
        self._session.change_target(layout=layout, container=None, model_parallel=None)

    def _on_opening(self, _path: str) -> None:
        self._on_closed()

    def _on_closed(self) -> None:
        self.search.stop()
        self.search.show_only(None)
        self.only = ""
        self.bar.show_only(None)
        self.filter_box.clear()
        self.search.stop()
        self.model.show_rows(CheckpointIndex(()))
        self.selection.forget()

    def _restyle(self) -> None:
        self.model.restyle()
        self.view.viewport().update()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Escape shows everything again; if it is shown already, it goes to the tree, as Down in the filter box does.

        Down goes forth in the box's history first, where Up has gone back in it.
        """
        if isinstance(event, QKeyEvent) and event.type() == QEvent.Type.KeyPress:
            if event.key() == Qt.Key.Key_Escape and (self.filter_box.text() or self.only):
                self.clear_filter()
                return True
            if watched is self.filter_box and event.key() in (Qt.Key.Key_Escape, Qt.Key.Key_Down):
                if event.key() == Qt.Key.Key_Escape or not self.filter_box.step(-1):
                    self.view.setFocus()
                return True
        return super().eventFilter(watched, event)


def _nothing(text: str, way_out: QPushButton) -> QWidget:
    """Return what stands in the tree's place when it is empty."""
    page = QWidget()
    column = QVBoxLayout(page)
    column.addStretch()
    column.addWidget(label(text, muted=True), 0, Qt.AlignmentFlag.AlignCenter)
    column.addWidget(way_out, 0, Qt.AlignmentFlag.AlignCenter)
    column.addStretch()
    return page
