"""Eight threads that wait for servers, so that nobody else has to: who asked can give up at any time.

They are daemons: a server that never answers must not keep the program from ending.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotYet
from queue import SimpleQueue
from typing import Any, TypeVar

from ckpt_gui.core.errors import Cancelled
from ckpt_gui.core.remote.faults import Fault
from ckpt_gui.core.remote.watch import Watch

CONNECTIONS = 8
POLL = 0.1  # seconds between two looks whether the user gave up
T = TypeVar("T")


class _Pool:
    """Threads that are made when they are first needed."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._threads = 0
        self._lock = threading.Lock()
        self._tasks: SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = SimpleQueue()

    def submit(self, work: Callable[[], T]) -> Future[T]:
        future: Future[T] = Future()
        self._tasks.put((future, work))
        with self._lock:
            if self._threads < self._size:
                self._threads += 1
                threading.Thread(target=self._run, name="ckpt_gui remote", daemon=True).start()
        return future

    def _run(self) -> None:
        while True:
            future, work = self._tasks.get()
            try:
                if future.set_running_or_notify_cancel():
                    future.set_result(work())
            except BaseException as error:  # noqa: BLE001 - raised again where the result is asked for
                future.set_exception(error)
            del future, work  # a thread that waits for its next task must not keep the megabytes of the last


_POOL = _Pool(CONNECTIONS)


def submit(work: Callable[[], T]) -> Future[T]:
    """Have something done by a thread that may wait for a server."""
    return _POOL.submit(work)


def wait(future: Future[T], watch: Watch, seconds: float) -> T:
    """Return a result; give up when the user does, or after a time once it has begun.

    Raises:
        Cancelled: The user gave up.
        Fault: It took too long.
    """
    begun: float | None = None
    while True:
        try:
            return future.result(timeout=POLL)
        except NotYet:
            if future.done():  # the work itself raised a TimeoutError
                raise
            try:
                watch.check()
            except Cancelled:
                future.cancel()
                raise
            if begun is None and future.running():
                begun = time.monotonic()
            if begun is not None and time.monotonic() - begun > seconds:
                raise Fault(f"gave no whole answer within {seconds:.0f} seconds", retry=True) from None
