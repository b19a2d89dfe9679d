"""Unfolding and folding what is selected, however much lies below: a little at a time, so that the window goes on."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Sequence

from PySide6.QtCore import QObject, QTimer

from ckpt_gui.core.row_tree import Node
from ckpt_gui.gui.panels.tree_view import KeyTreeView

MOST_UNASKED = 5_000  # rows that are unfolded without being asked about
SLICE = 0.008  # seconds of own work between two looks at what the user does


class Unfolding(QObject):
    """Unfolds groups, with all that is below them or as they were."""

    def __init__(self, view: KeyTreeView) -> None:
        super().__init__(view)
        self._view = view
        self._pending: list[Node] = []
        self._names: Collection[str] | None = None  # of the groups that are wanted; None for all
        self._timer = QTimer(self, interval=0)
        self._timer.timeout.connect(self._go_on)
        view.keys.modelAboutToBeReset.connect(self.stop)

    @property
    def running(self) -> bool:
        """Whether there is more to be unfolded."""
        return self._timer.isActive()

    def unfold(self, nodes: Iterable[Node]) -> None:
        """Unfold groups with all groups in them."""
        self._start([node for node in nodes if not node.is_row], None)

    def restore(self, names: Collection[str]) -> None:
        """Unfold the groups of these names, as far as the groups around them are among them."""
        self._start(self._view.keys.known_below(None), names)

    def _start(self, nodes: Sequence[Node], names: Collection[str] | None) -> None:
        self._pending, self._names = [node for node in reversed(nodes) if not node.is_row], names
        self._timer.start()
        self._go_on()

    def fold(self, nodes: Iterable[Node]) -> None:
        """Fold groups; for a row, the group that it is in."""
        self.stop()
        for node in nodes:
            group = node.parent if node.is_row else node
            if group is not None and group.parent is not None:
                index = self._view.keys.index_of(group)
                self._view.collapse(index)
                if node.is_row:
                    self._view.setCurrentIndex(index)

    def stop(self) -> None:
        """Leave the rest as it is."""
        self._pending.clear()
        self._timer.stop()

    def _go_on(self) -> None:
        """Unfold for a moment: Qt's own way does not fetch what it does not know of, and does all in one go."""
        keys, until = self._view.keys, time.thread_time() + SLICE
        while self._pending and time.thread_time() < until:
            node = self._pending.pop()
            if self._names is None or keys.tree.prefix(node) in self._names:
                self._view.unfold_one(keys.index_of(node))
                self._pending += [child for child in reversed(keys.known_below(node)) if not child.is_row]
        if not self._pending:
            self._timer.stop()


def rows_below(nodes: Iterable[Node]) -> int:
    """Return how many rows groups hold; one in another counts once."""
    groups = {node for node in nodes if not node.is_row}
    return sum(node.size for node in groups if groups.isdisjoint(node.ancestors()[:-1]))
