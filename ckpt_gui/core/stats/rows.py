"""Differences by row, from blocks that end anywhere."""

from __future__ import annotations

import math

import numpy as np

from ckpt_gui.core.stats.elements import Array, Floats
from ckpt_gui.core.stats.figures import RowDifferences

MAX_ROWS = 2000
FIRST_ROWS = 1000


class RowMeans:
    """Mean |Δ| by row, of which the row that differs most of every `step` rows is kept, and which rows differ at all.

    All dims but the first count as columns.
    """

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.num_rows = shape[0] if shape else 1
        self.num_columns = max(math.prod(shape[1:]), 1)
        self.step = max(-(-self.num_rows // MAX_ROWS), 1)
        points = -(-self.num_rows // self.step)
        self.rows = np.arange(points, dtype=np.int64) * self.step
        self.values = np.zeros(points)
        self._open_row, self._open_sum = 0, 0.0
        self._differing, self._first, self._last_differing = 0, [0] * 0, -1

    def add(self, start: int, diff: Floats | None, count: int) -> None:
        """Take in the |Δ| of `count` elements from element `start` on; None means all zero."""
        if not count:
            return
        first, last = start // self.num_columns, (start + count - 1) // self.num_columns
        if diff is None:
            self._close_until(last)
            return
        sums = np.add.reduceat(diff, self._bounds(start, count))
        if first == self._open_row:
            sums[0] += self._open_sum
        self._open_row, self._open_sum = last, float(sums[-1])
        self._offer(first, sums / self.num_columns)  # the last row may be unfinished: its sum only grows

    def differ(self, start: int, mask: Array) -> None:
        """Take in which elements from element `start` on differ."""
        if not mask.any():
            return
        found = np.flatnonzero(np.logical_or.reduceat(mask, self._bounds(start, mask.size))) + start // self.num_columns
        if found[0] == self._last_differing:
            found = found[1:]
        if found.size:
            self._differing += found.size
            self._first += found[: FIRST_ROWS - len(self._first)].tolist()
            self._last_differing = int(found[-1])

    def _bounds(self, start: int, count: int) -> Array:
        """Return where the rows begin in a block."""
        first, last = start // self.num_columns, (start + count - 1) // self.num_columns
        return np.maximum(np.arange(first, last + 1, dtype=np.int64) * self.num_columns - start, 0)

    def _close_until(self, row: int) -> None:
        if row != self._open_row:
            self._open_row, self._open_sum = row, 0.0

    def _offer(self, first: int, means: Floats) -> None:
        at = 0
        while at < means.size:
            point = (first + at) // self.step
            end = min((point + 1) * self.step - first, means.size)
            best = at + int(means[at:end].argmax())
            if means[best] > self.values[point]:
                self.values[point], self.rows[point] = means[best], first + best
            at = end

    def result(self) -> RowDifferences:
        """Return what was found."""
        rows, values = tuple(self.rows.tolist()), tuple(self.values.tolist())
        return RowDifferences(rows, values, self.step, self._differing, tuple(self._first))
