"""The keys as a tree: what is unfolded, and what is fetched when it comes into sight."""

from __future__ import annotations

from collections.abc import Iterator

from PySide6.QtCore import QModelIndex, QPoint, Qt, QTimer, Signal
from PySide6.QtGui import QKeyEvent, QMouseEvent, QResizeEvent
from PySide6.QtWidgets import QAbstractItemView, QTreeView, QWidget

from ckpt_gui.core.key_families import Family
from ckpt_gui.core.row_tree import Node, RowTree
from ckpt_gui.gui.models.tree_columns import Column
from ckpt_gui.gui.models.tree_model import TreeModel
from ckpt_gui.gui.panels.state_paint import StateDelegate
from ckpt_gui.gui.theme import Theme

FIRST_ROWS = 44  # groups are unfolded on opening while not more rows than this would show
INDENT_EMS = 0.9


class KeyTreeView(QTreeView):
    """Shows a tree model.

    Signals:
        settled(): Other rows are in sight, and it has got what it needs for them.
        drag_wanted(): The selected rows are being dragged.
        all_below_wanted(): The current group is to be unfolded with all that is below.
    """

    settled = Signal()
    drag_wanted = Signal()
    all_below_wanted = Signal()

    def __init__(self, model: TreeModel, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.keys = model
        self._open: set[Node] = set()  # that were unfolded, and perhaps folded with a group around them since
        self.expanded.connect(lambda index: self._open.add(index.internalPointer()))
        self.collapsed.connect(lambda index: self._open.discard(index.internalPointer()))
        model.modelAboutToBeReset.connect(self._open.clear)
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
        self._later = QTimer(self, singleShot=True, interval=0)
        self._later.timeout.connect(self._fetch_in_sight)
        self._later.timeout.connect(self.settled)
        self.verticalScrollBar().valueChanged.connect(lambda _: self._later.start())
        self.expanded.connect(lambda _: self._later.start())
        self.collapsed.connect(lambda _: self._later.start())
        model.modelReset.connect(self._later.start)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Settle anew; Qt calls this for the viewport, so scroll bars that come and go count."""
        super().resizeEvent(event)
        self._later.start()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Unfold all below with `*` a little at a time: Qt's own way does so in one go."""
        if event.text() == "*":
            self.all_below_wanted.emit()
        else:
            super().keyPressEvent(event)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Begin a drag only on what is selected: elsewhere the mouse selects what it is drawn over."""
        self.setDragEnabled(self.selectionModel().isSelected(self.indexAt(event.position().toPoint())))
        super().mousePressEvent(event)

    def startDrag(self, _actions: Qt.DropAction) -> None:
        """Leave it to who knows what is selected: Qt's own way asks for every cell."""
        self.drag_wanted.emit()

    def in_sight(self) -> Iterator[QModelIndex]:
        """Yield the rows that are in sight."""
        index, height = self.indexAt(QPoint(0, 0)), self.viewport().height()
        while index.isValid() and self.visualRect(index).top() < height:
            yield index
            index = self.indexBelow(index)

    def indent(self, index: QModelIndex) -> int:
        """Return how far the name of a row is moved in."""
        depth = 1
        while (index := index.parent()).isValid():
            depth += 1
        return self.indentation() * depth

    def _fetch_in_sight(self) -> None:
        """Fetch the next block of every group whose last known child is in sight."""
        for index in list(self.in_sight()):
            parent = index.parent()
            if index.row() == self.keys.rowCount(parent) - 1 and self.keys.canFetchMore(parent):
                self.keys.fetchMore(parent)

    def go_to(self, node: Node) -> None:
        """Make a node the current one, with all above it unfolded."""
        index = self.keys.index_of(node)
        self.unfold_above(index)
        if index.isValid():
            self.setCurrentIndex(index)
            self.scrollTo(index, QAbstractItemView.ScrollHint.EnsureVisible)

    def unfold_above(self, index: QModelIndex) -> None:
        """Unfold all groups around a row."""
        while (index := index.parent()).isValid():
            self.expand(index)

    # ---------------------------------------------------------------------------------------------- what is unfolded

    def lines(self) -> Iterator[Node]:
        """Yield the nodes of the lines as they stand, in sight or not."""
        pending = [iter(self.keys.known_below(None))]
        while pending:
            for node in pending[-1]:
                yield node
                if node in self._open:
                    below = self.keys.known_below(node)
                    if not self._open.isdisjoint(below):
                        pending.append(iter(below))
                        break
                    yield from below
            else:
                pending.pop()

    def unfolded(self) -> set[str]:
        """Return the names of the groups that are unfolded, and in none that is folded."""
        opened = {node for node in self._open if self.isExpanded(self.keys.index_of(node))}
        seen = (node for node in opened if opened.issuperset(node.ancestors()))
        return {self.keys.tree.prefix(node) for node in seen}

    def group_named(self, prefix: str) -> Node | None:
        """Return the group of a name, if it is in sight or folded away no more than Qt knows of."""
        return next((n for n in self.lines() if not n.is_row and self.keys.tree.prefix(n) == prefix), None)

    def unfold_first(self, tree: RowTree, room: int = FIRST_ROWS, *, members: bool = False) -> None:
        """Unfold groups level by level while the whole stays small; what is set aside stays folded.

        Args:
            tree: What is shown.
            room: So many lines are small.
            members: Whether families are unfolded too.
        """
        pending = list(self._children(QModelIndex()))
        room -= len(pending)
        while pending:
            place = pending.pop(0)
            node: Node = place.internalPointer()
            if node.is_row or tree.counts(node).keys() <= {"aside"} or (isinstance(node, Family) and not members):
                continue
            if (children := len(tree.children(node))) <= room:
                room -= children
                self.unfold_one(place)
                pending.extend(self._children(place))

    def unfold_one(self, index: QModelIndex) -> None:
        """Unfold a group, and fetch what Qt does not know of: it would not ask before the next paint."""
        if self.keys.canFetchMore(index) and not self.keys.rowCount(index):
            self.keys.fetchMore(index)
        self.expand(index)

    def _children(self, index: QModelIndex) -> Iterator[QModelIndex]:
        return (self.keys.index(row, 0, index) for row in range(self.keys.rowCount(index)))
