"""Bringing a file to the disk while it is still being written, so that nobody waits for the disk at the end.

Systems keep what is written in memory until a good part of it is full. A program that asks for the disk only after its
last byte then waits for all of them, and cannot be stopped in the meantime.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress

from ckpt_gui.core.meter import Meter

EVERY = 0.1  # seconds between two times that the disk is asked for what there is
_TICK = 0.1  # seconds after which a cancel is heard


@contextmanager
def flushing(fd: int, meter: Meter) -> Iterator[None]:
    """Bring what the block writes to a file to the disk meanwhile, and the rest at its end.

    Args:
        fd: The file, open for writing.
        meter: Stopped if the disk fails; asked whether to go on as long as the disk is waited for.

    Raises:
        Cancelled: The user stopped it.
        OSError: The disk is full or fails.
    """
    written = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(_flush, fd, written, meter)
        try:
            yield
            written.set()
            while not wait([future], timeout=_TICK).done:
                meter.add("Waiting for the disk", 0)
        except BaseException:
            _give_up(fd, written, future)
            raise
        future.result()


def _flush(fd: int, written: threading.Event, meter: Meter) -> None:
    sync = getattr(os, "fdatasync", os.fsync)
    try:
        while not written.wait(EVERY):
            sync(fd)
        os.fsync(fd)
    except OSError:
        meter.stop()
        raise


def _give_up(fd: int, written: threading.Event, future: Future[None]) -> None:
    """Let the disk have done with a file that nobody wants; tell of the disk's own failure first, if there is one."""
    with suppress(OSError):  # what failed first is told
        os.ftruncate(fd, 0)
    written.set()
    failure = future.exception()
    if failure is not None:
        raise failure
