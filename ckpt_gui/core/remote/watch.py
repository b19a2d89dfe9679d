"""What an opening knows of itself while it fetches: how much, how often, what it holds ready, and when to stop.

Kept in a context variable, so that the readers of formats need not hand it on.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from ckpt_gui.core.errors import Cancelled
from ckpt_gui.dataclasses import dataclass, field

if TYPE_CHECKING:
    from ckpt_gui.core.remote.blob import Blob

Progress = Callable[[str, int, int], None]


@dataclass(slots=True)
class Watch:
    """An opening in work.

    Attributes:
        progress: Told a label, what is done, and how much there is to do.
        cancelled: Asked while answers are waited for.
        requests: Requests so far.
        nbytes: Bytes that came so far.
        listings: Names by folder, so that a folder is listed once.
        ready: Files that were looked for and found, by address; taken by who opens them.
        stopped: True once what was opened is given up, whoever did so: threads that still wait shall end.
    """

    progress: Progress | None = None
    cancelled: Callable[[], bool] | None = None
    requests: int = 0
    nbytes: int = 0
    listings: dict[str, tuple[str, ...]] = field(default_factory=dict)
    ready: dict[str, Blob | None] = field(default_factory=dict)
    stopped: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def count(self, requests: int, nbytes: int) -> None:
        """Take note of an answer."""
        with self._lock:
            self.requests += requests
            self.nbytes += nbytes
            text = f"fetching: {self.requests:,} requests, {self.nbytes / 1e6:,.1f} MB"
        if self.progress is not None:
            self.progress(text, 0, 0)

    def check(self) -> None:
        """Raise `Cancelled` once the user wants it to stop."""
        if self.stopped or (self.cancelled is not None and self.cancelled()):
            raise Cancelled


_CURRENT: ContextVar[Watch | None] = ContextVar("ckpt_gui_remote_watch", default=None)


def current() -> Watch:
    """Return the opening in work; one that nobody looks at where there is none."""
    return _CURRENT.get() or Watch()


def adopt(watch: Watch) -> None:
    """Have this thread, a worker of a pool, stop waiting for servers when the job that made the pool is stopped."""
    _CURRENT.set(watch)


@contextmanager
def watching(progress: Progress | None, cancelled: Callable[[], bool] | None) -> Iterator[Watch]:
    """Count what the block fetches, and let it be stopped."""
    watch = Watch(progress, cancelled)
    token = _CURRENT.set(watch)
    try:
        yield watch
    finally:
        _CURRENT.reset(token)
