"""A list with tick boxes in its first column: rows that can not be ticked off show a quiet tick and no box.

The boxes are drawn here, since the style's own are hardly seen on a dark ground and look the same when disabled.
"""

from __future__ import annotations

from typing import cast

from PySide6.QtCore import (
    QAbstractItemModel,
    QEvent,
    QModelIndex,
    QPersistentModelIndex,
    QPointF,
    QRect,
    QRectF,
    QSize,
    Qt,
)
from PySide6.QtGui import QKeyEvent, QPainter, QPen
from PySide6.QtWidgets import QStyle, QStyledItemDelegate, QStyleOptionViewItem, QTreeWidget, QWidget

from ckpt_gui.gui.theme import Theme
from ckpt_gui.gui.widgets.units import em

CHECK = 0
LINES = 2  # of a text at most; the whole of it is in the tool tip
Index = QModelIndex | QPersistentModelIndex


class CheckTree(QTreeWidget):
    """A flat list whose rows are ticked by a click on the box, or by Space."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setItemDelegate(_GroundDelegate(self))
        self.setItemDelegateForColumn(CHECK, _BoxDelegate(theme, self))

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Tick the current row with Space; let go of the selection with Escape."""
        item = self.currentItem()
        if event.key() == Qt.Key.Key_Space and item is not None:
            toggle(self.model(), self.indexFromItem(item, CHECK))
        elif event.key() == Qt.Key.Key_Escape and self.selectedItems():
            self.clearSelection()
        else:
            super().keyPressEvent(event)


def toggle(model: QAbstractItemModel, index: Index) -> bool:
    """Tick or untick a row, if it may be."""
    if not index.flags() & Qt.ItemFlag.ItemIsUserCheckable:
        return False
    checked = Qt.CheckState(index.data(Qt.ItemDataRole.CheckStateRole)) == Qt.CheckState.Checked
    state = Qt.CheckState.Unchecked if checked else Qt.CheckState.Checked
    return model.setData(index, state, Qt.ItemDataRole.CheckStateRole)


class _GroundDelegate(QStyledItemDelegate):
    """Draws the ground that an item asks for, which style sheets leave out."""

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        """Draw the ground, then the cell."""
        ground = index.data(Qt.ItemDataRole.BackgroundRole)
        if ground is not None:
            painter.fillRect(option.rect, ground)
        super().paint(painter, option, index)


class WrapDelegate(_GroundDelegate):
    """Breaks a text into lines where its column is narrow: a tree view alone knows only one."""

    def initStyleOption(self, option: QStyleOptionViewItem, index: Index) -> None:
        """Ask the style to break lines."""
        super().initStyleOption(option, index)
        option.features |= QStyleOptionViewItem.ViewItemFeature.WrapText

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:
        """Return the height of the text at the width of its column, and the width of the whole text."""
        tree, text = cast(QTreeWidget, self.parent()), str(index.data() or "")
        metrics, room = tree.fontMetrics(), tree.columnWidth(index.column()) - em(tree)
        box = metrics.boundingRect(QRect(0, 0, max(room, em(tree, 4)), 1 << 16), Qt.TextFlag.TextWordWrap, text)
        height = min(box.height(), LINES * metrics.lineSpacing())
        return QSize(metrics.horizontalAdvance(text) + em(tree), height + em(tree, 0.5))


class _BoxDelegate(QStyledItemDelegate):
    """Draws the first column."""

    def __init__(self, theme: Theme, parent: QTreeWidget) -> None:
        super().__init__(parent)
        self._theme, self._tree = theme, parent

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        """Draw the row's ground by the style, and the box by ourselves."""
        state = index.data(Qt.ItemDataRole.CheckStateRole)
        ground = index.data(Qt.ItemDataRole.BackgroundRole)
        if ground is not None:
            painter.fillRect(option.rect, ground)
        self._tree.style().drawPrimitive(QStyle.PrimitiveElement.PE_PanelItemViewItem, option, painter, self._tree)
        if state is None:
            painter.setPen(self._theme.color("red"))
            painter.drawText(option.rect, Qt.AlignmentFlag.AlignCenter, str(index.data()))
            return
        size = em(self._tree, 0.92)
        box = QRectF(0, 0, size, size)
        box.moveCenter(QRectF(option.rect).center())
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        checked = Qt.CheckState(state) == Qt.CheckState.Checked
        self._draw(painter, box, checked, bool(index.flags() & Qt.ItemFlag.ItemIsUserCheckable))
        painter.restore()

    def _draw(self, painter: QPainter, box: QRectF, checked: bool, free: bool) -> None:
        tick = self._theme.color("on_accent" if free else "muted")
        if free:
            edge = self._theme.color("accent" if checked else "strong_border")
            painter.setPen(QPen(edge, 1.4))
            painter.setBrush(self._theme.color("accent" if checked else "surface"))
            painter.drawRoundedRect(box, 3, 3)
        if checked:
            painter.setPen(QPen(tick, 1.8, Qt.PenStyle.SolidLine, Qt.PenCapStyle.RoundCap, Qt.PenJoinStyle.RoundJoin))
            points = [(0.22, 0.52), (0.43, 0.73), (0.79, 0.29)]
            painter.drawPolyline([QPointF(box.x() + x * box.width(), box.y() + y * box.height()) for x, y in points])

    def editorEvent(self, event: QEvent, model: QAbstractItemModel, option: QStyleOptionViewItem, index: Index) -> bool:
        """Tick by a click anywhere in the cell."""
        if event.type() == QEvent.Type.MouseButtonRelease:
            return toggle(model, index)
        return False
