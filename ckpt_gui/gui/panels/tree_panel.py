"""The key tree: what is in the file beside what is expected, with a filter, state chips and a walk over differences."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from PySide6.QtCore import QEvent, QObject, Qt, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QHBoxLayout, QPushButton, QStackedLayout, QVBoxLayout, QWidget

from ckpt_gui.core.diff import STATES
from ckpt_gui.core.filtering import FilterError, Query, replaced
from ckpt_gui.core.row_tree import Node
from ckpt_gui.core.tree import CheckpointIndex
from ckpt_gui.gui.models.key_looks import AFTER, BESIDE, EXPECTED, KEY, KeyLooks
from ckpt_gui.gui.models.list_model import ListModel
from ckpt_gui.gui.models.overview import group
from ckpt_gui.gui.models.tree_columns import Mode
from ckpt_gui.gui.models.tree_model import TreeModel
from ckpt_gui.gui.panels.filter_bar import FilterBar
from ckpt_gui.gui.panels.parts import button, label
from ckpt_gui.gui.panels.preview_bar import PreviewBar
from ckpt_gui.gui.panels.tree_copy import TreeCopy
from ckpt_gui.gui.panels.tree_drop import Dropping
from ckpt_gui.gui.panels.tree_figures import TreeFigures
from ckpt_gui.gui.panels.tree_filter import FilterRun, Found, find
from ckpt_gui.gui.panels.tree_heads import TreeHeads
from ckpt_gui.gui.panels.tree_menu import TreeMenu
from ckpt_gui.gui.panels.tree_modes import TreeModes
from ckpt_gui.gui.panels.tree_selection import TreeSelection
from ckpt_gui.gui.panels.tree_strip import TreeStrip
from ckpt_gui.gui.panels.tree_unfolding import MOST_UNASKED, Unfolding, rows_below
from ckpt_gui.gui.panels.tree_views import KeyViews
from ckpt_gui.gui.session import Session
from ckpt_gui.gui.snapshot import Snapshot
from ckpt_gui.gui.theme import Theme
from ckpt_gui.gui.widgets.trouble_line import TroubleLine
from ckpt_gui.gui.widgets.units import GRID


class TreePanel(QWidget):
    """Shows the diff of the session's snapshot.

    Signals:
        selected(row): The current row, or None.
        group_selected(overview): The current group in figures, or None if nothing is current.
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
        self._path: str | None = None  # of what is shown, or is being read again
        self.looks = KeyLooks(theme, self)
        self._build()
        self.search.due.connect(self.apply_filter)
        self.search.found.connect(self._show_found)
        self.search.refused.connect(self._on_refused)
        self.search.failed.connect(self.trouble.say_error)
        self.bar.builder.edited.connect(self.search.wait)
        self.filter_box.textChanged.connect(self.search.wait)
        self.filter_box.returnPressed.connect(self.apply_filter)
        for widget in (self.filter_box, *self.view.both):
            widget.installEventFilter(self)
        self.bar.layout_chosen.connect(self._on_layout)
        self.bar.states_chosen.connect(self._on_states)
        self.bar.mode_chosen.connect(self.set_mode)
        self.bar.all_wanted.connect(self._show_all)
        self._clear.clicked.connect(self.clear_filter)
        self.view.tree.all_below_wanted.connect(self._on_all_below)
        self.view.state_wanted.connect(self.show_state)
        self.selection.row_chosen.connect(self.selected)
        self.selection.group_chosen.connect(self._on_group)
        self.selection.counted.connect(self.selection_changed)
        session.listed.connect(self.show_listing)
        session.changed.connect(self.show_snapshot)
        session.closed.connect(self._on_closed)
        session.failed.connect(lambda _: self._on_closed())
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
        self.view = KeyViews(self.looks, self._theme)
        self.columns = TreeHeads(self.view, self)
        self.figures = TreeFigures(self._session, self.view, self.columns)
        self.selection = TreeSelection(self.view)
        self.copying = TreeCopy(self.view, self._session.jobs)
        self.unfolding = Unfolding(self.view.tree)
        self.modes = TreeModes(self.view, self.unfolding)
        self.menu = TreeMenu(self.view, self.copying, self.unfolding)
        self.dropping = Dropping(self._session, self.view)
        self.strip = TreeStrip(self.view, self._theme)
        self._clear = button(self.tr("Clear the filter"))
        self._stack = QStackedLayout()
        keys = QWidget()
        beside = QHBoxLayout(keys)
        beside.setContentsMargins(0, 0, 0, 0)
        beside.setSpacing(GRID // 2)
        beside.addWidget(self.view, 1)
        beside.addWidget(self.strip.strip)
        self._stack.addWidget(keys)
        self._nothing = _nothing(self.tr("No tensor matches the filter."), self._clear)
        self._stack.addWidget(self._nothing)
        return self._stack

    # ------------------------------------------------------------------------------------------------------- showing

    @property
    def model(self) -> TreeModel | ListModel:
        """The model of what is shown."""
        return self.view.keys

    @property
    def mode(self) -> Mode:
        """In which way the keys are shown."""
        return self.modes.shown[0]

    @property
    def chosen_mode(self) -> str:
        """How the user wants the keys without a filter; empty if that was left to their number."""
        return self.modes.chosen

    def show_snapshot(self, snapshot: Snapshot) -> None:
        """Show a snapshot's diff; what was selected and unfolded stays so."""
        self._path = self._session.path
        beside = snapshot.beside is not None and snapshot.preview is None
        self.looks.expected_title = BESIDE if beside else EXPECTED
        self.looks.key_title = KEY if snapshot.preview is None else AFTER
        self.preview_bar.show_snapshot(snapshot)
        self.bar.show_layout(snapshot.plan, snapshot.decisions.target.layout)
        self.bar.dtypes = snapshot.shown.types
        self.apply_filter()

    def show_listing(self, index: CheckpointIndex) -> None:
        """Show tensors of which no more is known than their headers tell."""
        self._path = self._session.path
        self.bar.dtypes = index.types
        self.apply_filter()

    def apply_filter(self) -> None:
        """Show what the filter lets pass."""
        snapshot, listing = self._session.snapshot, self._session.listing
        index = snapshot.shown if snapshot is not None else listing
        if index is not None:
            wanted = self.modes.wanted(len(index.rows) if snapshot is not None else 0)
            self.search.run(index, self.filter_box.text(), wanted)

    def _show_found(self, found: Found) -> None:
        self.trouble.say("")
        self.filter_box.show_error("")
        self.modes.keep()
        self.selection.hold()
        top, offset = self.view.top() if found.index is not self.selection.index else (None, 0)
        in_sight = self.selection.index.place(top) if top is not None else None
        self.modes.shown = (found.mode, found.filtered)
        snapshot = self._session.snapshot
        self.modes.after = snapshot is not None and snapshot.preview is not None
        if found.tree is None:
            self.unfolding.stop()  # of what is hidden from now on; turning back begins anew
            self.view.show_list(found.index, found.hits)
        else:
            self.view.show_tree(found.tree)
            self.modes.unfold(found.tree)
        self._stack.setCurrentIndex(1 if found.filtered and not found.hits.rows else 0)
        if (
            self._session.snapshot is not None
        ):  # a listing is shown for seconds only: its memory is better left to the plan
            self.search.prepare(found.index)
        self.bar.show_mode(found.mode)
        self.bar.show_counts(found.hits.counts, found.query.states)
        self.bar.show_hits(len(found.hits.rows), len(found.index.rows), filtered=found.filtered)
        self.selection.restore(found.index)
        if in_sight is not None and (number := found.index.find(in_sight)) is not None:
            self.view.scroll_to(number, offset)
        if self._select_first:
            self.select_first()

    def _on_refused(self, index: CheckpointIndex, error: FilterError) -> None:
        """Say what is wrong with the filter; what is shown stays, unless it is of an older snapshot."""
        if index is not self.selection.index:
            mode = self.modes.wanted(len(index.rows))[self.search.keys is not None]
            self._show_found(find(index, Query(), self.search.keys, mode))
        self.filter_box.show_error(error.message, unfinished=error.unfinished)

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

    def set_mode(self, mode: Mode) -> None:
        """Show the keys in another way; with a filter and without, each stays as it was chosen."""
        filtered = bool(self.filter_box.text().strip()) or self.search.keys is not None
        self.modes.choose(mode, filtered=filtered)
        self.apply_filter()

    def select_first(self) -> None:
        """Select the first row, if there is one, as soon as the filter has run."""
        self._select_first = self.search.running
        if self._select_first:
            return
        if self.view.flat:
            if self.view.list.keys.listed:
                self.view.list.go_to_place(0)
            return
        tree = self.view.tree.keys.tree
        if (node := tree.first_row(tree.root, STATES)) is not None:
            self.view.tree.go_to(node)

    def select_key(self, key: str) -> bool:
        """Select the row of a key; return False if there is none, or if the filter hides it."""
        index = self.selection.index
        number = index.find(key)
        if number is None:
            hits = index.select(Query(), {key}).rows
            number = hits[0] if hits else None
        if number is None or not self.model.holds(number):
            return False
        self.view.go_to(number)
        return True

    def rows_below_selection(self) -> int:
        """Return how many rows the selected groups hold; all that there are where nothing is selected."""
        return rows_below(self._chosen_nodes())

    def unfold_selection(self) -> None:
        """Unfold the selected groups with all that is below; everything where nothing is selected."""
        self.unfolding.unfold(self._chosen_nodes())

    def fold_selection(self) -> None:
        """Fold the selected groups, or those of the selected tensors; everything where nothing is selected."""
        self.unfolding.fold(self._chosen_nodes())

    def _chosen_nodes(self) -> Sequence[Node]:
        tree = self.view.tree.keys.tree
        return () if self.view.flat else self.view.selected_nodes() or tree.children(tree.root)

    # ------------------------------------------------------------------------------------------------------- details

    def _on_all_below(self) -> None:
        if self.rows_below_selection() <= MOST_UNASKED:
            self.unfold_selection()

    def _on_states(self, states: list[str]) -> None:
        self.set_filter(replaced(self.filter_box.text(), "state", "|".join(states)))

    def _on_layout(self, layout: str) -> None:
        self._session.change_target(layout=layout, container=None, model_parallel=None)

    def _on_group(self, node: Node | None) -> None:
        tree = self.view.tree.keys.tree
        self.group_selected.emit(group(tree, node) if node is not None else None)

    def _on_opening(self, path: str) -> None:
        """Forget what was shown; what is only read again stays selected, unfolded and filtered."""
        self.search.stop()
        if path != self._path:
            self._on_closed()

    def _on_closed(self) -> None:
        self.search.stop()
        self.search.show_only(None)
        self.only = ""
        self.bar.show_only(None)
        self.filter_box.clear()
        self.search.forget()
        self.figures.stop()
        self._path = None
        self.modes.forget()
        self.view.clear()
        self.selection.forget()

    def _restyle(self) -> None:
        self.looks.restyle()

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
