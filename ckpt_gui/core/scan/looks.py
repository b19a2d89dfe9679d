"""Second looks at a tensor whose counts say that something is there: where it stands, and in which rows."""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from ckpt_gui.core.dtypes import BY_NAME
from ckpt_gui.core.plan import Plan
from ckpt_gui.core.scan.result import Place, Rows
from ckpt_gui.core.source import Source
from ckpt_gui.core.stats import BLOCK, Asked, Watch, blocks
from ckpt_gui.core.stats.elements import Array, Counts, Floats, quick
from ckpt_gui.core.stats.heat import matrix_shape
from ckpt_gui.core.tensors import TensorRef

MOST_PLACES = 20
MOST_ROWS = 1000
INITIAL = 0.02  # `initializer_range` of nearly every config
_FEWEST = 16  # rows at the initial scale that are told
_PEAK = 6  # how many times more rows lie at the initial scale than beside it


def initial_std(plan: Plan) -> float:
    """Return the deviation with which the weights of a model begin, as far as its config tells."""
    raw = plan.config.raw if plan.config else {}
    text = raw.get("text_config")
    value = (text if isinstance(text, Mapping) else raw).get("initializer_range")
    return float(value) if isinstance(value, (int, float)) and 1e-5 < value < 1 else INITIAL


def large_places(
    source: Source, ref: TensorRef, limit: float, cancelled: Asked | None
) -> tuple[tuple[Place, ...], int]:
    """Return the first finite elements larger than a limit, at most `MOST_PLACES`, and how many there are.

    Args:
        source: The opened checkpoint.
        ref: The tensor.
        limit: Elements of exactly this magnitude are not too large.
        cancelled: Asked between blocks.
    """
    found: list[Place] = []
    count = 0
    for start, raw in blocks(source, ref, Watch("", ref.nbytes, None, cancelled)):
        values = quick(raw, ref.dtype)[: ref.numel - start]
        if -limit <= values.min() and values.max() <= limit:  # not so if one is NaN
            continue
        large = np.flatnonzero(np.isfinite(values) & (np.abs(values) > limit))
        count += large.size
        for at in large[: MOST_PLACES - len(found)].tolist():
            found.append(Place(_index(start + at, ref.shape), f"{float(values[at]):,.6g}"))
    return tuple(found), count


def odd_places(source: Source, ref: TensorRef, wanted: int, cancelled: Asked | None) -> tuple[Place, ...]:
    """Return the first elements that are not finite, at most `MOST_PLACES`; reading ends with the last of them.

    Args:
        source: The opened checkpoint.
        ref: The tensor.
        wanted: How many there are.
        cancelled: Asked between blocks.
    """
    found: list[Place] = []
    for start, raw in blocks(source, ref, Watch("", ref.nbytes, None, cancelled)):
        values = quick(raw, ref.dtype)[: ref.numel - start]
        for at in np.flatnonzero(~np.isfinite(values))[: MOST_PLACES - len(found)].tolist():
            found.append(Place(_index(start + at, ref.shape), _name(float(values[at]))))
        if len(found) >= min(wanted, MOST_PLACES):
            break
    return tuple(found)


def _index(place: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(int(n) for n in np.unravel_index(place, shape)) if shape else ()


def _name(value: float) -> str:
    return "NaN" if math.isnan(value) else "+∞" if value > 0 else "−∞"


def zero_rows(source: Source, ref: TensorRef, cancelled: Asked | None) -> tuple[Rows, ...]:
    """Return the rows of which every element is zero."""
    return _rows("zero", np.flatnonzero(row_sums(source, ref, cancelled).zero))


def _rows(kind: str, numbers: Counts) -> tuple[Rows, ...]:
    first = tuple(numbers[:MOST_ROWS].tolist())
    return (Rows(kind, int(numbers.size), first),) if numbers.size else ()


class RowSums:
    """Sums of squares of rows, which of them are nothing but zeros, and a checksum of each row's bytes."""

    def __init__(self, rows: int) -> None:
        self.squares: Floats = np.zeros(rows)
        self.zero: NDArray[np.bool_] = np.zeros(rows, dtype=bool)
        self.checks: Counts = np.zeros(rows, dtype=np.int64)


def row_sums(source: Source, ref: TensorRef, cancelled: Asked | None, *, checks: bool = False) -> RowSums:
    """Read a matrix row by row; an element that is not finite counts as none.

    Args:
        source: The opened checkpoint.
        ref: A tensor of a type of whole bytes; all dims but the last are rows.
        cancelled: Asked between blocks.
        checks: Whether checksums are wanted.
    """
    rows, columns = matrix_shape(ref.shape)
    sums = RowSums(rows)
    width = columns * BY_NAME[ref.dtype].itemsize
    if not width or not rows:
        return sums
    many = max(BLOCK // width, 1)
    raw: Array = np.empty(min(many, rows) * width, dtype=np.uint8)
    watch = Watch("", ref.nbytes, None, cancelled)
    for first in range(0, rows, many):
        part = raw[: min(many, rows - first) * width]
        watch.step(part.size)
        source.read_into(ref, first * width, part.data)
        _add_rows(sums, first, quick(part, ref.dtype).reshape(-1, columns))
        if checks:
            lines = part.reshape(-1, width)
            sums.checks[first : first + len(lines)] = [zlib.crc32(line.data) for line in lines]
    return sums


def _add_rows(sums: RowSums, first: int, values: Array) -> None:
    with np.errstate(over="ignore", invalid="ignore"):
        squares = np.einsum("ij,ij->i", values, values)
        if not np.isfinite(squares).all():
            values = np.where(np.isfinite(values), values, 0)
            squares = np.einsum("ij,ij->i", values, values)
    sums.squares[first : first + len(values)] = squares
    small = np.flatnonzero(squares == 0)  # or so small that their squares are
    sums.zero[first + small] = ~values[small].any(axis=1)


def untrained_rows(source: Source, ref: TensorRef, initial: float, cancelled: Asked | None) -> tuple[Rows, ...]:
    """Return the rows of an embedding or a head that look as if no text had ever moved them.

    They are zero, or equal to another row, or so many at the scale at which rows begin that it can be no chance: at
    least `_PEAK` times more than in bands as wide on both sides, while rows as a whole lie elsewhere.

    Args:
        source: The opened checkpoint.
        ref: The matrix.
        initial: The deviation with which rows begin.
        cancelled: Asked between blocks.
    """
    sums = row_sums(source, ref, cancelled, checks=True)
    columns = matrix_shape(ref.shape)[1]
    names = sums.squares.view(np.int64) ^ (sums.checks << 31)  # equal for equal rows, and for others hardly ever
    _, which, counts = np.unique(names, return_inverse=True, return_counts=True)
    equal = (counts[which] > 1) & ~sums.zero
    sizes = np.sqrt(sums.squares / max(columns, 1))
    return (
        *_rows("zero", np.flatnonzero(sums.zero)),
        *_rows("equal", np.flatnonzero(equal)),
        *_rows("initial", _at_initial_scale(sizes, np.flatnonzero((sums.squares > 0) & ~equal), columns, initial)),
    )


def _at_initial_scale(sizes: Floats, rows: Counts, columns: int, initial: float) -> Counts:
    nothing: Counts = np.zeros(0, dtype=np.int64)
    if not rows.size or columns < 32:
        return nothing
    logs = np.log(sizes[rows] / initial)
    band = 4 / math.sqrt(2 * columns)  # four deviations of the size of a row of random numbers
    inside = rows[np.abs(logs) <= band]
    beside = max(int(np.count_nonzero(np.abs(logs - side * 2 * band) <= band)) for side in (-1, 1))
    elsewhere = abs(float(np.median(logs))) > 3 * band
    return inside if elsewhere and inside.size >= max(_FEWEST, _PEAK * beside) else nothing
