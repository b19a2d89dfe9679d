"""What a cast would do to a tensor: which values change, vanish or overflow, before anything is written."""

from __future__ import annotations

import numpy as np

from ckpt_gui.core.casts import cast
from ckpt_gui.core.dtypes import BY_NAME, CASTABLE
from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.native import kernels
from ckpt_gui.core.source import Source
from ckpt_gui.core.stats.elements import Array, Counts, Floats, decode
from ckpt_gui.core.stats.reading import Asked, Progress, Watch, blocks
from ckpt_gui.core.tensors import TensorRef
from ckpt_gui.dataclasses import dataclass

LOWEST, HIGHEST = -150, 129  # powers of two between which magnitudes are counted, one bin each; ends take the rest


@dataclass(frozen=True, slots=True)
class CastStats:
    """A tensor before and after a cast.

    Attributes:
        key: The tensor's name.
        dtype: Its element type.
        target: The type it is cast to.
        count: Elements.
        changed: Finite elements whose value is another afterwards.
        overflow: Finite elements that become infinite.
        vanished: Elements that were not zero and become zero.
        max_error: Largest |Δ| where both sides are finite.
        max_relative: Largest |Δ| / |x| where both sides are finite and x is not zero.
        exponents: The power of two at which each bin of magnitudes begins; one more than there are bins.
        before: Elements a bin, by magnitude, without zeros and what is not finite.
        after: The same after the cast.
        zeros: Zeros before and after.
        infinite: Infinite elements before and after.
        nan: Elements that are no numbers.
    """

    key: str
    dtype: str
    target: str
    count: int
    changed: int
    overflow: int
    vanished: int
    max_error: float
    max_relative: float
    exponents: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]
    zeros: tuple[int, int]
    infinite: tuple[int, int]
    nan: int


def cast_stats(
    source: Source,
    ref: TensorRef,
    target: str,
    *,
    progress: Progress | None = None,
    cancelled: Asked | None = None,
) -> CastStats:
    """Return what a cast to another float type would do.

    Args:
        source: The opened checkpoint.
        ref: One of its tensors, of a float type of 16 to 64 bits.
        target: `bf16`, `fp16`, `fp32` or `fp64`.
        progress: Called with a label, bytes done and bytes in all.
        cancelled: Asked between blocks.

    Raises:
        Cancelled: `cancelled` said so.
        CheckpointError: There is no such cast, or the bytes can not be read.
    """
    if not {ref.dtype, target} <= set(CASTABLE):
        text = f"`{safe_text(ref.key)}` is {ref.dtype}; casts are between {', '.join(CASTABLE)}."
        raise CheckpointError("dtype-mixed", text, key=ref.key)
    sums = _Sums()
    watch = Watch(f"Casting {safe_text(ref.key, 60)}", ref.nbytes, progress, cancelled)
    if BY_NAME[ref.dtype].bits == 16:
        counts = np.zeros(1 << 16, dtype=np.int64)
        for _, raw in blocks(source, ref, watch):
            kernels().count(counts, raw.view(np.uint16))
        seen = np.flatnonzero(counts)
        sums.add(seen.astype(np.uint16).view(np.uint8), ref.dtype, target, counts[seen])
    else:
        for _, raw in blocks(source, ref, watch):
            sums.add(raw, ref.dtype, target, None)
    return sums.result(ref, target)


class _Sums:
    """What was seen so far."""

    def __init__(self) -> None:
        self.changed = self.overflow = self.vanished = self.nan = 0
        self.zeros, self.infinite = [0, 0], [0, 0]
        self.error = self.relative = 0.0
        self.sizes = np.zeros((2, HIGHEST - LOWEST), dtype=np.int64)

    def add(self, raw: Array, dtype: str, target: str, weights: Counts | None) -> None:
        """Take in elements; with weights, each as often as they say."""
        x, y = decode(raw, dtype), decode(cast(raw, dtype, target)[0], target)

        def number(mask: Array) -> int:
            return int(np.count_nonzero(mask) if weights is None else weights[mask].sum())

        finite = np.isfinite(x) & np.isfinite(y)
        self.changed += number((x != y) & np.isfinite(x))
        self.overflow += number(np.isinf(y) & np.isfinite(x))
        self.vanished += number((y == 0) & (x != 0))
        self.nan += number(np.isnan(x))
        for side, values in enumerate((x, y)):
            self.zeros[side] += number(values == 0)
            self.infinite[side] += number(np.isinf(values))
            self._count_sizes(side, values, weights)
        x, y = x[finite], y[finite]
        error = np.abs(x - y)
        self.error = max(self.error, float(error.max(initial=0.0)))
        with np.errstate(divide="ignore", invalid="ignore"):
            relative = np.where(x == 0, 0.0, error / np.abs(x))
        self.relative = max(self.relative, float(relative.max(initial=0.0)))

    def _count_sizes(self, side: int, values: Floats, weights: Counts | None) -> None:
        kept = np.isfinite(values) & (values != 0)
        exponents = np.clip(np.frexp(values[kept])[1] - 1, LOWEST, HIGHEST - 1) - LOWEST
        number = None if weights is None else weights[kept]
        found = np.bincount(exponents, number, minlength=self.sizes.shape[1])
        self.sizes[side] += found.astype(np.int64)

    def result(self, ref: TensorRef, target: str) -> CastStats:
        """Return the figures, magnitudes cut to those that occur."""
        used = np.flatnonzero(self.sizes.any(axis=0))
        low, high = (int(used[0]), int(used[-1]) + 1) if used.size else (0, 0)
        before, after = (tuple(side[low:high].tolist()) for side in self.sizes)
        return CastStats(
            ref.key, ref.dtype, target, ref.numel, self.changed, self.overflow, self.vanished, self.error,
            self.relative, tuple(range(low + LOWEST, high + LOWEST + 1)), before, after,
            (self.zeros[0], self.zeros[1]), (self.infinite[0], self.infinite[1]), self.nan,
        )  # fmt: skip
