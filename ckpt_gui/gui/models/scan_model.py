"""The figures of a scan as a table: one row a tensor, sorted by any column, filled while the scan goes on."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from PySide6.QtCore import QModelIndex, QObject, Qt

from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.scan import TensorScan
from ckpt_gui.dataclasses import dataclass
from ckpt_gui.gui.language import said
from ckpt_gui.gui.models.cells import ALIGNMENT, DISPLAY, FOREGROUND, RIGHT, SPOKEN, TIP, Index, Table
from ckpt_gui.gui.theme import Theme
from ckpt_gui.gui.wording import figure_text, shape_text


@dataclass(frozen=True, slots=True)
class Column:
    """A column.

    Attributes:
        title: Its heading.
        tip: What the figure is.
        value: What is sorted by; None sorts last.
        text: What is shown, if it is not the value as a figure.
    """

    title: str
    tip: str
    value: Callable[[TensorScan], Any]
    text: Callable[[TensorScan], str] | None = None


def _share(found: TensorScan) -> str:
    share = 100 * found.stats.zeros / found.stats.count if found.stats.count else 0.0
    return f"{share:.3g} %" if found.stats.zeros else "0"


COLUMNS = (
    Column("Tensor", "The key in the file", lambda t: t.ref.full_key, lambda t: safe_text(t.ref.full_key, 300)),
    Column("Type", "The element type", lambda t: t.ref.dtype, lambda t: t.ref.dtype),
    Column("Shape", "Sizes; sorted by their product", lambda t: t.ref.numel, lambda t: shape_text(t.ref.shape)),
    Column("Deviation", "Standard deviation of the finite values", lambda t: t.stats.std),
    Column("Largest |x|", "Largest magnitude of the finite values", lambda t: t.stats.abs_max),
    Column("Mean", "Mean of the finite values", lambda t: t.stats.mean),
    Column("Zeros", "Elements that are zero", lambda t: t.stats.zeros / max(t.stats.count, 1), _share),
    Column("Not finite", "NaN and infinities", lambda t: t.odd_count, lambda t: f"{t.odd_count:,}"),
)


class ScanModel(Table):
    """What a scan has found so far."""

    def __init__(self, theme: Theme, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self.found: list[TensorScan] = []
        self._order: tuple[int, bool] | None = None

    def clear(self) -> None:
        """Empty the table."""
        self.beginResetModel()
        self.found = []
        self.endResetModel()

    def add(self, found: Sequence[TensorScan]) -> None:
        """Add rows at the end; `settle` sorts them in."""
        if found:
            at = len(self.found)
            self.beginInsertRows(QModelIndex(), at, at + len(found) - 1)
            self.found.extend(found)
            self.endInsertRows()

    def settle(self) -> None:
        """Sort again what was sorted before more came."""
        if self._order is not None:
            column, down = self._order
            self.sort(column, Qt.SortOrder.DescendingOrder if down else Qt.SortOrder.AscendingOrder)

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008 - Qt's signature
        """Return the number of tensors."""
        return 0 if parent.isValid() else len(self.found)

    def columnCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008 - Qt's signature
        """Return the number of figures."""
        return 0 if parent.isValid() else len(COLUMNS)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """Return a figure."""
        if not index.isValid():
            return None
        found, column = self.found[index.row()], COLUMNS[index.column()]
        if role in (DISPLAY, SPOKEN):
            text = column.text(found) if column.text else figure_text(column.value(found))
            return text if role == DISPLAY else f"{column.title}: {text}"
        if role == ALIGNMENT and index.column() > 1:
            return RIGHT
        if role == FOREGROUND and found.odd_count and column.title == "Not finite":
            return self._theme.color("red")
        if role == TIP and index.column() == 0:
            return safe_text(found.error or found.stats.reason or found.key, 300).replace("<", "&lt;")
        return None

    def headerData(self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """Return a heading."""
        if orientation == Qt.Orientation.Horizontal:
            if role == Qt.ItemDataRole.DisplayRole:
                return said(COLUMNS[section].title)
            if role == Qt.ItemDataRole.ToolTipRole:
                return said(COLUMNS[section].tip)
        return None

    def sort(self, column: int, order: Qt.SortOrder = Qt.SortOrder.AscendingOrder) -> None:
        """Sort by a figure; what has none goes last."""
        if not 0 <= column < len(COLUMNS):
            return
        down = order == Qt.SortOrder.DescendingOrder
        self._order = (column, down)
        value = COLUMNS[column].value
        self.layoutAboutToBeChanged.emit()
        known = [t for t in self.found if _is_known(value(t))]
        rest = [t for t in self.found if not _is_known(value(t))]
        self.found = [*sorted(known, key=value, reverse=down), *rest]
        self.changePersistentIndexList(self.persistentIndexList(), [QModelIndex()] * len(self.persistentIndexList()))
        self.layoutChanged.emit()


def _is_known(value: Any) -> bool:
    return value is not None and not (isinstance(value, float) and math.isnan(value))
