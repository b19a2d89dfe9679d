"""Streams over streams: a tensor made of others, of which any range of bytes can be read without holding more.

They are what the ops of `part_ops` and `shape_ops` put into work: rows one behind the other, columns side by side, a
slice, a transposed matrix, runs of rows that change places.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ckpt_gui.core.dtypes import BY_NAME
from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.ops import Bytes, HasColumns, Shape, Stream, read_any

_TILE = 256  # rows that are turned together: what is read and what is written then stay in the cache of a core
_WIDEST = 8  # bytes of the widest number that numpy moves as one
_TRANSPOSE_BLOCK = 4 << 20  # bytes of result made at once: wide enough that what is read is not crumbs
_ROW_READS = 64 << 10  # slices of rows at least this long are read one by one, shorter ones with the whole rows


def seen_as(stream: Stream, shape: Shape) -> Stream:
    """Return the same bytes under another shape."""
    return SliceStream(stream, shape, 0, 0)


class _Base:
    """What all streams over streams have: type, shape, and the bytes of an element."""

    unit: int

    def __init__(self, parts: Sequence[Stream], shape: Shape) -> None:
        types = {p.dtype for p in parts}
        if len(types) != 1:
            raise CheckpointError(
                "dtype-mixed", f"Tensors of the types {', '.join(sorted(types))} can not be put together."
            )
        self.parts, self.shape, self.dtype = parts, shape, parts[0].dtype
        self.item = BY_NAME[self.dtype].itemsize
        if not self.item:
            raise CheckpointError(
                "quantised", f"Tensors of the type {self.dtype} can not be taken apart or put together."
            )


class RowsStream(_Base):
    """Parts one behind the other in bytes: a concatenation along the first dimension, or a stack."""

    def __init__(self, parts: Sequence[Stream], shape: Shape) -> None:
        """Read `parts` one after the other as a tensor of `shape`."""
        super().__init__(parts, shape)
        self.unit = max(p.unit for p in parts)
        self.sizes = [math.prod(p.shape) * self.item for p in parts]

    def read_into(self, start: int, out: Bytes) -> None:
        """Fill `out` with the bytes from `start` on."""
        begin, stop = 0, start + out.nbytes
        for part, size in zip(self.parts, self.sizes, strict=True):
            low, high = max(start, begin), min(stop, begin + size)
            if low < high:
                read_any(part, low - begin, out[low - start : high - start])
            begin += size


class ColumnsStream(_Base):
    """A concatenation along a later dimension: rows of the result are rows of the parts side by side."""

    def __init__(self, parts: Sequence[Stream], shape: Shape, dim: int) -> None:
        """Put rows of `parts` side by side along `dim`."""
        super().__init__(parts, shape)
        self.widths = [math.prod(p.shape[dim:]) * self.item for p in parts]
        self.row = sum(self.widths)
        self.unit = max(self.row, 1)

    def read_into(self, start: int, out: Bytes) -> None:
        """Fill `out` with the bytes from `start` on."""
        import numpy as np

        first, rows = start // self.row, out.nbytes // self.row
        table, place = out.reshape(rows, self.row), 0
        for part, width in zip(self.parts, self.widths, strict=True):
            block = np.empty(rows * width, dtype=np.uint8)
            read_any(part, first * width, block)
            table[:, place : place + width] = block.reshape(rows, width)
            place += width


class SliceStream(_Base):
    """A part of a tensor along a dimension, from `begin` on; along the first one it is a range of bytes."""

    def __init__(self, inner: Stream, shape: Shape, dim: int, begin: int) -> None:
        """Cut `shape` out of `inner` along `dim`."""
        super().__init__([inner], shape)
        self.inner, self.dim = inner, dim
        step = math.prod(inner.shape[dim + 1 :]) * self.item
        self.begin = begin * step
        self.outer = inner.shape[dim] * step if inner.shape else self.item  # bytes of a row of the whole
        self.width = math.prod(shape[dim:]) * self.item
        self.unit = max(self.width, 1) if dim else max(inner.unit, 1)

    def read_into(self, start: int, out: Bytes) -> None:
        """Fill `out` with the bytes from `start` on."""
        if self.dim == 0:
            read_any(self.inner, self.begin + start, out)
            return
        first, rows = start // self.width, out.nbytes // self.width
        if self.width >= _ROW_READS:
            for i in range(rows):
                read_any(self.inner, (first + i) * self.outer + self.begin, out[i * self.width :][: self.width])
            return
        self._cut(first, rows, out)

    def _cut(self, first: int, rows: int, out: Bytes) -> None:
        import numpy as np

        block = np.empty(rows * self.outer, dtype=np.uint8)
        read_any(self.inner, first * self.outer, block)
        out.reshape(rows, self.width)[:] = block.reshape(rows, self.outer)[:, self.begin : self.begin + self.width]


class TransposedStream(_Base):
    """The last two dimensions swapped, block of columns by block of columns."""

    def __init__(self, inner: Stream, shape: Shape) -> None:
        """Swap the last two dimensions of `inner`."""
        super().__init__([inner], shape)
        self.inner = inner
        self.high, self.wide = inner.shape[-2:]  # of the stored matrix
        self.row = self.high * self.item  # bytes of a row of the result
        self.matrix = self.high * self.wide * self.item
        rows = max(1, min(self.wide, _TRANSPOSE_BLOCK // max(self.row, 1)))
        self.unit = max(rows * self.row, 1)

    def read_into(self, start: int, out: Bytes) -> None:
        """Fill `out` with the bytes from `start` on."""
        done = 0
        while done < out.nbytes:
            which, inside = divmod(start + done, self.matrix)
            size = min(out.nbytes - done, self.matrix - inside)
            self._columns(which * self.matrix, inside // self.row, out[done : done + size])
            done += size

    def _columns(self, origin: int, first: int, out: Bytes) -> None:
        """Fill rows of the result, from `first` on, of the matrix that begins at `origin`."""
        import numpy as np

        rows = out.nbytes // self.row
        width, pitch = rows * self.item, self.wide * self.item
        block = np.empty((self.high, width), dtype=np.uint8)
        if width == pitch:
            read_any(self.inner, origin, block.reshape(-1))
        elif isinstance(self.inner, HasColumns):
            self.inner.read_columns(origin, first * self.item, block)
        else:
            for i in range(self.high):
                read_any(self.inner, origin + i * pitch + first * self.item, block[i])
        whole: Any = f"u{self.item}" if self.item <= _WIDEST else f"V{self.item}"  # elements move faster than bytes
        cells, turned = block.view(whole), out.view(whole).reshape(rows, self.high)
        for begin in range(0, self.high, _TILE):
            turned[:, begin : begin + _TILE] = cells[begin : begin + _TILE].T


class RegroupedStream(_Base):
    """A tensor whose runs of rows change places: run (i, j) of groups × parts becomes run (j, i)."""

    def __init__(self, inner: Stream, shape: Shape, groups: int, parts: int) -> None:
        """Let the rows of `inner` be `groups` groups of `parts` runs."""
        super().__init__([inner], shape)
        self.groups, self.count, self.unit = groups, parts, 1
        self.run = math.prod(shape) * self.item // max(groups * parts, 1)

    def read_into(self, start: int, out: Bytes) -> None:
        """Fill `out` with the bytes from `start` on."""
        done = 0
        while done < out.nbytes:
            which, inside = divmod(start + done, self.run)
            part, group = divmod(which, self.groups)
            size = min(out.nbytes - done, self.run - inside)
            origin = (group * self.count + part) * self.run + inside
            read_any(self.parts[0], origin, out[done : done + size])
            done += size
