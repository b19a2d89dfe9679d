"""Lets go of what a large checkpoint leaves behind: on a worker's thread, and a little at a time.

Python frees a value at once where the last reference to it goes. Half a million rows take a tenth of a second, and no
other thread works meanwhile, whichever does it. So what is not shown any more is kept until all panels have turned to
something else, and then taken apart by a job, list by list.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable
from types import FunctionType, ModuleType

from PySide6.QtCore import QObject, QTimer

from ckpt_gui.core.tree import CheckpointIndex
from ckpt_gui.gui.jobs import JobManager
from ckpt_gui.gui.snapshot import LISTED_FROM, Snapshot

WAIT_MS = 500  # until panels and jobs have let go of it
LARGE = 1_000  # values in a list that is taken apart
SLICE = 2_000  # values that are freed without a pause
DEEPEST = 100_000  # values that are looked through for large lists
_NO_PARTS = (str, bytes, int, float, type, FunctionType, ModuleType, QObject)


class LettingGo(QObject):
    """Takes what nobody wants any more."""

    def __init__(self, jobs: JobManager) -> None:
        super().__init__(jobs)
        self._jobs = jobs
        self._old: list[object] = []
        self._later = QTimer(self, singleShot=True, interval=WAIT_MS)
        self._later.timeout.connect(self._go_on)

    def take(self, *things: Snapshot | CheckpointIndex | None) -> None:
        """Keep large ones for a while, and then free them; small ones are gone at once."""
        for thing in things:
            index = thing.index if isinstance(thing, Snapshot) else thing
            if index is not None and len(index.rows) >= LISTED_FROM:
                self._old.append(thing)
                self._later.start()

    def _go_on(self) -> None:
        old, self._old = self._old, []
        if self._jobs.is_open:
            self._jobs.start(self.tr("Freeing memory"), lambda _: free(old), lambda _: None, lambda _: None, quiet=True)


def free(things: list[object]) -> None:
    """Empty a list of values, so that no other thread waits long; what is held somewhere else stays as it is.

    The parts of large lists are held while the lists go, which is quick then, and let go of in slices.
    """
    parts = [list(part) for part in _large_parts(things)]
    things.clear()
    while parts:
        part = parts.pop()
        while part:
            del part[-SLICE:]


def _large_parts(things: list[object]) -> list[Iterable[object]]:
    """Return the large lists, tuples, and keys and values of dicts that values consist of; those in others are not."""
    pending, seen, found = list(things), set(map(id, things)), list[Iterable[object]]()
    while pending and len(seen) < DEEPEST:
        thing = pending.pop()
        if isinstance(thing, list | tuple | dict) and len(thing) > LARGE:
            found += [thing.keys(), thing.values()] if isinstance(thing, dict) else [thing]
            continue
        for part in gc.get_referents(thing):
            if id(part) not in seen and not isinstance(part, _NO_PARTS):
                seen.add(id(part))
                pending.append(part)
    return found
