"""Looks for the tensors that pass the filter of the key tree: at once, or in a job where there are many."""

from __future__ import annotations

from collections.abc import Collection

from PySide6.QtCore import QObject, QTimer, Signal

from ckpt_gui.core.diff import STATES
from ckpt_gui.core.filtering import FilterError, Query, read_query
from ckpt_gui.core.row_tree import RowTree
from ckpt_gui.core.tree import CheckpointIndex, Hits
from ckpt_gui.dataclasses import dataclass
from ckpt_gui.gui.jobs import Job, JobManager
from ckpt_gui.gui.models.tree_columns import Mode

PREPARE_MS = 300  # once rows are shown: painting them waits for whoever works
DEBOUNCE_MS = 15  # for keys that come together, as from a paste or a held key: what is found shows at once
MANY = 10_000  # rows above which the filter runs in a job, which the next key stops


@dataclass(frozen=True, slots=True)
class Found:
    """What passes a filter, ready to be shown.

    Attributes:
        index: All rows.
        query: What the filter asks for.
        hits: What passes.
        mode: How it is to be shown.
        tree: The tree or the families of what passes; None for a list.
        filtered: Whether there is a filter at all.
    """

    index: CheckpointIndex
    query: Query
    hits: Hits
    mode: Mode
    tree: RowTree | None
    filtered: bool


class FilterRun(QObject):
    """One search at a time: a new one takes the place of the one before.

    Attributes:
        keys: Only these tensors may pass; None for all.

    Signals:
        found(found): What passes.
        refused(index, error): The text can not be read.
        failed(error): It could not be looked for.
        due(): The text has stood still for a while.
    """

    found = Signal(object)
    refused = Signal(object, object)
    failed = Signal(object)
    due = Signal()

    def __init__(self, jobs: JobManager, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._jobs = jobs
        self._job: Job | None = None
        self._preparing: Job | None = None
        self.keys: frozenset[str] | None = None
        self._pause = QTimer(self, singleShot=True, interval=DEBOUNCE_MS)
        self._pause.timeout.connect(self.due)
        self._index = CheckpointIndex(())  # that is got ready
        self._soon = QTimer(self, singleShot=True, interval=PREPARE_MS)
        self._soon.timeout.connect(self._prepare)

    @property
    def running(self) -> bool:
        """True while the hits are still being looked for."""
        return self._job is not None

    def show_only(self, keys: Collection[str] | None) -> None:
        """Let only these tensors pass from the next run on; None for all."""
        self.keys = frozenset(keys) if keys is not None else None

    def wait(self) -> None:
        """Become due once nothing is typed any more."""
        self._pause.start()

    def prepare(self, index: CheckpointIndex) -> None:
        """Get very many rows ready for the first filter while the user looks at them."""
        if len(index.rows) > MANY and not index.is_ready:
            self._index = index
            self._soon.start()

    def _prepare(self) -> None:
        index = self._index
        if not index.is_ready and self._preparing is None:
            self._preparing = self._jobs.start(
                self.tr("Filtering"), lambda _: index.subjects(), self._prepared, self._prepared, quiet=True
            )

    def _prepared(self, _result: object) -> None:
        self._preparing, self._index = None, CheckpointIndex(())

    def run(self, index: CheckpointIndex, text: str, chosen: dict[bool, Mode]) -> None:
        """Look for what passes a filter text.

        Args:
            index: All rows.
            text: The filter.
            chosen: How to show them, with a filter and without.
        """
        self.stop()
        try:
            wanted, keys = read_query(text, STATES), self.keys
        except FilterError as error:
            self.refused.emit(index, error)
            return
        mode = chosen[bool(wanted) or keys is not None]
        if _is_quick(index, bool(wanted) or keys is not None, mode):
            self.found.emit(find(index, wanted, keys, mode))
            return

        def done(found: Found) -> None:
            self._job = None
            self.found.emit(found)

        def failed(error: BaseException) -> None:
            self._job = None
            self.failed.emit(error)

        self._job = self._jobs.start(
            self.tr("Filtering"), lambda _: find(index, wanted, keys, mode), done, failed, quiet=True
        )

    def stop(self) -> None:
        """Look for nothing any more."""
        self._pause.stop()
        self._jobs.cancel(self._job, silently=True)
        self._job = None

    def forget(self) -> None:
        """Look for nothing any more, and get nothing ready."""
        self.stop()
        self._soon.stop()
        self._jobs.cancel(self._preparing, silently=True)
        self._preparing, self._index = None, CheckpointIndex(())


def _is_quick(index: CheckpointIndex, filtered: bool, mode: Mode) -> bool:
    """Return True if it takes no time that anybody would notice."""
    return len(index.rows) <= MANY or (not filtered and (mode != "families" or index.knows_families))


def find(index: CheckpointIndex, wanted: Query, keys: Collection[str] | None, mode: Mode) -> Found:
    """Return what passes a filter, and a set of keys if given."""
    hits, filtered = index.select(wanted, keys), bool(wanted) or keys is not None
    tree: RowTree | None = None
    if mode == "families":
        tree = index.families(hits.rows).prepare() if filtered else index.families()
    elif mode == "tree":
        tree = index.only(hits.rows) if filtered else index
    return Found(index, wanted, hits, mode, tree, filtered)
