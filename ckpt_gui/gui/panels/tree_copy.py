"""Taking rows out of the key tree: to the clipboard as a table or as keys, or by dragging them to another program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial

from PySide6.QtCore import QByteArray, QMetaType, QMimeData, QObject, Qt
from PySide6.QtGui import QDrag, QGuiApplication

from ckpt_gui.core.bulk import coming
from ckpt_gui.core.diff import Row
from ckpt_gui.core.errors import Cancelled
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.row_tree import Node, RowTree
from ckpt_gui.gui.jobs import Job, JobManager
from ckpt_gui.gui.models.tree_cells import common_of
from ckpt_gui.gui.panels.tree_views import KeyViews
from ckpt_gui.gui.wording import count_text

TABLE = "text/tab-separated-values"
MANY = 5_000  # rows above which the text is written in a job
LONGEST = 10_000  # characters of a name in a table: a key of a megabyte is no cell
Write = Callable[[RowTree, "Row | Node"], str]


class TreeCopy(QObject):
    """Says what is selected in the views as text. Numbers are written as programs read them, whatever the locale."""

    def __init__(self, views: KeyViews, jobs: JobManager) -> None:
        super().__init__(views)
        self._views, self._jobs = views, jobs
        for view in views.both:
            view.drag_wanted.connect(self.drag)

    def copy_keys(self) -> None:
        """Copy the keys of the selected rows, and the names of the selected groups, one a line."""
        self._copy(_name_of)

    def copy_rows(self) -> None:
        """Copy the selected rows as a table for a spreadsheet."""
        self._copy(_line)

    def mime_data(self) -> QMimeData:
        """Return what is dragged: a table for spreadsheets, which is plain text for all others, and never a file."""
        tree, chosen = self._chosen()
        if len(chosen) > MANY:
            return _Dragged(self._jobs, self._writing(chosen), tree, chosen)
        data, table = QMimeData(), "\n".join(_line(tree, one) for one in chosen)
        if chosen:
            data.setText(table)
            data.setData(TABLE, table.encode())
        return data

    def drag(self) -> None:
        """Let the selected rows be dropped somewhere; they stay where they are."""
        data = self.mime_data()
        if data.hasText():
            drag = QDrag(self._views)
            drag.setMimeData(data)
            drag.exec(Qt.DropAction.CopyAction)

    def _chosen(self) -> tuple[RowTree, Sequence[Row | Node]]:
        if self._views.flat:
            return self._views.list.keys.tree, self._views.selected_rows()
        return self._views.tree.keys.tree, self._views.selected_nodes()

    def _writing(self, chosen: Sequence[Row | Node]) -> str:
        return self.tr("Copying {n} rows").format(n=count_text(len(chosen)))

    def _copy(self, write: Write) -> None:
        """Copy a line for each of what is selected: at once, or of very many as soon as a job has written them."""
        tree, chosen = self._chosen()
        if len(chosen) > MANY:
            self._jobs.start(self._writing(chosen), lambda job: _lines(tree, chosen, write, job), _put, lambda _: None)
        elif chosen:
            QGuiApplication.clipboard().setText("\n".join(write(tree, one) for one in chosen))


class _Dragged(QMimeData):
    """A table of very many rows: a job writes it while it is dragged, and it is waited for if it is dropped before.

    Args:
        jobs: Runs the job.
        title: What the job does.
        tree: What the rows are of.
        chosen: The rows.
    """

    def __init__(self, jobs: JobManager, title: str, tree: RowTree, chosen: Sequence[Row | Node]) -> None:
        super().__init__()
        self._write = partial(_lines, tree, chosen, _line)
        self._text: Future[bytes] = Future()
        self._job = jobs.start(title, self._fill, lambda _: None, lambda _: None, quiet=True)

    def _fill(self, job: Job) -> None:
        if self._text.set_running_or_notify_cancel():
            try:
                self._text.set_result(self._write(job))
            except BaseException as error:
                self._text.set_exception(error)
                raise

    def formats(self) -> list[str]:
        """Return what it can be taken as."""
        return ["text/plain", TABLE]

    def retrieveData(self, mimetype: str, _type: QMetaType | QMetaType.Type, /) -> QByteArray | None:
        """Return the table, which is asked for where it is dropped."""
        if mimetype not in self.formats():
            return None
        try:
            no_thread_was_free = self._text.cancel()
            return QByteArray(self._write(self._job) if no_thread_was_free else self._text.result())
        except Cancelled:
            return None


def _put(text: bytes) -> None:
    """Put a text in UTF-8 on the clipboard: Qt makes a string of it, which takes long, only if somebody asks for it."""
    board = QGuiApplication.clipboard()
    board.setText("")  # data that Qt has made: what Python has made would end the program badly once Python is gone
    board.mimeData().setData("text/plain", text)


def _lines(tree: RowTree, chosen: Sequence[Row | Node], write: Write, job: Job) -> bytes:
    """Return lines in UTF-8, written block by block, so that no other thread waits long and a cancelled job ends."""
    written = []
    for lines in coming(write(tree, one) for one in chosen):
        if job.cancelled():
            raise Cancelled
        written.append("\n".join(lines).encode())
    return b"\n".join(written)


def _line(tree: RowTree, one: Row | Node) -> str:
    """Return a row as a line: state, key, expected key, shape, type, bytes and file between tabs."""
    return "\t".join(_cells(tree, one))


def _cells(tree: RowTree, one: Row | Node) -> tuple[str, ...]:
    if isinstance(one, Row):
        return _row_cells(one)
    return _row_cells(tree.row(one)) if one.is_row else _group_cells(tree, one)


def _name_of(tree: RowTree, one: Row | Node) -> str:
    if isinstance(one, Row):
        return one.path
    return tree.row(one).path if one.is_row else tree.title(one)


def _row_cells(row: Row) -> tuple[str, ...]:
    shape = row.shape if row.shape is not None else row.expected_shape
    sizes = str(list(shape)).replace("None", "?") if shape is not None else ""
    return (
        row.state,
        _name(row.key),
        _name(row.expected),
        sizes,
        row.type_name,
        str(row.nbytes),
        safe_text(row.file, LONGEST),
    )


def _group_cells(tree: RowTree, node: Node) -> tuple[str, ...]:
    states = " ".join(f"{state}:{count}" for state, count in tree.counts(node).items())
    common = common_of(tree, node)
    expected, dtypes = (common.expected, ",".join(common.dtypes)) if common is not None else ("", "")
    return states, _name(tree.title(node)), _name(expected), "", dtypes, str(tree.nbytes(node)), ""


def _name(text: str) -> str:
    """Return a name without what would end a cell."""
    return safe_text(text, LONGEST)
