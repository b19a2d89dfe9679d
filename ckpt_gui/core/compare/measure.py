"""How far two tensors are apart: one streamed pass, sums in fp64.

Sums go through einsum and not through BLAS, whose threads get in the way of the workers and of everything else.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ckpt_gui.core.casts import as_float
from ckpt_gui.core.compare.blocks import Bytes, Watch, equal_bytes, nbytes, pairs
from ckpt_gui.core.compare.result import Delta
from ckpt_gui.core.dtypes import BY_NAME, num_bytes
from ckpt_gui.core.ops import Stream
from ckpt_gui.core.stats import decode, no_figures

BLOCK = 256 << 10  # its values in fp64 still fit a core's cache


def measure(left: Stream, right: Stream, watch: Watch, count: int | None = None) -> Delta | None:
    """Return how far two streams of one type are apart; None for types below a byte.

    Args:
        left: A's tensor.
        right: B's tensor.
        watch: Told of bytes.
        count: Elements to compare, from the start; all by default.
    """
    width = BY_NAME[left.dtype].itemsize
    if not width or left.dtype != right.dtype:
        return None
    size = nbytes(left) if count is None else num_bytes(left.dtype, count)
    if no_figures(left.dtype):
        changed = sum(_bits_differ(one, two, width) for _, one, two in pairs(left, right, size, watch))
        return Delta(size // width, changed)
    sums = _Sums(width)
    for start, one, two in pairs(left, right, size, watch, BLOCK):
        sums.add(start // width, one, two, left.dtype)
    return sums.delta(size // width, math.prod(left.shape[1:]) or 1)


class _Sums:
    """The running figures of one pair."""

    def __init__(self, width: int) -> None:
        self.width = width
        self.changed = self.skipped = 0
        self.largest, self.at = 0.0, -1
        self.squares = self.squares_a = self.squares_b = 0.0

    def add(self, first: int, one: Bytes, two: Bytes, dtype: str) -> None:
        x = _values(one, dtype)
        if equal_bytes(one, two):
            self._same(x)
            return
        self.changed += _bits_differ(one, two, self.width)
        self._apart(first, x, _values(two, dtype))

    def _same(self, x: NDArray[np.float64]) -> None:
        square = _square(x)
        if not math.isfinite(square):
            known = np.isfinite(x)
            self.skipped += x.size - int(np.count_nonzero(known))
            square = _square(np.where(known, x, 0.0))
        self.squares_a += square
        self.squares_b += square

    def _apart(self, first: int, x: NDArray[np.float64], y: NDArray[np.float64]) -> None:
        with np.errstate(invalid="ignore", over="ignore"):
            delta = y - x
            square = _square(delta)
            if not math.isfinite(square):
                known = np.isfinite(delta)
                self.skipped += delta.size - int(np.count_nonzero(known))
                x, y, delta = (np.where(known, v, 0.0) for v in (x, y, delta))
                square = _square(delta)
            self.squares += square
            self.squares_a += _square(x)
            self.squares_b += _square(y)
            sizes = np.abs(delta, out=delta)
            at = int(sizes.argmax())
            if sizes[at] > self.largest:
                self.largest, self.at = float(sizes[at]), first + at

    def delta(self, count: int, columns: int) -> Delta:
        where = divmod(self.at, columns) if self.at >= 0 else None
        norms: list[float] = [math.sqrt(s) for s in (self.squares, self.squares_a, self.squares_b)]
        return Delta(count, self.changed, self.skipped, self.largest, where, *norms)


def _values(raw: Bytes, dtype: str) -> NDArray[np.float64]:
    """Return values in fp64: bf16 by a shift, which is four times as fast as looking them up."""
    return as_float(raw, dtype).astype(np.float64) if dtype == "bf16" else decode(raw, dtype)


def _square(x: NDArray[np.float64]) -> float:
    return float(np.einsum("i,i->", x, x))


def _bits_differ(one: Bytes, two: Bytes, width: int) -> int:
    """Count the elements whose bits differ."""
    if width <= 8:
        kind: Any = f"uint{8 * width}"
        return int(np.count_nonzero(one.view(kind) != two.view(kind)))
    return int(np.count_nonzero((one != two).reshape(-1, width).any(axis=1)))
