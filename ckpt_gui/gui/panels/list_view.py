"""The keys as a flat list: a table, which lays out only the rows in sight, however many there are."""

from __future__ import annotations

from collections.abc import Iterator

from PySide6.QtCore import QItemSelectionModel, QModelIndex, Qt, QTimer, Signal
from PySide6.QtGui import QMouseEvent, QResizeEvent
from PySide6.QtWidgets import QAbstractItemView, QHeaderView, QTableView, QWidget

from ckpt_gui.gui.models.list_model import ListModel
from ckpt_gui.gui.models.tree_columns import Column
from ckpt_gui.gui.panels.state_paint import StateDelegate
from ckpt_gui.gui.theme import Theme

PADDING = 8  # pixels of a row besides its text, as in the tree


class KeyListView(QTableView):
    """Shows a list model.

    Signals:
        settled(): Other rows are in sight.
        drag_wanted(): The selected rows are being dragged.
    """

    settled = Signal()
    drag_wanted = Signal()

    def __init__(self, model: ListModel, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.keys = model
        self.setModel(model)
        self.setProperty("keys", True)
        self.setAccessibleName(self.tr("Keys"))
        self.setShowGrid(False)
        self.setWordWrap(False)
        self.setTabKeyNavigation(False)
        self.setCornerButtonEnabled(False)
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setSelectionMode(QAbstractItemView.SelectionMode.ExtendedSelection)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setHorizontalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setTextElideMode(Qt.TextElideMode.ElideLeft)
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        self.setItemDelegateForColumn(Column.STATE, StateDelegate(theme, self))
        self.verticalHeader().hide()
        self.verticalHeader().setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        self.horizontalHeader().setHighlightSections(False)
        self.horizontalHeader().setSectionsClickable(False)
        # The head would ask of each row whether it is selected, to know of whole columns: seconds for very many.
        self.horizontalHeader().setSelectionModel(QItemSelectionModel(model, self))
        self.horizontalHeader().setDefaultAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)
        self._later = QTimer(self, singleShot=True, interval=0)
        self._later.timeout.connect(self.settled)
        self.verticalScrollBar().valueChanged.connect(lambda _: self._later.start())
        model.modelReset.connect(self._later.start)

    def set_row_height(self, height: int) -> None:
        """Give every row the height of a line of text."""
        self.verticalHeader().setMinimumSectionSize(height + PADDING)
        self.verticalHeader().setDefaultSectionSize(height + PADDING)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Settle anew; Qt calls this for the viewport, so scroll bars that come and go count."""
        super().resizeEvent(event)
        self._later.start()

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Begin a drag only on what is selected: elsewhere the mouse selects what it is drawn over."""
        self.setDragEnabled(self.selectionModel().isSelected(self.indexAt(event.position().toPoint())))
        super().mousePressEvent(event)

    def startDrag(self, _actions: Qt.DropAction) -> None:
        """Leave it to who knows what is selected: Qt's own way asks for every cell."""
        self.drag_wanted.emit()

    def in_sight(self) -> Iterator[QModelIndex]:
        """Yield the rows that are in sight."""
        first = self.rowAt(0)
        last = self.rowAt(self.viewport().height() - 1)
        if first >= 0:
            end = last + 1 if last >= 0 else self.keys.rowCount()
            yield from (self.keys.index(row, 0) for row in range(first, end))

    def indent(self, _index: QModelIndex) -> int:
        """Return how far the name of a row is moved in: not at all."""
        return 0

    def go_to_place(self, place: int) -> None:
        """Make a row the current one."""
        index = self.keys.index(place, 0)
        self.setCurrentIndex(index)
        self.scrollTo(index, QAbstractItemView.ScrollHint.EnsureVisible)
