"""The two views of the keys, of which one is shown: as a tree of groups or families, or as a flat list."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QItemSelection, QItemSelectionModel, QModelIndex, QPoint, Signal
from PySide6.QtWidgets import QAbstractItemView, QStackedWidget, QWidget

from ckpt_gui.core.diff import Row
from ckpt_gui.core.row_tree import CODE, Node, RowTree
from ckpt_gui.core.rows import Picked
from ckpt_gui.core.tree import DIFFERENT, CheckpointIndex, Hits
from ckpt_gui.gui.models.key_looks import KeyLooks
from ckpt_gui.gui.models.list_model import ListModel
from ckpt_gui.gui.models.tree_model import TreeModel
from ckpt_gui.gui.panels.list_view import KeyListView
from ckpt_gui.gui.panels.tree_view import KeyTreeView
from ckpt_gui.gui.theme import Theme

_IS_DIFFERENT = bytes([name in DIFFERENT for name in CODE]).ljust(
    256, b"\0"
)  # code of a state → 1 where the walk stops
_SELECT = QItemSelectionModel.SelectionFlag.Select | QItemSelectionModel.SelectionFlag.Rows


class KeyViews(QStackedWidget):
    """Shows rows in one of its views; both answer to the same questions.

    Signals:
        changed(): Other rows are shown, or the other view is.
        state_wanted(state): The user wants to see only the rows in this state.
        menu_opening(menu, rows): Whoever has something to offer for the selected rows adds it.
    """

    changed = Signal()
    state_wanted = Signal(str)
    menu_opening = Signal(object, object)

    def __init__(self, looks: KeyLooks, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.looks = looks
        self.tree = KeyTreeView(TreeModel(looks, self), theme)
        self.list = KeyListView(ListModel(looks, self), theme)
        self.both = (self.tree, self.list)
        for view in self.both:
            self.addWidget(view)
        looks.changed.connect(self._on_looks)
        self._on_looks()

    # ------------------------------------------------------------------------------------------------------- showing

    @property
    def current(self) -> KeyTreeView | KeyListView:
        """The view that is shown."""
        return self.list if self.flat else self.tree

    @property
    def flat(self) -> bool:
        """Whether it is the list."""
        return self.currentWidget() is self.list

    @property
    def keys(self) -> TreeModel | ListModel:
        """The model of the view that is shown."""
        return self.current.keys

    def show_tree(self, tree: RowTree) -> None:
        """Show a tree."""
        self.looks.forget()
        self.tree.keys.show_tree(tree)
        self._turn_to(self.tree)

    def show_list(self, index: CheckpointIndex, hits: Hits) -> None:
        """Show some rows as a list."""
        self.looks.forget()
        self.list.keys.show_rows(index, hits)
        self._turn_to(self.list)

    def top(self) -> tuple[int | None, int]:
        """Return the number of the first row in sight, and where it begins; None at a group or unscrolled."""
        view = self.current
        index = view.indexAt(QPoint(1, 1))
        return self.keys.number(index) if view.verticalScrollBar().value() else None, view.visualRect(index).top()

    def scroll_to(self, number: int, offset: int) -> None:
        """Let a row, by its number, be the first in sight, beginning where `top` said; if it is shown."""
        index = self._index_of(number)
        if index.isValid():
            self.current.scrollTo(index, QAbstractItemView.ScrollHint.PositionAtTop)
            bar = self.current.verticalScrollBar()
            bar.setValue(bar.value() - offset)

    def clear(self) -> None:
        """Show nothing, and let go of what was shown."""
        self.looks.forget(figures=True)
        self.list.keys.show_rows(CheckpointIndex(()), Hits(()))
        self.tree.keys.show_tree(CheckpointIndex(()))
        self.changed.emit()

    def _turn_to(self, view: KeyTreeView | KeyListView) -> None:
        focused = self.current.hasFocus()
        self.setCurrentWidget(view)
        self.setFocusProxy(view)
        if focused:
            view.setFocus()
        self.changed.emit()

    def _on_looks(self) -> None:
        """Draw again what is in sight, in rows of the right height."""
        metrics = self.fontMetrics()
        self.list.set_row_height(max(metrics.height(), self.looks.key_metrics().height()))
        for view in self.both:
            view.viewport().update()

    # ----------------------------------------------------------------------------------------------------- selection

    def currentIndex(self) -> QModelIndex:  # type: ignore[override]
        """Return the current index of the view that is shown."""
        return self.current.currentIndex()

    def current_number(self) -> int | None:
        """Return the number of the current row, if it is selected: Qt makes one current when the focus comes."""
        index = self.currentIndex()
        return self.keys.number(index) if self.current.selectionModel().isSelected(index) else None

    def current_group(self) -> Node | None:
        """Return the current group, if one is selected."""
        if self.flat:
            return None
        index = self.tree.currentIndex()
        node = self.tree.keys.node(index)
        is_group = node is not None and not node.is_row and self.tree.selectionModel().isSelected(index)
        return node if is_group else None

    def selected_nodes(self) -> list[Node]:
        """Return what is selected in the tree, from top to bottom; nothing for a list."""
        if self.flat:
            return []
        nodes = (self.tree.keys.node(index) for index in self.tree.selectionModel().selectedRows())
        return sorted((n for n in nodes if n is not None), key=lambda n: [above.place for above in n.ancestors()])

    def selected_numbers(self) -> Sequence[int]:
        """Return the numbers of the rows that are selected, from top to bottom; groups do not count."""
        if not self.flat:
            return [self.tree.keys.tree.number(node) for node in self.selected_nodes() if node.is_row]
        selection = self.list.selectionModel().selection()
        ranges = [selection.at(n) for n in range(selection.size())]
        spans = sorted((r.top(), r.bottom()) for r in ranges)
        listed = self.list.keys.listed
        if len(spans) == 1:
            return listed[spans[0][0] : spans[0][1] + 1]
        return [number for first, last in spans for number in listed[first : last + 1]]

    def selected_rows(self) -> Sequence[Row]:
        """Return the rows that are selected, from top to bottom; groups do not count."""
        return Picked(self.keys.tree.rows, self.selected_numbers())

    def go_to(self, number: int) -> None:
        """Make a row the current one, by its number; nothing happens if it is not shown."""
        if not self.flat:
            if self.tree.keys.holds(number):
                self.tree.go_to(self.tree.keys.tree.locate(number))
        elif (place := self.list.keys.place(number)) is not None:
            self.list.go_to_place(place)

    def select(self, numbers: Sequence[int]) -> None:
        """Select rows besides the current one, by their numbers; those that are not shown are left out."""
        selection = QItemSelection()
        for number in numbers:
            if (index := self._index_of(number)).isValid():
                selection.select(index, index)
        self.current.selectionModel().select(selection, _SELECT)

    def _index_of(self, number: int) -> QModelIndex:
        if not self.keys.holds(number):
            return QModelIndex()
        if self.flat:
            place = self.list.keys.place(number)
            return self.list.keys.index(place, 0) if place is not None else QModelIndex()
        return self.tree.keys.index_of(self.tree.keys.tree.locate(number))

    # ------------------------------------------------------------------------------------------------------- walking

    def step(self, *, forward: bool) -> None:
        """Go to the next or previous difference; it starts over at the end."""
        if self.flat:
            self._step_list(forward)
            return
        keys = self.tree.keys
        node = keys.tree.next_row(keys.node(self.tree.currentIndex()), DIFFERENT, forward=forward)
        if node is not None:
            self.tree.go_to(node)

    def _step_list(self, forward: bool) -> None:
        marks = self.list.keys.codes.translate(_IS_DIFFERENT)
        current = self.list.currentIndex()
        at = current.row() if current.isValid() else -1
        if forward:
            place = marks.find(1, at + 1)
            place = marks.find(1) if place < 0 else place
        else:
            place = marks.rfind(1, 0, max(at, 0))
            place = marks.rfind(1) if place < 0 else place
        if place >= 0:
            self.list.go_to_place(place)
