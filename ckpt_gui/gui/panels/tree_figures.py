"""The column of standard deviations, for the rows in sight.

Those of large tensors come from what was calculated before: a scan or the inspector has read them. Small tensors are
not kept, as they are read as quickly as an entry of the cache, and so they are read here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from PySide6.QtCore import QObject, QTimer

from ckpt_gui.core.source import Source
from ckpt_gui.core.tensors import TensorRef
from ckpt_gui.gui.jobs import Job
from ckpt_gui.gui.models.tree_columns import Column
from ckpt_gui.gui.panels.tree_heads import TreeHeads
from ckpt_gui.gui.panels.tree_views import KeyViews
from ckpt_gui.gui.session import Session

PAUSE_MS = 120  # after scrolling


class TreeFigures(QObject):
    """Looks for figures of the rows in sight while their column is shown."""

    def __init__(self, session: Session, views: KeyViews, heads: TreeHeads) -> None:
        super().__init__(views)
        self._session, self._views, self._heads = session, views, heads
        self._job: Job | None = None
        self._later = QTimer(self, singleShot=True, interval=PAUSE_MS)
        self._later.timeout.connect(self._look)
        for view in views.both:
            view.settled.connect(self._on_settled)
        heads.changed.connect(lambda _: self._on_settled())
        session.scanned.connect(self._on_scanned)

    def _on_settled(self) -> None:
        if self._heads.is_shown(Column.STD):
            self._later.start()

    def _on_scanned(self) -> None:
        """Look again for what was not there before."""
        self._views.looks.figures.clear()
        self._on_settled()

    def stop(self) -> None:
        """Look for nothing any more."""
        self._later.stop()
        self._session.jobs.cancel(self._job, silently=True)
        self._job = None

    def _look(self) -> None:
        snapshot, keys = self._session.snapshot, self._views.keys
        known = self._views.looks.figures
        numbers = [keys.number(index) for index in self._views.current.in_sight()]
        refs = {n: keys.tree.rows[n].ref for n in numbers if n is not None and n not in known}
        wanted = [(number, ref) for number, ref in refs.items() if ref is not None]
        if snapshot is None or not wanted or self._job is not None:
            return

        def done(found: dict[int, float | None]) -> None:
            self._job = None
            self._views.looks.show_figures(found)
            self._on_settled()  # it may have been scrolled on meanwhile

        def failed(_error: BaseException) -> None:
            self._job = None

        self._job = self._session.jobs.start(
            self.tr("Looking for figures"),
            lambda job: known_stds(snapshot.source, wanted, job.cancelled),
            done,
            failed,
            quiet=True,
        )


def known_stds(
    source: Source, wanted: Sequence[tuple[int, TensorRef]], cancelled: Callable[[], bool]
) -> dict[int, float | None]:
    """Return the standard deviations that are known, or known at once; None for a tensor of which there is none.

    Args:
        source: The checkpoint.
        wanted: Numbers to know the tensors by, and the tensors.
        cancelled: Asked between blocks.

    Raises:
        Cancelled: `cancelled` said so.
        CheckpointError: The bytes of a small one can not be read.
    """
    from ckpt_gui.core.stats import StatsCache, tensor_stats  # numpy: not before the window
    from ckpt_gui.core.stats.cache import LEAST_BYTES
    from ckpt_gui.core.stats.single import without_figures

    cache, found = StatsCache(), {}
    for number, ref in wanted:
        if ref.nbytes < LEAST_BYTES:
            found[number] = tensor_stats(source, ref, cancelled=cancelled).std
        else:
            tally = cache.load(source, ref) if without_figures(source, ref) is None else None
            found[number] = tally.stats(ref).std if tally is not None else None
    return found
