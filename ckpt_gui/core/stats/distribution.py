"""How values are spread: from counts of every value, or from a sketch of counts by size; any histogram comes from it.

The sketch cuts numbers where fp32 is cut after its upper 16 bits: sign, exponent and 7 bits of the fraction, so that a
bucket is at most 1/128 of its value wide at any size. It needs no range beforehand, and sketches add.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from ckpt_gui.core.dtypes import BY_NAME
from ckpt_gui.core.native import bin_numbers, kernels
from ckpt_gui.core.stats.elements import Array, Counts, Floats, pattern_values
from ckpt_gui.core.stats.figures import Histogram
from ckpt_gui.dataclasses import dataclass

BUCKETS = 1 << 16
EXACT = "exact: from counts of every value"
SKETCH = "from a sketch of the counts: each value is right to 1 part in 128"
_LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True, slots=True, eq=False)
class Distribution:
    """The finite values of a tensor, ascending, and how often each occurs.

    Attributes:
        values: Different values; in a sketch, the middle of each bucket.
        counts: Elements that have them.
        exact: True if these are the values themselves.
    """

    values: Floats
    counts: Counts
    exact: bool

    @property
    def caption(self) -> str:
        """How the counts came about, in words."""
        return EXACT if self.exact else SKETCH

    def quantiles(self, shares: tuple[float, ...]) -> tuple[tuple[float, float], ...]:
        """Return, for each share, the smallest value that at least that share of the elements does not exceed."""
        if not self.values.size:
            return ()
        below = np.cumsum(self.counts)
        at = np.searchsorted(below, np.ceil(np.array(shares) * below[-1]), side="left")
        return tuple(zip(shares, self.values[np.minimum(at, self.values.size - 1)].tolist(), strict=True))

    def histogram(self, bins: int = 0, edges: Floats | None = None) -> Histogram | None:
        """Return counts by bin: of equal width over the whole range, or between given borders.

        Elements outside given borders are counted in the first or the last bin. None if there is nothing to count, or
        no bin can be that wide.
        """
        if edges is None:
            extent = (float(self.values[0]), float(self.values[-1])) if self.values.size else None
            edges = equal_edges(extent, bins)
        if edges is None:
            return None
        return Histogram(tuple(edges.tolist()), tuple(self.counts_between(edges).tolist()))

    def counts_between(self, edges: Floats) -> Counts:
        """Return how many elements lie between each two borders."""
        counts = np.zeros(edges.size - 1, dtype=np.int64)
        np.add.at(counts, bin_numbers(self.values, edges), self.counts)
        return counts


@lru_cache(maxsize=16)
def ranks(dtype: str) -> Counts:
    """Return the place of each pattern of a narrow type by ascending value; −1 for those that are not finite."""
    values = pattern_values(dtype)
    finite = np.flatnonzero(np.isfinite(values))
    places: Counts = np.full(values.size, -1, dtype=np.int64)
    places[finite[np.argsort(values[finite], kind="stable")]] = np.arange(finite.size)
    return places


def of_patterns(dtype: str, counts: Counts) -> Distribution:
    """Return the distribution that counts of bit patterns say; patterns of one value are put together."""
    seen = np.flatnonzero(counts)
    places = ranks(dtype)[seen]
    order = seen[np.argsort(places)][np.count_nonzero(places < 0) :]
    return _joined(pattern_values(dtype)[order], counts[order], True)


def of_values(values: Floats, whole: bool) -> Distribution:
    """Return the distribution of finite values; `whole` is False where they had to be rounded to fp64."""
    found, counts = np.unique(values, return_counts=True)
    return Distribution(found, counts.astype(np.int64), whole)


def of_sketch(counts: Counts, low: float, high: float) -> Distribution:
    """Return the distribution that a sketch says, held within the smallest and the largest value."""
    seen = np.flatnonzero(counts)
    values = _middles()[seen]
    order = np.argsort(values, kind="stable")
    return _joined(np.clip(values[order], low, high), counts[seen][order], False)


def _joined(values: Floats, counts: Counts, exact: bool) -> Distribution:
    if not values.size:
        return Distribution(values, counts, exact)
    first = np.flatnonzero(np.concatenate(([True], values[1:] != values[:-1])))
    return Distribution(values[first], np.add.reduceat(counts, first), exact)


@lru_cache(maxsize=1)
def _middles() -> Floats:
    """Return the middle of each bucket; zero and subnormals share one bucket by sign, whose middle counts as zero."""
    bits = (np.arange(BUCKETS, dtype=np.uint32) << 16) | 0x8000
    with np.errstate(invalid="ignore"):
        middles = bits.view(np.float32).astype(np.float64)
    middles[[0, BUCKETS // 2]] = 0.0
    infinite = (np.arange(BUCKETS) & 0x7FFF) >= 0x7F80
    middles[infinite] = np.copysign(_LARGEST, np.where(np.arange(BUCKETS)[infinite] < BUCKETS // 2, 1.0, -1.0))
    return middles


def add_to_sketch(counts: Counts, values: Array) -> None:
    """Count finite elements by bucket.

    Args:
        counts: The sketch.
        values: The elements, fp32 or fp64.
    """
    if values.dtype != np.float32:
        values = np.clip(values, -_LARGEST, _LARGEST).astype(np.float32)
    kernels().count(counts, values.view(np.uint16)[1::2])


def is_whole(dtype: str, size: float) -> bool:
    """Return True if values up to a size are exact in fp64."""
    return BY_NAME[dtype].kind != "int" or size <= 2.0**53


def equal_edges(extent: tuple[float, float] | None, bins: int) -> Floats | None:
    """Return the borders of equal bins over a range; None if there is nothing to count, or no bin can be that wide."""
    if extent is None or not bins:
        return None
    low, high = extent
    if low == high:
        low, high = low - 0.5, high + 0.5
    return np.linspace(low, high, bins + 1) if math.isfinite(high - low) else None
