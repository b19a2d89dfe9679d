"""The lines of a comparison as a tree of two levels: folds, and the rows below each."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any

from PySide6.QtCore import QAbstractItemModel, QModelIndex, QObject, Qt

from ckpt_gui.gui.language import said
from ckpt_gui.gui.models.cells import Asked, Index, answer_all
from ckpt_gui.gui.models.compare_rows import COLUMNS, COMPARE_STYLES, FIELDS, Line, differences, parts
from ckpt_gui.gui.theme import Theme

_TOP = (1 << 32) - 1  # internal id of a line of the first level; others carry the place of their fold


class CompareModel(QAbstractItemModel):
    """Lines of a comparison.

    Attributes:
        lines: The lines of the first level.
        different: The places of those that are different.
    """

    def __init__(self, theme: Theme, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self.lines: Sequence[Line] = ()
        self.different: Sequence[int] = ()
        self._below: dict[int, tuple[Line, ...]] = {}

    def show_lines(self, lines: Sequence[Line]) -> None:
        """Show other lines."""
        self.beginResetModel()
        self.lines, self._below, self.different = lines, {}, differences(lines)
        self.endResetModel()

    def line(self, index: Index) -> Line:
        """Return the line at an index."""
        top = index.internalId()
        return self.lines[index.row()] if top == _TOP else self._parts(top)[index.row()]

    def _parts(self, place: int) -> tuple[Line, ...]:
        if place not in self._below:
            self._below[place] = parts(self.lines[place])
        return self._below[place]

    def index(self, row: int, column: int, parent: Index = QModelIndex()) -> QModelIndex:  # noqa: B008 - Qt's
        """Return the index of a line."""
        if not self.hasIndex(row, column, parent):
            return QModelIndex()
        return self.createIndex(row, column, parent.row() if parent.isValid() else _TOP)

    def parent(self, child: Index) -> QModelIndex:  # type: ignore[override]
        """Return the fold of a row."""
        top = child.internalId() if child.isValid() else _TOP
        return QModelIndex() if top == _TOP else self.createIndex(int(top), 0, _TOP)

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008 - Qt's signature
        """Return the number of lines below an index."""
        if not parent.isValid():
            return len(self.lines)
        if parent.internalId() != _TOP or parent.column():
            return 0
        rows = len(self.lines[parent.row()].rows)
        return rows if rows > 1 else 0

    def columnCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008 - Qt's signature
        """Return the number of columns."""
        return len(COLUMNS)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """Return what a cell shows."""
        if not index.isValid():
            return None
        line, field = self.line(index), FIELDS[index.column()]
        if role in (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.AccessibleTextRole):
            if field != "state":
                return getattr(line, field)
            style = COMPARE_STYLES[line.state]
            return f"{style.glyph}  {style.word}" if role == Qt.ItemDataRole.DisplayRole else style.word
        if role == Qt.ItemDataRole.ForegroundRole and field in ("state", "a", "b"):
            return self._theme.color(COMPARE_STYLES[line.state].colour)
        if role == Qt.ItemDataRole.ToolTipRole:
            key = getattr(line, field) if field in ("a", "b") else ""  # its beginning may be cut
            return "<br>".join(html.escape(text) for text in (key, line.note) if text)
        if role == Qt.ItemDataRole.TextAlignmentRole and field in ("change", "largest", "share"):
            return Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
        if role == Qt.ItemDataRole.FontRole and field != "state":
            font = self._theme.fixed_font()
            font.setBold(field in ("a", "b") and COMPARE_STYLES[line.state].bold)
            return font
        return None

    def multiData(self, index: Index, span: Asked) -> None:
        """Answer all that is asked about a cell."""
        answer_all(self, index, span)

    def headerData(self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """Return a heading."""
        if orientation == Qt.Orientation.Horizontal:
            if role == Qt.ItemDataRole.DisplayRole:
                return said(COLUMNS[section][0])
            if role == Qt.ItemDataRole.ToolTipRole:
                return said(COLUMNS[section][1])
        return None
