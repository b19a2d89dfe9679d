"""The key tree for Qt: a thin adapter over a `RowTree` that makes nothing before it is looked at."""

from __future__ import annotations

from typing import Any

from PySide6.QtCore import QObject, Qt

from ckpt_gui.gui.models.cells import DISPLAY, Asked, Index, answer_all
from ckpt_gui.gui.models.key_looks import KeyLooks
from ckpt_gui.gui.models.lazy_rows import LazyRows


class TreeModel(LazyRows):
    """The groups and rows of a tree, with what their cells say."""

    def __init__(self, looks: KeyLooks, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._looks = looks

    def headerData(self, section: int, orientation: Qt.Orientation, role: int = DISPLAY) -> Any:
        """Return what the head of a column says."""
        return self._looks.head(section, role) if orientation == Qt.Orientation.Horizontal else None

    def data(self, index: Index, role: int = DISPLAY) -> Any:
        """Return what a cell shows."""
        node = index.internalPointer() if index.isValid() else None
        if node is None:
            return None
        if node.is_row:
            return self._looks.row(self._tree, self._tree.number(node), index.column(), role, node.name)
        return self._looks.group(self._tree, node, index.column(), role)

    def multiData(self, index: Index, span: Asked) -> None:
        """Answer all that is asked about a cell."""
        answer_all(self, index, span)
