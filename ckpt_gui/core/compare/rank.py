"""How many directions a change has: the rank of ΔW = B − A, as of a LoRA adapter that was merged.

A merged adapter is a product of two thin matrices, rounded to the stored type. Rounding adds a small matrix of full
rank, so singular values count only above its size. Its variance is ulp²/12 an element; the spectral norm of a random
matrix is, for large ones, at most the longest row plus the longest column of its standard deviations (A. Bandeira,
R. van Handel, Sharp nonasymptotic bounds on the norm of random matrices, 2016). A change that is smaller than the
rounding can not be resolved: its rank comes out too low.

Small matrices are decomposed exactly. Of large ones the largest singular values are found by a randomised range finder
with one power iteration (N. Halko, P. Martinsson, J. Tropp, Finding structure with randomness, 2011), in four streamed
passes over blocks of rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ckpt_gui.core.compare.blocks import Asked, Watch, nbytes
from ckpt_gui.core.compare.pairing import Sides
from ckpt_gui.core.compare.result import RankEstimate, Row
from ckpt_gui.core.compare.values import Progress
from ckpt_gui.core.dtypes import BY_NAME, CASTABLE
from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.ops import Stream, read_any
from ckpt_gui.core.stats import decode

EXACT = 1 << 20  # elements of a matrix that is decomposed exactly
BLOCK = 4 << 20  # bytes of a block of rows in fp64
MOST_BASIS = 64 << 20  # bytes of the two thin matrices of the range finder
MARGIN = 1.05  # the bound holds for infinitely large matrices; this much more for real ones
SHOWN = 128  # singular values kept
_MANTISSA = {"bf16": 7, "fp16": 10, "fp32": 23, "fp64": 52}
Floats = NDArray[np.float64]


def rank_estimate(
    sides: Sides, row: Row, *, progress: Progress | None = None, cancelled: Asked | None = None
) -> RankEstimate:
    """Estimate the rank of the change of one tensor.

    Args:
        sides: Both checkpoints.
        row: A tensor that both have, a matrix of plain floats.
        progress: Called with a label, bytes done and bytes in all.
        cancelled: Asked between blocks.

    Raises:
        CheckpointError: There is no change of a matrix to look at, or it can not be read.
        Cancelled: `cancelled` said so.
    """
    left, right = _matrices(sides, row)
    change = _Change(left, right)
    height, width = left.shape
    label = f"Rank of {safe_text(row.key, 60)}"
    passes = 1 if height * width <= EXACT else 4
    total = passes * (nbytes(left) + nbytes(right))
    done = 0

    def told(count: int) -> None:
        nonlocal done
        done += count
        if progress:
            progress(label, done, total)

    watch = Watches(told, cancelled)
    if passes == 1:
        singular, method = _exact(change, watch), "exact singular values"
        complete = True
    else:
        basis = max(16, min(SHOWN, MOST_BASIS // (8 * (height + width))))
        singular = _randomised(change, watch, min(basis, height, width))
        complete = len(singular) == min(height, width)
        method = f"the {len(singular)} largest singular values, by a randomised range finder with one power iteration"
    tolerance = max(change.noise(), float(singular[0]) * max(height, width) * 2.0**-52)
    rank = int(np.count_nonzero(singular > tolerance))
    energy = float(np.dot(singular[:rank], singular[:rank])) / change.squares if change.squares else 1.0
    return RankEstimate(
        row.key, (height, width), rank, rank == len(singular) and not complete, tolerance,
        tuple(float(s) for s in singular[:SHOWN]), min(energy, 1.0), method,
    )  # fmt: skip


class Watches:
    """A watch for each pass: bytes that are read again are work again."""

    def __init__(self, told: Any, cancelled: Asked | None) -> None:
        self._told, self._cancelled = told, cancelled

    def new(self) -> Watch:
        """Return the watch of the next pass."""
        return Watch(self._told, self._cancelled)


def _matrices(sides: Sides, row: Row) -> tuple[Stream, Stream]:
    name = safe_text(row.key)
    if row.a is None or row.b is None or row.a.shape != row.b.shape:
        raise CheckpointError("missing-tensor", f"`{name}` is not on both sides in one shape: there is no change.")
    if len(row.a.shape) != 2 or not {row.a.dtype, row.b.dtype} <= set(CASTABLE):
        text = f"`{name}` is no matrix of plain floats: only those have a rank here."
        raise CheckpointError("shape-mismatch", text)
    try:
        return sides.pair(row)
    except KeyError as error:
        text = f"The head counts of one of the two are not known, so the rows of `{name}` can not be put in one order."
        raise CheckpointError("heads-unknown", text, fix="Put a config.json or params.json beside it.") from error


class _Change:
    """ΔW in blocks of rows, with the variance of its rounding summed up in the first pass."""

    def __init__(self, left: Stream, right: Stream) -> None:
        self.left, self.right = left, right
        self.height, self.width = left.shape
        self.squares = 0.0
        self._mantissa = min(_MANTISSA[left.dtype], _MANTISSA[right.dtype])
        self._row_noise = 0.0
        self._column_noise = np.zeros(self.width)

    def blocks(self, watch: Watch, *, first: bool = False) -> Iterator[tuple[slice, Floats]]:
        """Yield the rows and their change."""
        step = max(BLOCK // (8 * max(self.width, 1)), 1)
        for start in range(0, self.height, step):
            stop = min(start + step, self.height)
            watch.reach(stop * self.width * sum(BY_NAME[s.dtype].itemsize for s in (self.left, self.right)))
            one, two = (self._rows(s, start, stop) for s in (self.left, self.right))
            change = two - one
            if first:
                self._note(two, change)
            yield slice(start, stop), change

    def _rows(self, tensor: Stream, start: int, stop: int) -> Floats:
        row = self.width * BY_NAME[tensor.dtype].itemsize
        raw = np.empty((stop - start) * row, dtype=np.uint8)
        read_any(tensor, start * row, raw)
        found = decode(raw, tensor.dtype).reshape(stop - start, self.width)
        return np.nan_to_num(found, copy=False, posinf=0.0, neginf=0.0)

    def _note(self, weights: Floats, change: Floats) -> None:
        """Sum up ‖ΔW‖² and the variance of rounding: ulp²/12, the ulp being that of each weight."""
        self.squares += float(np.einsum("ij,ij->", change, change))
        exponents = np.frexp(weights)[1] - 1 - self._mantissa
        variance = np.where(weights == 0, 0.0, np.exp2(2.0 * exponents)) / 12
        self._row_noise = max(self._row_noise, float(variance.sum(axis=1).max(initial=0.0)))
        self._column_noise += variance.sum(axis=0)

    def noise(self) -> float:
        """Return how large a singular value rounding alone can make."""
        return MARGIN * (math.sqrt(self._row_noise) + math.sqrt(float(self._column_noise.max(initial=0.0))))


def _exact(change: _Change, watches: Watches) -> Floats:
    whole = np.zeros((change.height, change.width))
    for rows, block in change.blocks(watches.new(), first=True):
        whole[rows] = block
    return _singular(whole) if whole.size else np.zeros(1)


def _singular(matrix: Floats) -> Floats:
    return np.asarray(np.linalg.svd(matrix, compute_uv=False), dtype=np.float64)


def _randomised(change: _Change, watches: Watches, size: int) -> Floats:
    start = np.random.default_rng(0).standard_normal((change.width, size))  # the same answer every time
    right = _times(change, start, watches, first=True)
    right = _transposed_times(change, np.linalg.qr(right)[0], watches)
    left = _times(change, np.linalg.qr(right)[0], watches)
    return _singular(_transposed_times(change, np.linalg.qr(left)[0], watches))


def _times(change: _Change, thin: Floats, watches: Watches, *, first: bool = False) -> Floats:
    out = np.empty((change.height, thin.shape[1]))
    for rows, block in change.blocks(watches.new(), first=first):
        out[rows] = block @ thin
    return out


def _transposed_times(change: _Change, thin: Floats, watches: Watches) -> Floats:
    out = np.zeros((change.width, thin.shape[1]))
    for rows, block in change.blocks(watches.new()):
        out += block.T @ thin[rows]
    return out
