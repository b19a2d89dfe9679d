"""A tensor as a picture: the mean and the largest magnitude of blocks, from one streamed pass.

Blocks are averaged, never sampled: a single large value is seen at any size, and so is one that is not finite. All dims
but the last count as rows.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ckpt_gui.core.dtypes import BY_NAME
from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.native import columns_of, kernels
from ckpt_gui.core.source import Source
from ckpt_gui.core.stats.elements import Array, Counts, Floats, no_figures, quick
from ckpt_gui.core.stats.reading import BLOCK, Asked, Progress, Watch
from ckpt_gui.core.tensors import TensorRef
from ckpt_gui.dataclasses import dataclass

SIZE = (256, 256)


@dataclass(frozen=True, slots=True, eq=False)
class HeatMap:
    """A part of a matrix in blocks.

    Attributes:
        key: The tensor's name.
        rows: The first row of the part, and the one after the last.
        columns: The same of columns.
        row_step: Rows a block; the last may have fewer.
        column_step: Columns a block.
        mean: Mean of the finite elements of each block; NaN where there are none.
        abs_max: Largest magnitude of the finite elements; NaN where there are none.
        bad: Elements of each block that are not finite.
    """

    key: str
    rows: tuple[int, int]
    columns: tuple[int, int]
    row_step: int
    column_step: int
    mean: Floats
    abs_max: Floats
    bad: Counts

    @property
    def true_values(self) -> bool:
        """True if each block is one element."""
        return self.row_step == self.column_step == 1

    @property
    def first_bad(self) -> tuple[tuple[int, int], tuple[int, int]] | None:
        """First and last row, and column, of the first block with what is not finite; None if there is none."""
        places = np.argwhere(self.bad)
        if not len(places):
            return None
        down, across = places[0].tolist()
        return _span(self.rows, down, self.row_step), _span(self.columns, across, self.column_step)


def _span(part: tuple[int, int], number: int, step: int) -> tuple[int, int]:
    first = part[0] + number * step
    return first, min(first + step, part[1]) - 1


def matrix_shape(shape: tuple[int, ...]) -> tuple[int, int]:
    """Return rows and columns of a tensor as a matrix: all dims but the last are rows.

    >>> matrix_shape((3, 4, 5)), matrix_shape((7,)), matrix_shape(())
    ((12, 5), (1, 7), (1, 1))
    """
    return math.prod(shape[:-1]), shape[-1] if shape else 1


def heat_map(
    source: Source,
    ref: TensorRef,
    *,
    rows: tuple[int, int] | None = None,
    columns: tuple[int, int] | None = None,
    size: tuple[int, int] = SIZE,
    progress: Progress | None = None,
    cancelled: Asked | None = None,
) -> HeatMap:
    """Return a tensor, or a part of it, in at most `size` blocks.

    Args:
        source: The opened checkpoint.
        ref: One of its tensors.
        rows: First row, and the one after the last; None for all.
        columns: The same of columns.
        size: Most blocks down and across.
        progress: Called with a label, bytes done and bytes in all.
        cancelled: Asked between blocks.

    Raises:
        Cancelled: `cancelled` said so.
        CheckpointError: The type has no figures, or the bytes can not be read.
    """
    if (reason := no_figures(ref.dtype)) or BY_NAME[ref.dtype].bits < 8:
        raise CheckpointError("unknown-layout", reason or f"{ref.dtype} elements share bytes.", key=ref.key)
    ref.refuse_endless()
    whole = matrix_shape(ref.shape)
    rows, columns = (_within(part, n) for part, n in zip((rows, columns), whole, strict=True))
    picture = _Picture(rows, columns, size)
    itemsize = BY_NAME[ref.dtype].itemsize
    wide = columns[1] - columns[0]
    watch = Watch(f"Reading {safe_text(ref.key, 60)}", (rows[1] - rows[0]) * wide * itemsize, progress, cancelled)
    across = min(wide, BLOCK // itemsize)
    down = max(BLOCK // max(across * itemsize, 1), 1)
    for first in range(*rows, down):
        for left in range(*columns, max(across, 1)):
            window = ((first, min(first + down, rows[1])), (left, min(left + across, columns[1])))
            values = _read(source, ref, *window, whole[1])
            watch.step(values.size * itemsize)
            picture.add(first - rows[0], left - columns[0], values)
    return picture.result(ref.key)


def _within(part: tuple[int, int] | None, size: int) -> tuple[int, int]:
    low, high = part or (0, size)
    low = max(0, min(low, size))
    return low, max(low, min(high, size))


def _read(source: Source, ref: TensorRef, rows: tuple[int, int], columns: tuple[int, int], width: int) -> Array:
    """Return some columns of a few rows in fp32 or fp64; whole rows are read at once."""
    itemsize, count, wide = BY_NAME[ref.dtype].itemsize, rows[1] - rows[0], columns[1] - columns[0]
    raw: Array = np.empty(count * wide * itemsize, dtype=np.uint8)
    if wide == width:
        source.read_into(ref, rows[0] * width * itemsize, raw.data)
    else:
        for n in range(count):
            start = ((rows[0] + n) * width + columns[0]) * itemsize
            source.read_into(ref, start, raw[n * wide * itemsize : (n + 1) * wide * itemsize].data)
    return quick(raw, ref.dtype).reshape(count, wide)


class _Picture:
    """Sums of blocks, filled from the top."""

    def __init__(self, rows: tuple[int, int], columns: tuple[int, int], size: tuple[int, int]) -> None:
        self.rows, self.columns = rows, columns
        self.row_step, self.column_step = (
            max(-(-(part[1] - part[0]) // most), 1) for part, most in zip((rows, columns), size, strict=True)
        )
        shape = (-(-(rows[1] - rows[0]) // self.row_step), -(-(columns[1] - columns[0]) // self.column_step))
        self.sums, self.largest = np.zeros(shape), np.full(shape, -1.0)
        self.finite: NDArray[np.int64] = np.zeros(shape, dtype=np.int64)
        self.bad: NDArray[np.int64] = np.zeros(shape, dtype=np.int64)

    def add(self, first: int, left: int, values: Array) -> None:
        """Take in a window whose upper left corner is that row and column of the part."""
        if not values.size:
            return
        rows, down = _groups(first, values.shape[0], self.row_step)
        columns, across = _groups(left, values.shape[1], self.column_step)
        width = np.diff(across, append=values.shape[1])
        for row, part in zip(range(rows.start, rows.stop), np.split(values, down[1:]), strict=True):
            found = kernels().columns(part) if part.dtype == np.float32 else columns_of(part)
            self.sums[row, columns] += np.add.reduceat(found.sums, across)
            largest = self.largest[row, columns]
            np.maximum(largest, np.maximum.reduceat(found.largest, across), out=largest)
            bad = np.add.reduceat(found.bad, across)
            self.bad[row, columns] += bad
            self.finite[row, columns] += len(part) * width - bad

    def result(self, key: str) -> HeatMap:
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = self.sums / self.finite
        largest = np.where(self.largest < 0, np.nan, self.largest)
        return HeatMap(key, self.rows, self.columns, self.row_step, self.column_step, mean, largest, self.bad)


def _groups(first: int, count: int, step: int) -> tuple[slice, Counts]:
    """Return which blocks a run of rows or columns belongs to, and where in the run each begins."""
    number = (first + np.arange(count)) // step
    return slice(int(number[0]), int(number[-1]) + 1), np.flatnonzero(np.diff(number, prepend=-1))
