"""Bytes of a strided view in row-major order, with bounded memory.

A transposed or sliced tensor is not one run of bytes in its storage. A block is read as one span where its elements
lie densely enough, and is halved along its widest dimension where they do not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

Read = Callable[[int, memoryview], None]

MAX_SPAN = 8 << 20
SMALL_SPAN = 64 << 10
SPARSE = 16


def read_strided(
    read: Read, shape: Sequence[int], strides: Sequence[int], itemsize: int, start: int, out: memoryview
) -> None:
    """Fill `out` with the bytes from `start` on of a strided tensor laid out row by row.

    Args:
        read: Fills a buffer from a byte offset relative to the tensor's first element.
        shape: Sizes.
        strides: Element strides, not negative.
        itemsize: Bytes of an element.
        start: First byte wanted.
        out: Where they go.
    """
    import numpy as np

    if not len(out):
        return
    first, last = start // itemsize, -(-(start + len(out)) // itemsize)
    kept = [(size, stride) for size, stride in zip(shape, strides, strict=True) if size != 1]
    flat = np.empty((last - first) * itemsize, dtype=np.uint8)
    elements = flat.view(np.dtype((np.void, itemsize)))
    _fill_range(read, [k[0] for k in kept], [k[1] for k in kept], 0, first, elements)
    skip = start - first * itemsize
    out[:] = flat.data[skip : skip + len(out)]


def _fill_range(
    read: Read, shape: list[int], strides: list[int], base: int, first: int, out: np.ndarray[Any, Any]
) -> None:
    """Fill a run of elements that begins at `first`: a part of a row, whole rows, a part of a row."""
    if not shape:
        _fill_block(read, base, out.reshape(()), ())
        return
    row = math.prod(shape[1:])
    done = 0
    while done < len(out):
        index, within = divmod(first + done, row)
        if within or len(out) - done < row:
            count = min(row - within, len(out) - done)
            _fill_range(read, shape[1:], strides[1:], base + index * strides[0], within, out[done : done + count])
        else:
            rows = (len(out) - done) // row
            count = rows * row
            block = out[done : done + count].reshape((rows, *shape[1:]))
            _fill_block(read, base + index * strides[0], block, tuple(strides))
        done += count


def _fill_block(read: Read, base: int, out: np.ndarray[Any, Any], strides: tuple[int, ...]) -> None:
    import numpy as np

    itemsize = out.dtype.itemsize
    reaches = [(size - 1) * stride for size, stride in zip(out.shape, strides, strict=True)]
    span = (1 + sum(reaches)) * itemsize
    if span <= SMALL_SPAN or (span <= MAX_SPAN and span <= SPARSE * out.nbytes):
        buffer = np.empty(span // itemsize, dtype=out.dtype)
        read(base * itemsize, buffer.view(np.uint8).data)
        steps = tuple(stride * itemsize for stride in strides)
        out[...] = np.lib.stride_tricks.as_strided(buffer, out.shape, steps)
        return
    axis = reaches.index(max(reaches))
    half = out.shape[axis] // 2
    before = (slice(None),) * axis
    _fill_block(read, base, out[(*before, slice(None, half))], strides)
    _fill_block(read, base + half * strides[axis], out[(*before, slice(half, None))], strides)
