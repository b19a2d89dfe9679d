"""Reading two tensors beside each other: in one type, in blocks of bounded memory, up to the first difference."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from ckpt_gui.core.dtypes import BY_NAME, CASTABLE, num_bytes
from ckpt_gui.core.errors import Cancelled
from ckpt_gui.core.exprs import Expr, stream_of
from ckpt_gui.core.ops import CastStream, RefStream, Stream, read_any
from ckpt_gui.core.source import Source

BLOCK = 1 << 20
LARGEST_STEP = 8 << 20  # of a tensor whose parts are made together; above, parts are made more than once
PREFIX = 64 << 10  # bytes that tell most tensors apart
Bytes = NDArray[np.uint8]
Asked = Callable[[], bool]


class Watch:
    """Bytes looked at of one pair of tensors: told once, however often they are read again.

    Attributes:
        cancelled: Asked before each block.
    """

    def __init__(self, told: Callable[[int], None] | None = None, cancelled: Asked | None = None) -> None:
        """Tell `told` of new bytes; ask `cancelled` whether to stop."""
        self._told, self._cancelled, self._reached = told, cancelled, 0

    def reach(self, position: int) -> None:
        """Say that a pass is about to look at the bytes before `position`.

        Raises:
            Cancelled: The user asked for it.
        """
        if self._cancelled and self._cancelled():
            raise Cancelled
        if self._told and position > self._reached:
            self._told(position - self._reached)
            self._reached = position


def stream(source: Source, expr: Expr, dims: Mapping[str, int]) -> Stream:
    """Return what an expression over stored tensors makes as a stream.

    Raises:
        KeyError: A head count that it takes is not known.
    """
    return stream_of(expr, dims, lambda ref: RefStream(source, ref))


def in_one_type(left: Stream, right: Stream) -> tuple[Stream, Stream]:
    """Return both in one type: the wider is cast to the narrower. Types that are no plain floats stay."""
    return in_types(left, right)[0]


def in_types(left: Stream, right: Stream) -> tuple[tuple[Stream, Stream], ...]:
    """Return both in one type in every way in which they may be equal: bf16 and fp16 may have been either before."""
    if left.dtype == right.dtype or not {left.dtype, right.dtype} <= set(CASTABLE):
        return ((left, right),)
    down, up = (CastStream(left, right.dtype), right), (left, CastStream(right, left.dtype))
    bits = BY_NAME[left.dtype].bits - BY_NAME[right.dtype].bits
    return (down,) if bits > 0 else (up,) if bits < 0 else (down, up)


def to_measure(left: Stream, right: Stream) -> tuple[Stream, Stream]:
    """Return both in the type in which they are measured: the narrower; fp32 for bf16 beside fp16."""
    found = in_types(left, right)
    return found[0] if len(found) == 1 else (CastStream(left, "fp32"), CastStream(right, "fp32"))


def nbytes(tensor: Stream) -> int:
    """Return the bytes of a stream."""
    return num_bytes(tensor.dtype, math.prod(tensor.shape))


def pairs(
    left: Stream, right: Stream, total: int, watch: Watch, block: int = BLOCK, *, all_bytes: bool = True
) -> Iterator[tuple[int, Bytes, Bytes]]:
    """Yield offset and bytes of both, in buffers that are used again.

    Args:
        left: One.
        right: The other.
        total: Bytes of each.
        watch: Told of bytes.
        block: Bytes at a time, if units allow.
        all_bytes: False to leave out what both have as a hole in a sparse file: zeros.
    """
    unit = math.lcm(left.unit, right.unit)
    step = max(block // unit, 1) * unit if unit <= LARGEST_STEP else block
    buffers = [np.empty(min(step, total), dtype=np.uint8) for _ in range(2)]
    start = 0
    while start < total:
        if not all_bytes and (data := _next_data(left, right, start) // step * step) > start:
            start = data
            watch.reach(min(start, total))
            continue
        size = min(step, total - start)
        watch.reach(start + size)
        one, two = buffers[0][:size], buffers[1][:size]
        read_any(left, start, one)
        read_any(right, start, two)
        yield start, one, two
        start += size


def _next_data(left: Stream, right: Stream, start: int) -> int:
    """Return the first place from `start` on where one of two stored tensors may hold anything but zeros."""
    if not isinstance(left, RefStream) or not isinstance(right, RefStream):
        return start
    return min(side.source.next_data(side.ref, start) for side in (left, right))


def equal_bytes(one: Bytes, two: Bytes) -> bool:
    """Compare two blocks, eight bytes at a time where they can be."""
    if one.nbytes % 8 == 0:
        return np.array_equal(one.view(np.uint64), two.view(np.uint64))
    return np.array_equal(one, two)


def same(left: Stream, right: Stream, watch: Watch, count: int | None = None) -> bool:
    """Return True if both are equal byte for byte; reads up to the first difference.

    Args:
        left: One.
        right: The other, of the same type.
        watch: Told of bytes.
        count: Elements to compare, from the start; all by default.
    """
    if left.dtype != right.dtype:
        return False
    size = nbytes(left) if count is None else num_bytes(left.dtype, count)
    return all(equal_bytes(one, two) for _, one, two in pairs(left, right, size, watch, all_bytes=False))


def prefix(tensor: Stream) -> bytes:
    """Return a digest of the type, the shape and the first bytes: equal tensors have equal ones."""
    raw = np.empty(min(PREFIX, nbytes(tensor)), dtype=np.uint8)
    read_any(tensor, 0, raw)
    made = hashlib.blake2b(repr((tensor.dtype, tensor.shape)).encode(), digest_size=16)
    made.update(raw.data)
    return made.digest()
