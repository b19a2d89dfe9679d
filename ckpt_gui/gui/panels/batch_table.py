"""The table of a queue of checkpoints: a row each, with a bar below the words of the one that is being worked on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from PySide6.QtCore import QModelIndex, QObject, QRect, Qt, Signal
from PySide6.QtGui import QGuiApplication, QKeyEvent, QKeySequence, QPainter
from PySide6.QtWidgets import QHeaderView, QStyledItemDelegate, QStyleOptionViewItem, QTreeView, QWidget

from ckpt_gui.gui.language import said
from ckpt_gui.gui.looks import BATCH_STYLES
from ckpt_gui.gui.models.cells import Index, Table
from ckpt_gui.gui.panels.batch_rows import BatchRow, as_table, columns
from ckpt_gui.gui.theme import Theme
from ckpt_gui.gui.widgets.units import GRID, em, tip_text

STATE, NAME, KIND, SIZE, NEWS, FOLDER = range(6)
WIDTHS = {STATE: 11, NAME: 12, KIND: 12, SIZE: 5, NEWS: 26, FOLDER: 12}  # ems
BAR = GRID // 2


class BatchModel(Table):
    """Rows of a queue.

    Attributes:
        rows: The rows, in the order in which they were added.
    """

    def __init__(self, theme: Theme, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self.rows: Sequence[BatchRow] = ()
        theme.changed.connect(lambda: self.show_rows(self.rows))

    def show_rows(self, rows: Sequence[BatchRow]) -> None:
        """Show other rows; those that only changed keep their place and the selection."""
        if [row.path for row in rows] == [row.path for row in self.rows]:
            self.rows = rows
            if rows:
                self.dataChanged.emit(self.index(0, 0), self.index(len(rows) - 1, self.columnCount() - 1))
            return
        self.beginResetModel()
        self.rows = rows
        self.endResetModel()

    def show_row(self, place: int, row: BatchRow) -> None:
        """Show one row anew."""
        self.rows = [*self.rows[:place], row, *self.rows[place + 1 :]]
        self.dataChanged.emit(self.index(place, 0), self.index(place, self.columnCount() - 1))

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008 - Qt's signature
        """Return the number of checkpoints."""
        return 0 if parent.isValid() else len(self.rows)

    def columnCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008 - Qt's signature
        """Return the number of columns."""
        return 0 if parent.isValid() else len(columns())

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """Return what a cell shows."""
        if not index.isValid():
            return None
        row, column = self.rows[index.row()], index.column()
        if role == Qt.ItemDataRole.DisplayRole:
            return row.texts()[column]
        if role == Qt.ItemDataRole.AccessibleTextRole:
            texts = row.texts()
            return (
                texts[column]
                if column
                else f"{said(BATCH_STYLES[row.state].word)}, {', '.join(filter(None, texts[1:]))}"
            )
        if role == Qt.ItemDataRole.ForegroundRole and column == STATE:
            return self._theme.color(BATCH_STYLES[row.state].colour)
        if role == Qt.ItemDataRole.ToolTipRole:
            return tip_text(self._tip(row, column), 1000)
        if role == Qt.ItemDataRole.TextAlignmentRole and column == SIZE:
            return Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
        return None

    @staticmethod
    def _tip(row: BatchRow, column: int) -> str:
        if column == NAME:
            return row.path
        if column in (STATE, NEWS) and row.verdict is not None and row.verdict.steps:
            return "\n".join([row.news(), *(f"· {step.replace('`', '')}" for step in row.verdict.steps)])
        return row.texts()[column]

    def headerData(self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """Return a heading."""
        if orientation == Qt.Orientation.Horizontal:
            if role == Qt.ItemDataRole.DisplayRole:
                return columns()[section][0]
            if role == Qt.ItemDataRole.ToolTipRole:
                return columns()[section][1]
        return None


class BatchTable(QTreeView):
    """The view of the rows.

    Signals:
        open_wanted(path): A row was double-clicked, or Enter was pressed on it.
        remove_wanted(): The selected rows shall go.
        chosen(): Other rows are selected.
    """

    open_wanted = Signal(str)
    remove_wanted = Signal()
    chosen = Signal()

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.rows_model = BatchModel(theme, self)
        self.setModel(self.rows_model)
        self.setItemDelegate(_RowDelegate(theme, self))
        self.setRootIsDecorated(False)
        self.setUniformRowHeights(True)
        self.setAlternatingRowColors(True)
        self.setAllColumnsShowFocus(True)
        self.setSelectionMode(QTreeView.SelectionMode.ExtendedSelection)
        self.setAccessibleName(self.tr("Checkpoints of the batch"))
        self.setTextElideMode(Qt.TextElideMode.ElideMiddle)
        header = self.header()
        header.setStretchLastSection(False)
        for column, width in WIDTHS.items():
            header.resizeSection(column, em(self, width))
        header.setSectionResizeMode(NEWS, QHeaderView.ResizeMode.Stretch)
        self.doubleClicked.connect(lambda index: self.open_wanted.emit(self.rows_model.rows[index.row()].path))
        self.selectionModel().selectionChanged.connect(lambda *_: self.chosen.emit())
        self.rows_model.modelReset.connect(self.chosen)

    def current_row(self) -> BatchRow | None:
        """Return the row that the cursor is on, if it is selected."""
        index = self.currentIndex()
        here = index.isValid() and self.selectionModel().isRowSelected(index.row(), QModelIndex())
        return self.rows_model.rows[index.row()] if here else None

    def selected(self) -> list[str]:
        """Return the paths of the selected rows, in their order."""
        places = sorted(index.row() for index in self.selectionModel().selectedRows())
        return [self.rows_model.rows[place].path for place in places]

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Open, remove or copy rows."""
        paths = self.selected()
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and paths:
            self.open_wanted.emit(paths[0])
        elif event.matches(QKeySequence.StandardKey.Delete):
            self.remove_wanted.emit()
        elif event.matches(QKeySequence.StandardKey.Copy):
            chosen = set(paths)
            QGuiApplication.clipboard().setText(as_table(row for row in self.rows_model.rows if row.path in chosen))
        else:
            super().keyPressEvent(event)


class _RowDelegate(QStyledItemDelegate):
    """Rows with room, and a bar where something runs."""

    def __init__(self, theme: Theme, parent: QObject) -> None:
        super().__init__(parent)
        self._theme = theme

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> Any:
        """Return the usual size with room for the bar."""
        size = super().sizeHint(option, index)
        size.setHeight(option.fontMetrics.height() + 2 * GRID)
        return size

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        """Paint the cell, and the bar below its words; a sentence is cut at its end, a name in the middle."""
        if index.column() == NEWS:
            option.textElideMode = Qt.TextElideMode.ElideRight
        super().paint(painter, option, index)
        model = index.model()
        if index.column() != NEWS or not isinstance(model, BatchModel):
            return
        row = model.rows[index.row()]
        if row.state not in ("writing", "looking") or row.total <= 0:
            return
        cell: QRect = option.rect
        whole = QRect(cell.left() + BAR, cell.bottom() - BAR, cell.width() - 2 * BAR, BAR - 1)
        painter.fillRect(whole, self._theme.color("border"))
        whole.setWidth(whole.width() * row.percent // 100)
        painter.fillRect(whole, self._theme.color("accent"))
