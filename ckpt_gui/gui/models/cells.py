"""What all models say to Qt in the same way: the types of what is asked, its roles, and answers without a detour."""

from __future__ import annotations

from PySide6.QtCore import (
    QAbstractItemModel,
    QAbstractTableModel,
    QModelIndex,
    QModelRoleData,
    QModelRoleDataSpan,
    QPersistentModelIndex,
    Qt,
)

Index = QModelIndex | QPersistentModelIndex
Asked = QModelRoleDataSpan | QModelRoleData
# Numbers: they are compared for seven roles of each cell that is painted.
DISPLAY, SPOKEN = int(Qt.ItemDataRole.DisplayRole), int(Qt.ItemDataRole.AccessibleTextRole)
FONT, FOREGROUND = int(Qt.ItemDataRole.FontRole), int(Qt.ItemDataRole.ForegroundRole)
ALIGNMENT, TIP = int(Qt.ItemDataRole.TextAlignmentRole), int(Qt.ItemDataRole.ToolTipRole)
LEFT = int(Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft)
RIGHT = int(Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignRight)


def answer_all(model: QAbstractItemModel, index: Index, span: Asked) -> None:
    """Answer all that Qt asks about a cell at once: it asks for seven roles, and waits for Python's lock at each."""
    assert isinstance(span, QModelRoleDataSpan)
    for at in range(span.size()):
        asked = span[at]  # type: ignore[index]  # which the stubs do not know of
        value = model.data(index, asked.role())
        asked.clearData() if value is None else asked.setData(value)


class Table(QAbstractTableModel):
    """A table that Qt asks twice for each cell that it paints, and not nine times."""

    def index(self, row: int, column: int, parent: Index = QModelIndex()) -> QModelIndex:  # noqa: B008 - Qt's signature
        """Return where a cell is; Qt's own way comes back for both counts."""
        inside = 0 <= row < self.rowCount(parent) and 0 <= column < self.columnCount(parent)
        return self.createIndex(row, column) if inside else QModelIndex()

    def multiData(self, index: Index, span: Asked) -> None:
        """Answer all that is asked about a cell."""
        answer_all(self, index, span)
