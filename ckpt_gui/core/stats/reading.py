"""Reading tensors block by block, with progress in bytes and a question between blocks whether to stop."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import numpy as np

from ckpt_gui.core.dtypes import BY_NAME
from ckpt_gui.core.errors import Cancelled
from ckpt_gui.core.source import Source
from ckpt_gui.core.stats.elements import Array
from ckpt_gui.core.tensors import TensorRef

BLOCK = 1 << 20

Progress = Callable[[str, int, int], None]
Asked = Callable[[], bool]


class Watch:
    """Reports bytes done, and stops the work when asked."""

    def __init__(self, label: str, total: int, progress: Progress | None, cancelled: Asked | None) -> None:
        self.label, self.total, self.done = label, total, 0
        self._progress, self._cancelled = progress, cancelled

    def step(self, nbytes: int) -> None:
        """Count bytes that are about to be worked on.

        Raises:
            Cancelled: The user asked for it.
        """
        if self._cancelled and self._cancelled():
            raise Cancelled
        self.done += nbytes
        if self._progress:
            self._progress(self.label, min(self.done, self.total), self.total)


class SharedWatch:
    """Bytes done by several threads together, and one question whether to stop.

    Attributes:
        stopped: True once the work is to stop, whoever said so.
    """

    def __init__(self, label: str, total: int, progress: Progress | None, cancelled: Asked | None) -> None:
        self.label, self.total, self.done, self.stopped = label, total, 0, False
        self._progress, self._cancelled, self._lock = progress, cancelled, threading.Lock()

    def asked(self) -> bool:
        """Return True if the work is to stop."""
        if not self.stopped and self._cancelled is not None and self._cancelled():
            self.stopped = True
        return self.stopped

    def add(self, nbytes: int) -> None:
        """Count bytes that are done.

        Raises:
            Cancelled: The user asked for it.
        """
        if self.asked():
            raise Cancelled
        with self._lock:
            self.done += nbytes
            if self._progress is not None:
                self._progress(self.label, min(self.done, self.total), self.total)

    def watch(self, ref: TensorRef) -> Watch:
        """Return a watch over one tensor that adds to the whole."""
        before = 0

        def step(_: str, done: int, __: int) -> None:
            nonlocal before
            with self._lock:
                self.done += done - before
                before = done
                if self._progress is not None:
                    self._progress(self.label, min(self.done, self.total), self.total)

        return Watch("", ref.nbytes, step, self.asked)


def blocks(source: Source, ref: TensorRef, watch: Watch) -> Iterator[tuple[int, Array]]:
    """Yield the first element's number and the raw bytes of each block, in a buffer that is used again.

    Raises:
        CheckpointError: The tensor is an endless view, or its bytes can not be read.
    """
    ref.refuse_endless()
    buffer = np.empty(min(BLOCK, ref.nbytes), dtype=np.uint8)
    for start in range(0, ref.nbytes, BLOCK):
        raw = buffer[: min(BLOCK, ref.nbytes - start)]
        watch.step(raw.nbytes)
        source.read_into(ref, start, raw.data)
        yield start * 8 // BY_NAME[ref.dtype].bits, raw
