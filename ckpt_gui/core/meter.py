"""What the workers of a long job share: the count of bytes done, and the word to stop."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import TypeVar

from ckpt_gui.core.errors import Cancelled
from ckpt_gui.core.niceness import Rest
from ckpt_gui.core.remote.watch import adopt, current
from ckpt_gui.dataclasses import dataclass, field

Progress = Callable[[str, int, int], None]
T = TypeVar("T")


@dataclass(slots=True)
class Meter:
    """Counts bytes of all workers, passes progress on, and says when to stop.

    Attributes:
        total: Bytes in all.
        progress: Told label, done and total.
        cancelled: Asked before each block.
        done: Bytes so far.
        rest: Pauses that each worker takes after a block, to leave the machine to others; None for none.
    """

    total: int
    progress: Progress | None = None
    cancelled: Callable[[], bool] | None = None
    done: int = 0
    rest: Rest | None = None
    _stop: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, label: str, count: int) -> None:
        """Count a block.

        Raises:
            Cancelled: The user, or the failure of another worker, stops the work.
        """
        with self._lock:
            self.done += count
            if self.progress:
                self.progress(label, self.done, self.total)
        if self._stop.is_set() or (self.cancelled and self.cancelled()):
            raise Cancelled
        if self.rest is not None:
            self.rest.take()

    def rewind(self, done: int) -> None:
        """Forget what was counted of work that was in vain, and that it was stopped."""
        with self._lock:
            self.done = done
            self._stop.clear()

    def stop(self) -> None:
        """Make every worker stop at its next block."""
        self._stop.set()


def run_jobs(job: Callable[[T], None], items: Iterable[T], meter: Meter, workers: int) -> None:
    """Run a job for every item on some workers; the first failure stops the others and is raised."""
    queue, lock = iter(items), threading.Lock()

    def work() -> None:
        while True:
            with lock:
                try:
                    item = next(queue)
                except StopIteration:
                    return
            job(item)

    with ThreadPoolExecutor(max(workers, 1), initializer=adopt, initargs=(current(),)) as pool:
        futures = [pool.submit(work) for _ in range(max(workers, 1))]
        try:
            for future in as_completed(futures):
                future.result()
        except BaseException:
            meter.stop()
            raise
