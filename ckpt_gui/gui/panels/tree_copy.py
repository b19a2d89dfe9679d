"""Taking rows out of the key tree: to the clipboard as a table or as keys, or by dragging them to another program."""

from __future__ import annotations

from collections.abc import Iterator

from PySide6.QtCore import QMimeData, QObject, Qt
from PySide6.QtGui import QDrag, QGuiApplication

from ckpt_gui.core.diff import Row
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.row_tree import Node, RowTree
from ckpt_gui.gui.models.tree_cells import common_of
from ckpt_gui.gui.panels.tree_views import KeyViews

TABLE = "text/tab-separated-values"
LONGEST = 10_000  # characters of a name in a table: a key of a megabyte is no cell


class TreeCopy(QObject):
    """Says what is selected in the views as text. Numbers are written as programs read them, whatever the locale."""

    def __init__(self, views: KeyViews) -> None:
        super().__init__(views)
        self._views = views
        for view in views.both:
            view.drag_wanted.connect(self.drag)

    def copy_keys(self) -> None:
        """Copy the keys of the selected rows, and the names of the selected groups, one a line."""
        self._put("\n".join(self._keys()))

    def copy_rows(self) -> None:
        """Copy the selected rows as a table for a spreadsheet."""
        self._put(self.table())

    def table(self) -> str:
        """Return the selected rows as lines: state, key, expected key, shape, type, bytes and file between tabs."""
        return "\n".join("\t".join(cells) for cells in self._cells())

    def mime_data(self) -> QMimeData:
        """Return what is dragged: a table for spreadsheets, which is plain text for all others, and never a file."""
        data, table = QMimeData(), self.table()
        data.setText(table)
        data.setData(TABLE, table.encode())
        return data

    def drag(self) -> None:
        """Let the selected rows be dropped somewhere; they stay where they are."""
        data = self.mime_data()
        if data.text():
            drag = QDrag(self._views)
            drag.setMimeData(data)
            drag.exec(Qt.DropAction.CopyAction)

    def _keys(self) -> Iterator[str]:
        if self._views.flat:
            yield from (row.path for row in self._views.selected_rows())
            return
        tree = self._views.tree.keys.tree
        yield from (tree.row(n).path if n.is_row else tree.title(n) for n in self._views.selected_nodes())

    def _cells(self) -> Iterator[tuple[str, ...]]:
        if self._views.flat:
            yield from map(_row_cells, self._views.selected_rows())
            return
        tree = self._views.tree.keys.tree
        for node in self._views.selected_nodes():
            yield _row_cells(tree.row(node)) if node.is_row else _group_cells(tree, node)

    @staticmethod
    def _put(text: str) -> None:
        if text:
            QGuiApplication.clipboard().setText(text)


def _row_cells(row: Row) -> tuple[str, ...]:
    shape = row.shape if row.shape is not None else row.expected_shape
    sizes = str(list(shape)).replace("None", "?") if shape is not None else ""
    file = safe_text(row.ref.file, LONGEST) if row.ref is not None else ""
    return row.state, _name(row.key), _name(row.expected), sizes, row.type_name, str(row.nbytes), file


def _group_cells(tree: RowTree, node: Node) -> tuple[str, ...]:
    states = " ".join(f"{state}:{count}" for state, count in tree.counts(node).items())
    common = common_of(tree, node)
    expected, dtypes = (common.expected, ",".join(common.dtypes)) if common is not None else ("", "")
    return states, _name(tree.title(node)), _name(expected), "", dtypes, str(tree.nbytes(node)), ""


def _name(text: str) -> str:
    """Return a name without what would end a cell."""
    return safe_text(text, LONGEST)
