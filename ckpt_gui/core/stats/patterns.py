"""Counts of bit patterns: an 8- or 16-bit type has so few that one count of them gives every figure exactly."""

from __future__ import annotations

from typing import Any

import numpy as np

from ckpt_gui.core.dtypes import BY_NAME
from ckpt_gui.core.native import kernels
from ckpt_gui.core.stats.distribution import Distribution, of_patterns
from ckpt_gui.core.stats.elements import SMALLEST_NORMAL, Array, Counts, exact, pattern_values, special
from ckpt_gui.core.stats.figures import TensorStats
from ckpt_gui.core.stats.tally_base import figures, moments_of
from ckpt_gui.core.tensors import TensorRef


class Patterns:
    """Counts of bit patterns: everything can be told from them."""

    is_exact = True

    def __init__(self, dtype: str, numel: int) -> None:
        self.dtype, self.numel = dtype, numel
        self._packed = BY_NAME[dtype].bits < 8
        self.counts = np.zeros(1 << max(BY_NAME[dtype].bits, 8), dtype=np.int64)
        self._found: Distribution | None = None  # until more is counted
        self._last = 0  # of a packed type: the last byte seen, half of which may be padding

    def add(self, raw: Array) -> None:
        """See `Tally`."""
        self._found = None
        patterns = raw.view(f"uint{max(BY_NAME[self.dtype].bits, 8)}")
        kernels().count(self.counts, patterns)
        self._last = int(patterns[-1]) if self._packed and patterns.size else self._last

    def merge(self, other: Patterns) -> None:
        """See `Tally`."""
        self._found = None
        self.counts += other.counts
        self._last = other._last or self._last

    def _by_pattern(self) -> Counts:
        """Return the counts of the type's own patterns: of a packed type, both halves of each byte."""
        if not self._packed:
            return self.counts
        by_half = self.counts.reshape(16, 16)
        counts: Counts = by_half.sum(axis=0) + by_half.sum(axis=1)
        counts[self._last >> 4] -= self.numel % 2
        return counts

    def moments(self) -> tuple[int, float, float, float]:
        """See `Tally`."""
        return moments_of(self.distribution())

    def range(self) -> tuple[float, float] | None:
        """See `Tally`."""
        values = self.distribution().values
        return (float(values[0]), float(values[-1])) if values.size else None

    def distribution(self) -> Distribution:
        """See `Tally`."""
        if self._found is None:
            self._found = of_patterns(self.dtype, self._by_pattern())
        return self._found

    def stats(self, ref: TensorRef) -> TensorStats:
        """See `Tally`."""
        counts = self._by_pattern()
        index = np.flatnonzero(counts)
        every, number = pattern_values(self.dtype)[index], counts[index]
        masks = special(every)
        masks["subnormals"] = (every != 0) & (np.abs(every) < SMALLEST_NORMAL.get(self.dtype, 0.0))
        counted: dict[str, Any] = {name: int(number[mask].sum()) for name, mask in masks.items()}
        found = self.distribution()
        if not found.values.size:
            return TensorStats(ref.key, ref.dtype, ref.shape, ref.numel, **counted)
        low, high = exact(found.values[0], self.dtype), exact(found.values[-1], self.dtype)
        return figures(ref, moments_of(found), low, high, found, counted, ())

    def state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """See `Tally`."""
        seen = np.flatnonzero(self.counts)
        return {"last": self._last}, {"patterns": seen.astype(np.uint16), "counts": self.counts[seen].astype(np.uint64)}

    def restore(self, plain: dict[str, Any], arrays: dict[str, Array]) -> None:
        """See `Tally`."""
        seen, counts = arrays["patterns"], arrays["counts"].astype(np.int64)
        if int(counts.sum()) != (-(-self.numel // 2) if self._packed else self.numel) or (counts <= 0).any():
            raise ValueError("the counts are not those of this tensor")
        self._found = None
        self.counts[seen] = counts
        self._last = int(plain["last"])
