"""The view of the key tree: its columns, what is unfolded, the walk over differences, copying."""

from __future__ import annotations

from PySide6.QtCore import QModelIndex, QPoint, Qt, QTimer, Signal
from PySide6.QtGui import QGuiApplication, QResizeEvent
from PySide6.QtWidgets import QAbstractItemView, QMenu, QTreeView, QWidget

from ckpt_gui.core.diff import Row
from ckpt_gui.core.row_tree import Node
from ckpt_gui.core.tree import DIFFERENT, CheckpointIndex
from ckpt_gui.gui.models.tree_columns import Column
from ckpt_gui.gui.models.tree_model import TreeModel
from ckpt_gui.gui.panels.state_paint import StateDelegate
from ckpt_gui.gui.theme import Theme

FIRST_ROWS = 44  # groups are unfolded on opening while not more rows than this would show
MAX_EXPANDED = 5_000
COLUMN_EMS = {Column.STATE: 7.6, Column.SHAPE: 6.2, Column.DTYPE: 3.4, Column.SIZE: 4.6}
KEY_EMS = 11  # least width of each of the two names
INDENT_EMS = 0.9
ROWS_LOOKED_AT = 60  # to divide the room


class KeyTreeView(QTreeView):
    """Shows a tree model, or its list.

    Signals:
        state_wanted(state): The user wants to see only the rows in this state.
        menu_opening(menu, rows): Whoever has something to offer for the selected rows adds it.
    """

    state_wanted = Signal(str)
    menu_opening = Signal(object, object)

    def __init__(self, model: TreeModel, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.keys = model
        self.setModel(model)
        self.setAccessibleName(self.tr("Keys"))
        self.setUniformRowHeights(True)
        self.setSelectionMode(QAbstractItemView.SelectionMode.ExtendedSelection)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setTextElideMode(Qt.TextElideMode.ElideLeft)
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        self.setItemDelegateForColumn(Column.STATE, StateDelegate(theme, self))
        self.setTreePosition(Column.KEY)
        self.setIndentation(round(self.fontMetrics().height() * INDENT_EMS))
        self._later = QTimer(self)
        self._later.setSingleShot(True)
        self._later.setInterval(0)
        self._later.timeout.connect(self.share_room)
        self._later.timeout.connect(self._fetch_in_sight)
        self.verticalScrollBar().valueChanged.connect(lambda _: self._later.start())
        self.expanded.connect(lambda _: self._later.start())
        self.collapsed.connect(lambda _: self._later.start())
        self._size_columns()
        self.customContextMenuRequested.connect(self._on_menu)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Divide the room anew; Qt calls this for the viewport, so scroll bars that come and go count."""
        super().resizeEvent(event)
        self.share_room()

    def share_room(self) -> None:
        """Divide what is left between the two names: each gets what its rows need, or half where both need more."""
        em, header = self.fontMetrics().height(), self.header()
        room = self.viewport().width() - sum(header.sectionSize(column) for column in COLUMN_EMS)
        least = KEY_EMS * em
        wants = [self._want(column) for column in (Column.KEY, Column.EXPECTED)]
        spare = room - sum(wants)
        key = wants[0] + spare // 2 if spare >= 0 else min(wants[0], max(room // 2, room - wants[1]))
        key = max(least, min(key, room - least))
        header.resizeSection(Column.KEY, key)
        header.resizeSection(Column.EXPECTED, max(least, room - key))

    def _fetch_in_sight(self) -> None:
        """Fetch the next block of every group whose last known child is in sight."""
        index, height = self.indexAt(QPoint(0, 0)), self.viewport().height()
        while index.isValid() and self.visualRect(index).top() < height:
            parent = index.parent()
            if index.row() == self.keys.rowCount(parent) - 1 and self.keys.canFetchMore(parent):
                self.keys.fetchMore(parent)
            index = self.indexBelow(index)

    def _want(self, column: Column) -> int:
        """Return the width that the rows in sight need in a column; Qt's own way looks at many more."""
        header, em = self.header(), self.fontMetrics().height()
        width = header.sectionSizeHint(column)
        index, rows = self.indexAt(QPoint(0, 0)), 0
        while index.isValid() and rows < ROWS_LOOKED_AT:
            indent = self.indentation() * (_depth(index) + 1) if column == Column.KEY and not self.keys.flat else 0
            width = max(width, self.sizeHintForIndex(index.siblingAtColumn(column)).width() + indent)
            index, rows = self.indexBelow(index), rows + 1
        return width + em

    def _size_columns(self) -> None:
        header, em = self.header(), self.fontMetrics().height()
        header.setStretchLastSection(False)
        header.setMinimumSectionSize(2 * em)
        header.setSectionsMovable(False)
        for column, width in COLUMN_EMS.items():
            header.resizeSection(column, round(width * em))

    def step(self, *, forward: bool) -> None:
        """Go to the next or previous difference; it starts over at the end."""
        tree = self.keys.tree
        if self.keys.flat:
            self._step_flat(forward)
            return
        current = self.keys.node(self.currentIndex())
        if (node := tree.next_row(current, DIFFERENT, forward=forward)) is not None:
            self.go_to(node)

    def _step_flat(self, forward: bool) -> None:
        keys, index = self.keys, self.keys.tree
        listed = keys.listed
        current = self.currentIndex()
        start = current.row() if current.isValid() else (-1 if forward else 0)
        for away in range(1, len(listed) + 1):
            number = listed[(start + (away if forward else -away)) % len(listed)]
            if index.rows[number].state in DIFFERENT:
                self._make_current(keys.index_of(index.locate(number)))
                return

    def copy_keys(self) -> None:
        """Copy the keys of the selected rows, one a line."""
        keys = [row.path for row in self.selected_rows()]
        if keys:
            QGuiApplication.clipboard().setText("\n".join(keys))

    def copy_rows(self) -> None:
        """Copy the selected rows as a table for a spreadsheet."""
        lines = [
            "\t".join((r.state, r.key, r.expected, str(list(r.shape or ())), r.dtype)) for r in self.selected_rows()
        ]
        if lines:
            QGuiApplication.clipboard().setText("\n".join(lines))

    def selected_rows(self) -> list[Row]:
        """Return the rows that are selected; groups do not count."""
        rows = (self.keys.row(index) for index in self.selectionModel().selectedRows())
        return [row for row in rows if row is not None]

    def go_to(self, node: Node) -> None:
        """Make a node the current one, with all above it unfolded."""
        index = self.keys.index_of(node)
        parent = index.parent()
        while parent.isValid():
            self.expand(parent)
            parent = parent.parent()
        if index.isValid():
            self._make_current(index)

    def _make_current(self, index: QModelIndex) -> None:
        self.setCurrentIndex(index)
        self.scrollTo(index, QAbstractItemView.ScrollHint.EnsureVisible)

    def rows_below_selection(self) -> int:
        """Return how many rows the selected groups hold; all that there are where nothing is selected."""
        return sum(node.size for node in self._selected_groups())

    def unfold_selection(self) -> None:
        """Unfold the selected groups and all in them; every group where nothing is selected."""
        for node in self._selected_groups():
            self._unfold_below(self.keys.index_of(node))

    def fold_selection(self) -> None:
        """Fold the selected groups, and for a tensor the group that it is in; every group where nothing is selected."""
        chosen = self.selectionModel().selectedRows()
        for index in chosen or [self.keys.index(row, 0) for row in range(self.keys.rowCount())]:
            node = self.keys.node(index)
            place = index if node is None or not node.is_row else index.parent()
            if place.isValid():
                self.collapse(place)
                if place != index:
                    self._make_current(place)

    def _selected_groups(self) -> list[Node]:
        chosen = self.selectionModel().selectedRows()
        places = chosen or [self.keys.index(row, 0) for row in range(self.keys.rowCount())]
        return [node for index in places if (node := self.keys.node(index)) is not None and not node.is_row]

    def unfolded(self) -> set[str]:
        """Return the names of the groups that are unfolded."""
        if self.keys.flat:
            return set()
        found: set[str] = set()
        pending = [self.keys.index(r, 0) for r in range(self.keys.rowCount())]
        while pending:
            index = pending.pop()
            node = self.keys.node(index)
            if node is not None and not node.is_row and self.isExpanded(index):
                found.add(self.keys.tree.prefix(node))
                pending.extend(self.keys.index(r, 0, index) for r in range(self.keys.rowCount(index)))
        return found

    def unfold(self, prefixes: set[str]) -> None:
        """Unfold the groups of these names."""
        pending = [self.keys.index(r, 0) for r in range(self.keys.rowCount())]
        while pending:
            index = pending.pop()
            node = self.keys.node(index)
            if node is not None and not node.is_row and self.keys.tree.prefix(node) in prefixes:
                self._expand(index)
                pending.extend(self.keys.index(r, 0, index) for r in range(self.keys.rowCount(index)))

    def unfold_first(self, index: CheckpointIndex) -> None:
        """Unfold groups level by level while the whole stays small; what is set aside stays folded."""
        pending = [self.keys.index(r, 0) for r in range(self.keys.rowCount())]
        room = FIRST_ROWS - len(pending)
        while pending:
            place = pending.pop(0)
            node = self.keys.node(place)
            if node is None or node.is_row or index.counts(node).keys() <= {"aside"}:
                continue
            if (children := len(index.children(node))) <= room:
                room -= children
                self._expand(place)
                pending.extend(self.keys.index(r, 0, place) for r in range(children))

    def _unfold_below(self, index: QModelIndex) -> None:
        """Unfold a group and all groups in it: Qt's own way does not fetch what it does not know of."""
        pending = [index]
        while pending:
            place = pending.pop()
            node = self.keys.node(place)
            if node is not None and not node.is_row:
                self._expand(place)
                pending.extend(self.keys.index(r, 0, place) for r in range(self.keys.rowCount(place)))

    def _expand(self, index: QModelIndex) -> None:
        if self.keys.canFetchMore(index):
            self.keys.fetchMore(index)
        self.expand(index)

    def _on_menu(self, point: QPoint) -> None:
        index = self.indexAt(point)
        node = self.keys.node(index)
        if node is None:
            return
        menu = QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        if node.is_row:
            row = self.keys.tree.row(node)
            menu.addAction(self.tr("Copy key"), self.copy_keys)
            copy = menu.addAction(
                self.tr("Copy expected key"), lambda: QGuiApplication.clipboard().setText(row.expected)
            )
            copy.setEnabled(bool(row.expected))
            menu.addAction(self.tr("Copy rows as a table"), self.copy_rows)
            menu.addSeparator()
            menu.addAction(self.tr("Show only this state"), lambda: self.state_wanted.emit(row.state))
        else:
            prefix = self.keys.tree.prefix(node).replace("\0", ".")
            menu.addAction(self.tr("Copy prefix"), lambda: QGuiApplication.clipboard().setText(prefix))
            below = menu.addAction(self.tr("Unfold all below"), lambda: self._unfold_below(index))
            below.setEnabled(node.size <= MAX_EXPANDED)
            menu.addAction(self.tr("Fold"), lambda: self.collapse(index))
        self.menu_opening.emit(menu, self.selected_rows())
        menu.popup(self.viewport().mapToGlobal(point))


def _depth(index: QModelIndex) -> int:
    depth = 0
    while (index := index.parent()).isValid():
        depth += 1
    return depth
