"""Reading tensors block by block, with progress in bytes and a question between blocks whether to stop."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from ckpt_gui.core.dtypes import BY_NAME
from ckpt_gui.core.errors import Cancelled
from ckpt_gui.core.stats.elements import Array
from ckpt_gui.core.tensors import Source, TensorRef

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


def blocks(source: Source, ref: TensorRef, watch: Watch) -> Iterator[tuple[int, Array]]:
    """Yield the first element's number and the raw bytes of each block, in a buffer that is used again."""
    buffer = np.empty(min(BLOCK, ref.nbytes), dtype=np.uint8)
    for start in range(0, ref.nbytes, BLOCK):
        raw = buffer[: min(BLOCK, ref.nbytes - start)]
        watch.step(raw.nbytes)
        source.read_into(ref, start, raw.data)
        yield start * 8 // BY_NAME[ref.dtype].bits, raw
