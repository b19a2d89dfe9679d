"""The key tree: what is in the file beside what is expected, with a filter, state chips and a walk over differences."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from PySide6.QtCore import QEvent, QItemSelection, QModelIndex, QObject, Qt, QTimer, Signal
from PySide6.QtGui import QKeyEvent, QResizeEvent
from PySide6.QtWidgets import (
    QButtonGroup,
    QComboBox,
    QHBoxLayout,
    QLineEdit,
    QMenu,
    QPushButton,
    QStackedLayout,
    QToolButton,
    QVBoxLayout,
    QWidget,
)  # fmt: skip

from ckpt_gui.core.diff import STATES, Row
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.text import plural
from ckpt_gui.core.tree import CheckpointIndex, Filter, Hits, parse_filter, with_states
from ckpt_gui.gui.jobs import Job
from ckpt_gui.gui.models.tree_model import TreeModel
from ckpt_gui.gui.panels.parts import GRID, FlowLayout, button, label
from ckpt_gui.gui.panels.state_paint import StateChip
from ckpt_gui.gui.panels.tree_view import KeyTreeView
from ckpt_gui.gui.session import Session, Snapshot
from ckpt_gui.gui.theme import Theme
from ckpt_gui.gui.wording import LAYOUTS

DEBOUNCE_MS = 200
MANY = 50_000  # rows above which the filter runs in a job
ROOMY_EMS = 34  # width from which on the layout has a label
ALWAYS = ("missing", "extra")  # states whose chip is there even at 0


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
        self.layout_combo.activated.connect(self._on_layout)
        self._only.clicked.connect(self._show_all)
        self._clear.clicked.connect(self.clear_filter)
        self._modes.idClicked.connect(lambda mode: self.set_flat(bool(mode)))
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
        self.filter_box = QLineEdit()
        self.filter_box.setPlaceholderText(self.tr("Filter keys"))
        self.filter_box.setToolTip(
            self.tr("Words must all be in the key. state:missing and dtype:bf16 choose; ! before a term leaves it out.")
        )
        self.filter_box.setAccessibleName(self.tr("Filter"))
        self.filter_box.setClearButtonEnabled(True)
        self.filter_box.setMinimumWidth(7 * self.fontMetrics().height())
        self.filter_box.setAcceptDrops(False)  # a file that is dropped is opened, wherever that is
        self.layout_combo = QComboBox()
        self.layout_combo.setAccessibleName(self.tr("Expected in"))
        self.layout_combo.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        self.layout_combo.setMinimumContentsLength(9)
        for name, title in LAYOUTS.items():
            self.layout_combo.addItem(title, name)
        self._wanted = label(self.tr("Expected in"), muted=True)
        self._wanted.setBuddy(self.layout_combo)
        self._wanted.setMinimumWidth(1)  # it gives way first, see resizeEvent
        self.layout_combo.setToolTip(self.tr("The layout that the keys are compared with, and that an export has"))
        top = QHBoxLayout()
        top.setSpacing(GRID)
        top.addWidget(self.filter_box, 1)
        top.addWidget(self._wanted)
        top.addWidget(self.layout_combo)
        top.addLayout(self._build_modes())
        layout = QVBoxLayout(self)
        layout.setContentsMargins(GRID, GRID, GRID, GRID // 2)
        layout.setSpacing(GRID)
        layout.addLayout(top)
        layout.addWidget(self._build_chips())
        self._only = button(self.tr("Show all"), kind="quiet", tip=self.tr("Show all keys again"))
        self._only.hide()
        layout.addWidget(self._only, 0, Qt.AlignmentFlag.AlignLeft)
        layout.addLayout(self._build_view(), 1)

    def _build_modes(self) -> QHBoxLayout:
        self._modes = QButtonGroup(self)
        box = QHBoxLayout()
        box.setSpacing(0)
        for mode, (text, tip) in enumerate(
            (
                (self.tr("Tree"), self.tr("Keys by their parts (Ctrl+1)")),
                (self.tr("List"), self.tr("Whole keys (Ctrl+2)")),
            )
        ):
            made = QToolButton()
            made.setText(text)
            made.setCheckable(True)
            made.setToolTip(tip)
            made.setAccessibleName(self.tr("Show as {}").format(text.lower()))
            made.setProperty("kind", "segment")
            self._modes.addButton(made, mode)
            box.addWidget(made)
        self._modes.button(0).setChecked(True)
        return box

    def _build_chips(self) -> QWidget:
        strip = QWidget()
        flow = FlowLayout(strip, spacing=GRID // 2 + 2)
        self.chips: dict[str, StateChip] = {}
        for state in STATES:
            chip = StateChip(state, self._theme)
            chip.clicked.connect(self._on_chip)
            flow.addWidget(chip)
            self.chips[state] = chip
        self.counter = label(muted=True)
        self.counter.setContentsMargins(GRID // 2, GRID // 2 + 1, 0, 0)  # on the line of the chips' texts
        flow.addWidget(self.counter)
        return strip

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

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Leave out the label of the layout where it would be cut."""
        super().resizeEvent(event)
        self._wanted.setVisible(self.width() >= ROOMY_EMS * self.fontMetrics().height())

    # ------------------------------------------------------------------------------------------------------- showing

    def show_snapshot(self, snapshot: Snapshot) -> None:
        """Show a snapshot's diff; what was selected and unfolded stays so."""
        plan = snapshot.plan
        self.layout_combo.setCurrentIndex(self.layout_combo.findData(snapshot.decisions.target.layout))
        for place in range(self.layout_combo.count()):
            name = self.layout_combo.itemData(place)
            usable = name == "same" or (plan.family is not None and plan.family.layout(name) is not None)
            self.layout_combo.model().item(place).setEnabled(usable)  # type: ignore[attr-defined]
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
        self._modes.button(int(flat)).setChecked(True)
        self._modes.button(0).setEnabled(not filtered)
        self._stack.setCurrentIndex(1 if flat and not hits.rows else 0)
        self._show_counts(hits.counts, wanted.states, len(hits.rows), len(index.rows), filtered)
        self._restore_current(index)
        self._tell_selection()  # a model that is reset says nothing of it
        if self._select_first:
            self.select_first()

    def _show_counts(
        self, counts: Mapping[str, int], states: Collection[str], hits: int, total: int, filtered: bool
    ) -> None:
        for state, chip in self.chips.items():
            chip.set_count(counts.get(state, 0))
            chip.setChecked(state in states)
            chip.setVisible(bool(chip.count) or state in ALWAYS or state in states)
        self.counter.setText(self.tr("{} of {}").format(f"{hits:,}", f"{total:,}"))
        self.counter.setVisible(filtered)
        self.filter_box.setPlaceholderText(self.tr("Filter {}").format(plural(total, "tensor")))

    def show_keys(self, keys: Collection[str] | None, title: str = "") -> None:
        """Show only some tensors, such as those of a finding; None shows all again."""
        self._keys = frozenset(keys) if keys is not None else None
        self._only.setText(self.tr("Only {}   ✕").format(safe_text(title, 80)))
        self._only.setAccessibleName(self.tr("Stop showing only {}").format(safe_text(title, 80)))
        self._only.setVisible(keys is not None)
        self.only = title if keys is not None else ""
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

    def _on_chip(self) -> None:
        states = [state for state, chip in self.chips.items() if chip.isChecked()]
        self.set_filter(with_states(self.filter_box.text(), states))

    def _on_layout(self, place: int) -> None:
        self._session.change_target(layout=self.layout_combo.itemData(place))

    def _on_opening(self, _path: str) -> None:
        self._on_closed()

    def _on_closed(self) -> None:
        self._session.jobs.cancel(self._job, silently=True)
        self._job = None
        self._current = None
        self._keys, self.only = None, ""
        self._only.hide()
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

    @property
    def chips_shown(self) -> list[str]:
        """The states that have a chip now."""
        return [state for state, chip in self.chips.items() if not chip.isHidden()]
