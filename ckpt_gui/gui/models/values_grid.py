"""A part of a tensor as rows and columns, and the tiles in which it is read."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ckpt_gui.core.source import Source
from ckpt_gui.core.tensors import TensorRef
from ckpt_gui.core.values import Index, read_values
from ckpt_gui.dataclasses import dataclass

TILE = (64, 32)  # rows and columns that are read together


@dataclass(frozen=True, slots=True)
class Grid:
    """Which element stands where: the last dimension that stays goes across, those before it go down.

    Attributes:
        ref: The tensor.
        index: The part of it.
    """

    ref: TensorRef
    index: Index

    @property
    def _kept(self) -> tuple[int, ...]:
        return tuple(place for place, kept in enumerate(self.index.kept) if kept)

    @property
    def _down(self) -> tuple[int, ...]:
        kept = self._kept
        return kept[:-1] if len(kept) > 1 else kept

    @property
    def _across(self) -> int | None:
        return self._kept[-1] if len(self._kept) > 1 else None

    @property
    def rows(self) -> int:
        """Number of rows."""
        return math.prod(len(self.index.axes[place]) for place in self._down) if self.index.numel else 0

    @property
    def columns(self) -> int:
        """Number of columns."""
        if not self.index.numel:
            return 0
        return 1 if self._across is None else len(self.index.axes[self._across])

    def row_name(self, row: int) -> str:
        """Return where a row lies in the tensor: its positions in the dimensions that go down."""
        return ", ".join(map(str, self._positions(row))) or "0"

    def row_position(self, row: int) -> int | None:
        """Return the position of a row in the tensor's first dimension; None if that does not go down alone."""
        return self._positions(row)[0] if self._down == (0,) else None

    def row_at(self, position: int) -> int | None:
        """Return the row that lies at a position of the first dimension; None if it is not in the part."""
        axis = self.index.axes[0] if self._down == (0,) else range(0)
        return axis.index(position) if position in axis else None

    def column_name(self, column: int) -> str:
        """Return where a column lies in the tensor."""
        return "" if self._across is None else str(self.index.axes[self._across][column])

    def read(self, source: Source, rows: range, columns: range) -> tuple[NDArray[Any], str]:
        """Return the values of some rows and columns, and how they were decoded where that is not plain.

        Raises:
            CheckpointError: The type has no values, or the bytes can not be read.
        """
        pieces, note = [], ""
        for part in self._parts(rows, columns):
            found = read_values(source, self.ref, part)
            pieces.append(found.array.reshape(-1, len(columns)))
            note = found.note
        return np.concatenate(pieces), note

    def _positions(self, row: int) -> tuple[int, ...]:
        sizes = [len(self.index.axes[place]) for place in self._down]
        corner = np.unravel_index(row, sizes) if sizes else ()
        return tuple(self.index.axes[place][int(at)] for place, at in zip(self._down, corner, strict=True))

    def _parts(self, rows: range, columns: range) -> Iterator[Index]:
        """Yield the parts that make up some rows and columns: runs of the innermost dimension that goes down."""
        if not self._down:
            yield self.index
            return
        *outer, inner = self._down
        size = len(self.index.axes[inner])
        at = rows.start
        while at < rows.stop:
            stop = min(rows.stop, at - at % size + size)
            axes = list(self.index.axes)
            for place, position in zip(outer, self._positions(at), strict=False):
                axes[place] = range(position, position + 1)
            axes[inner] = axes[inner][at % size : at % size + stop - at]
            if self._across is not None:
                axes[self._across] = axes[self._across][columns.start : columns.stop]
            yield Index(tuple(axes), self.index.kept)
            at = stop


def value_text(value: Any) -> str:
    """Return a value for a cell.

    >>> value_text(0.1), value_text(-0.0), value_text(float("nan")), value_text(float("-inf")), value_text(7)
    ('0.1', '−0', 'NaN', '−Inf', '7')
    """
    if isinstance(value, float | np.floating):
        number = float(value)
        if math.isnan(number):
            return "NaN"
        if math.isinf(number):
            return "+Inf" if number > 0 else "−Inf"
        if number == 0:
            return "−0" if math.copysign(1, number) < 0 else "0"
        return f"{number:.6g}"
    return str(value)
