"""Exact statistics of one tensor, and of a pair of tensors, streamed in blocks of bounded memory.

An 8- or 16-bit type has few bit patterns, so one count of the patterns gives every figure and every histogram exactly;
wider types are accumulated in fp64 (block means and squared deviations merged, so that nothing cancels), and their
histograms take a second pass, because the range must be known first. torch is not used: its fp32 norms of large tensors
are visibly wrong, and 16-bit types need no conversion here.

Minimum, maximum, mean, deviation and norm are those of the finite elements; NaN and the infinities are counted apart.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from ckpt_gui.core.casts import as_float
from ckpt_gui.core.dtypes import BY_NAME
from ckpt_gui.core.errors import Cancelled, CheckpointError
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.tensors import Source, TensorRef

BLOCK = 1 << 20
BINS = 128
MAX_ROWS = 2000
PIECE = 1 << 18  # elements that are counted at once: the best size for numpy's bincount
FEW = 1 << 14  # below this, looking at the elements is cheaper than at all the patterns

Progress = Callable[[str, int, int], None]
Asked = Callable[[], bool]
Array = NDArray[Any]
Floats = NDArray[np.float64]
Relation = Literal["same storage", "equal", "different"]


@dataclass(frozen=True, slots=True)
class Histogram:
    """How many finite elements lie in each bin of equal width; the last bin includes its right edge.

    Attributes:
        edges: The borders, one more than there are bins.
        counts: Elements a bin.
    """

    edges: tuple[float, ...]
    counts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TensorStats:
    """The figures of one tensor.

    Attributes:
        key: Its name in the file.
        dtype: Element type.
        shape: Sizes.
        count: Elements.
        min: Smallest finite element; None if there is none. Whole numbers are exact.
        max: Largest finite element.
        mean: Mean of the finite elements.
        std: Standard deviation of the finite elements (divided by their number, not by one less).
        l2: Euclidean norm of the finite elements.
        abs_max: Largest magnitude of a finite element.
        zeros: Elements that are +0 or −0.
        nan: Elements that are not a number.
        pos_inf: Elements that are +∞.
        neg_inf: Elements that are −∞.
        histogram: Present if bins were asked for and there are finite elements.
        reason: Why there are no figures; None if there are.
    """

    key: str
    dtype: str
    shape: tuple[int, ...]
    count: int
    min: float | None = None
    max: float | None = None
    mean: float | None = None
    std: float | None = None
    l2: float | None = None
    abs_max: float | None = None
    zeros: int = 0
    nan: int = 0
    pos_inf: int = 0
    neg_inf: int = 0
    histogram: Histogram | None = None
    reason: str | None = None

    @property
    def finite(self) -> int:
        """Elements that are finite; 0 where there are no figures."""
        return 0 if self.reason else self.count - self.nan - self.pos_inf - self.neg_inf


@dataclass(frozen=True, slots=True)
class RowDifferences:
    """The mean |Δ| of rows, at most `MAX_ROWS` of them: of every `step` rows the one that differs most.

    Attributes:
        rows: Row numbers, counted from 0.
        values: Mean |Δ| of each of these rows; an element that is not finite counts as no difference.
        step: Rows that one point stands for.
    """

    rows: tuple[int, ...]
    values: tuple[float, ...]
    step: int


@dataclass(frozen=True, slots=True)
class PairStats:
    """Two tensors of one shape, compared.

    Attributes:
        relation: `same storage`, `equal` or `different`.
        by_value: True if the element types differ, so that values were compared and not bits.
        differing: Elements that differ; for one type, in their bits (so +0 and −0 differ, and a NaN equals itself).
        count: Elements of each side.
        a: Figures of the first.
        b: Figures of the second.
        max_diff: Largest |Δ| where both sides are finite; None if they nowhere are.
        where: (row, column) of the first element with the largest |Δ|; all dims but the first count as columns.
        mean_diff: Mean |Δ| over the elements that are finite on both sides.
        cosine: Cosine of the angle between the two over the same elements; None if one of them is zero.
        edges: Common borders of the two histograms over the joint finite range.
        hist_a: Finite elements of the first in each bin.
        hist_b: Finite elements of the second in each bin.
        rows: Differences by row.
        reason: Why there are no figures beside the relation; None if there are.
    """

    relation: Relation
    by_value: bool
    differing: int
    count: int
    a: TensorStats
    b: TensorStats
    max_diff: float | None = None
    where: tuple[int, int] | None = None
    mean_diff: float | None = None
    cosine: float | None = None
    edges: tuple[float, ...] = ()
    hist_a: tuple[int, ...] = ()
    hist_b: tuple[int, ...] = ()
    rows: RowDifferences = RowDifferences((), (), 1)
    reason: str | None = None

    @property
    def text(self) -> str:
        """The relation in words."""
        if self.relation == "different":
            return f"different in {self.differing:,} of {self.count:,} elements"
        return self.relation


def tensor_stats(
    source: Source, ref: TensorRef, *, bins: int = 0, progress: Progress | None = None, cancelled: Asked | None = None
) -> TensorStats:
    """Return the figures of a stored tensor.

    Args:
        source: The opened checkpoint.
        ref: One of its tensors.
        bins: Bins of the histogram wanted; 0 for none.
        progress: Called with a label, bytes done and bytes in all.
        cancelled: Asked between blocks.

    Raises:
        Cancelled: `cancelled` said so.
        CheckpointError: The bytes can not be read.
    """
    if reason := _no_figures(ref.dtype):
        return TensorStats(ref.key, ref.dtype, ref.shape, ref.numel, reason=reason)
    tally = _tally(ref)
    passes = 2 if bins and not tally.knows_values else 1
    watch = _Watch(f"Reading {safe_text(ref.key, 60)}", passes * ref.nbytes, progress, cancelled)
    for _, raw in _blocks(source, ref, watch):
        tally.add(raw)
    edges = _edges(tally.range(), bins)
    counts = _histogram(source, ref, tally, edges, watch)
    return tally.stats(ref, _as_histogram(edges, counts))


def pair_stats(
    source: Source,
    a: TensorRef,
    b: TensorRef,
    *,
    other: Source | None = None,
    progress: Progress | None = None,
    cancelled: Asked | None = None,
) -> PairStats:
    """Compare two stored tensors of one shape.

    Args:
        source: The opened checkpoint.
        a: One of its tensors.
        b: The tensor to compare with.
        other: The checkpoint that holds `b`; None if `source` does.
        progress: Called with a label, bytes done and bytes in all.
        cancelled: Asked between blocks.

    Raises:
        Cancelled: `cancelled` said so.
        CheckpointError: The shapes differ, or the bytes can not be read.
    """
    if a.shape != b.shape:
        raise CheckpointError("shape-mismatch", _shapes_differ(a, b), key=b.key)
    same_place = (other is None or other is source) and a.place == b.place
    return _Comparison(source, a, other or source, b, same_place, progress, cancelled).run()


def first_values(source: Source, ref: TensorRef, number: int = 8) -> tuple[float, ...]:
    """Return the first values of a tensor in row-major order; none for types without figures.

    Raises:
        CheckpointError: The bytes can not be read.
    """
    if _no_figures(ref.dtype):
        return ()
    raw = np.empty(min(number, ref.numel) * BY_NAME[ref.dtype].itemsize, dtype=np.uint8)
    source.read_into(ref, 0, raw.data)
    return tuple(_exact(v, ref.dtype) if math.isfinite(v) else float(v) for v in _values(raw, ref.dtype).tolist())


def _shapes_differ(a: TensorRef, b: TensorRef) -> str:
    left, right = ("×".join(str(n) for n in ref.shape) or "a scalar" for ref in (a, b))
    both = f"`{safe_text(a.key)}` is {left} and `{safe_text(b.key)}` is {right}"
    return f"{both}: only tensors of one shape can be compared."


def _no_figures(dtype: str) -> str | None:
    """Say why there are no figures for an element type; None if there are."""
    kind = BY_NAME[dtype]
    if kind.kind == "complex":
        return f"{dtype} numbers have no order, so there is no minimum, maximum or histogram."
    if kind.bits < 8:
        return f"{dtype} elements are packed below a byte and need their scales to have a value."
    return None


# ------------------------------------------------------------------------------------------------- reading in blocks


class _Watch:
    """Reports bytes done, and stops the work when asked."""

    def __init__(self, label: str, total: int, progress: Progress | None, cancelled: Asked | None) -> None:
        self.label, self.total, self.done = label, total, 0
        self._progress, self._cancelled = progress, cancelled

    def step(self, nbytes: int) -> None:
        """Count bytes that are about to be worked on.

        Raises:
            Cancelled: The user asked for it.
        """
        if self._cancelled and self._cancelled():
            raise Cancelled
        self.done += nbytes
        if self._progress:
            self._progress(self.label, min(self.done, self.total), self.total)


def _blocks(source: Source, ref: TensorRef, watch: _Watch) -> Iterator[tuple[int, Array]]:
    """Yield the first element's number and the raw bytes of each block, in a buffer that is used again."""
    buffer = np.empty(min(BLOCK, ref.nbytes), dtype=np.uint8)
    for start in range(0, ref.nbytes, BLOCK):
        raw = buffer[: min(BLOCK, ref.nbytes - start)]
        watch.step(raw.nbytes)
        source.read_into(ref, start, raw.data)
        yield start // BY_NAME[ref.dtype].itemsize, raw


# ------------------------------------------------------------------------------------------- element types to values

# Exponent bits, mantissa bits, bias, and which patterns are not numbers. Sources: OCP 8-bit floating point, rev. 1.0;
# OCP microscaling formats, rev. 1.0 (e8m0); "fnuz": one NaN in place of −0, no infinities (arXiv 2206.02915).
_FP8 = {
    "fp8_e4m3": (4, 3, 7, "fn"),
    "fp8_e5m2": (5, 2, 15, "ieee"),
    "fp8_e4m3fnuz": (4, 3, 8, "fnuz"),
    "fp8_e5m2fnuz": (5, 2, 16, "fnuz"),
}


@lru_cache(maxsize=16)
def pattern_values(dtype: str) -> Floats:
    """Return the values of all bit patterns of an 8- or 16-bit type, the pattern being the index."""
    kind = BY_NAME[dtype]
    patterns = np.arange(1 << kind.bits, dtype=f"uint{kind.bits}")
    if dtype == "fp8_e8m0":
        sizes: Floats = np.where(patterns == 255, np.nan, np.exp2(patterns.astype(np.float64) - 127))
        return sizes
    if dtype in _FP8:
        return _fp8_values(*_FP8[dtype])
    if kind.kind == "bool":
        truth: Floats = (patterns != 0).astype(np.float64)
        return truth
    with np.errstate(invalid="ignore"):  # a signalling NaN becomes a quiet one
        return as_float(patterns.view(np.uint8), dtype).astype(np.float64)


def _fp8_values(exponent_bits: int, mantissa_bits: int, bias: int, rule: str) -> Floats:
    codes = np.arange(256)
    exponent = (codes & 0x7F) >> mantissa_bits
    mantissa = (codes & ((1 << mantissa_bits) - 1)) / (1 << mantissa_bits)
    size = np.where(exponent == 0, mantissa * 2.0 ** (1 - bias), (1 + mantissa) * np.exp2(exponent - float(bias)))
    values: Floats = np.where(codes & 0x80, -size, size)
    if rule == "fn":
        values[[0x7F, 0xFF]] = np.nan
    elif rule == "fnuz":
        values[0x80] = np.nan
    else:
        top = exponent == (1 << exponent_bits) - 1
        values[top] = np.where(mantissa[top] == 0, np.copysign(np.inf, values[top]), np.nan)
    return values


def _values(raw: Array, dtype: str) -> Floats:
    """Return the values of raw bytes in fp64."""
    kind = BY_NAME[dtype]
    if kind.bits <= 16:
        values: Floats = pattern_values(dtype)[raw.view(f"uint{kind.bits}")]
        return values
    with np.errstate(invalid="ignore"):  # a signalling NaN becomes a quiet one
        return raw.view(kind.numpy).astype(np.float64)


# ------------------------------------------------------------------------------------------------------------ tallies


class _Tally(Protocol):
    """Collects what the blocks of a tensor say; two tallies of one type can be added."""

    knows_values: bool

    def add(self, raw: Array) -> None:
        """Take in a block."""

    def merge(self, other: Any) -> None:
        """Take in what another tally of the same type has seen."""

    def number_finite(self) -> int:
        """Return how many finite elements were seen."""

    def range(self) -> tuple[float, float] | None:
        """Return the smallest and the largest finite value."""

    def squares(self) -> float:
        """Return the sum of the squares of the finite values."""

    def stats(self, ref: TensorRef, histogram: Histogram | None = None) -> TensorStats:
        """Return the figures."""


def _tally(ref: TensorRef) -> _Tally:
    narrow = BY_NAME[ref.dtype].bits <= 16 and ref.numel >= FEW
    return _Patterns(ref.dtype) if narrow else _Moments(ref.dtype)


class _Patterns:
    """Counts of bit patterns: everything can be told from them."""

    knows_values = True

    def __init__(self, dtype: str) -> None:
        self.dtype = dtype
        self.counts = np.zeros(1 << BY_NAME[dtype].bits, dtype=np.int64)

    def add(self, raw: Array) -> None:
        patterns = raw.view(f"uint{BY_NAME[self.dtype].bits}")
        for start in range(0, patterns.size, PIECE):
            self.counts += np.bincount(patterns[start : start + PIECE], minlength=self.counts.size)

    def merge(self, other: _Patterns) -> None:
        self.counts += other.counts

    def seen(self) -> tuple[Floats, NDArray[np.int64]]:
        """Return the finite values that occur, and how often."""
        values, counts = self._occurring()
        finite = np.isfinite(values)
        return values[finite], counts[finite]

    def number_finite(self) -> int:
        return int(self.seen()[1].sum())

    def range(self) -> tuple[float, float] | None:
        values, _ = self.seen()
        return (float(values.min()), float(values.max())) if values.size else None

    def squares(self) -> float:
        values, counts = self.seen()
        return float((values * values * counts).sum())

    def stats(self, ref: TensorRef, histogram: Histogram | None = None) -> TensorStats:
        values, counts = self.seen()
        number = int(counts.sum())
        every, every_count = self._occurring()
        special: dict[str, Any] = {name: int(every_count[mask].sum()) for name, mask in _special(every).items()}
        if not number:
            return TensorStats(ref.key, ref.dtype, ref.shape, ref.numel, **special)
        mean = float((values * counts).sum()) / number
        deviation = float(((values - mean) ** 2 * counts).sum()) / number
        low, high = _exact(values.min(), self.dtype), _exact(values.max(), self.dtype)
        return TensorStats(
            ref.key, ref.dtype, ref.shape, ref.numel, low, high, mean, math.sqrt(deviation), math.sqrt(self.squares()),
            max(abs(low), abs(high)), histogram=histogram, **special,
        )  # fmt: skip

    def _occurring(self) -> tuple[Floats, NDArray[np.int64]]:
        index = np.flatnonzero(self.counts)
        return pattern_values(self.dtype)[index], self.counts[index]


class _Moments:
    """Sums in fp64; the deviations of blocks are merged after Chan, Golub and LeVeque (1979)."""

    knows_values = False

    def __init__(self, dtype: str) -> None:
        self.dtype = dtype
        self.number = self.zeros = self.nan = self.pos_inf = self.neg_inf = 0
        self.mean = self.deviation = self.square_sum = 0.0
        self.low: float | None = None
        self.high: float | None = None

    def add(self, raw: Array) -> None:
        block = _Moments(self.dtype)
        block._take(raw)
        self.merge(block)

    def _take(self, raw: Array) -> None:
        values = _values(raw, self.dtype)
        with np.errstate(over="ignore", invalid="ignore"):
            if not math.isfinite(values.sum()):
                values = self._without_special(values)
            if not values.size:
                return
            self.number, self.zeros = values.size, int(np.count_nonzero(values == 0))
            self.mean = float(values.mean())
            centred = values - self.mean
            self.deviation = float(np.einsum("i,i->", centred, centred))
            self.square_sum = float(np.einsum("i,i->", values, values))
        wide = BY_NAME[self.dtype].kind == "int" and BY_NAME[self.dtype].bits == 64
        exact = raw.view(BY_NAME[self.dtype].numpy) if wide else values
        self.low, self.high = _exact(exact.min(), self.dtype), _exact(exact.max(), self.dtype)

    def _without_special(self, values: Floats) -> Floats:
        masks = _special(values)
        self.nan, self.pos_inf, self.neg_inf = (
            int(np.count_nonzero(masks[name])) for name in ("nan", "pos_inf", "neg_inf")
        )
        return values[np.isfinite(values)]

    def merge(self, other: _Moments) -> None:
        self.zeros += other.zeros
        self.nan, self.pos_inf = self.nan + other.nan, self.pos_inf + other.pos_inf
        self.neg_inf += other.neg_inf
        if other.low is None or other.high is None:
            return
        total, delta = self.number + other.number, other.mean - self.mean
        self.mean += delta * (other.number / total)
        self.deviation += other.deviation
        if self.number:
            self.deviation += delta * delta * (self.number * (other.number / total))
        self.number, self.square_sum = total, self.square_sum + other.square_sum
        self.low = other.low if self.low is None else min(self.low, other.low)
        self.high = other.high if self.high is None else max(self.high, other.high)

    def number_finite(self) -> int:
        return self.number

    def range(self) -> tuple[float, float] | None:
        return None if self.low is None or self.high is None else (float(self.low), float(self.high))

    def squares(self) -> float:
        return self.square_sum

    def stats(self, ref: TensorRef, histogram: Histogram | None = None) -> TensorStats:
        special: dict[str, Any] = {name: getattr(self, name) for name in ("zeros", "nan", "pos_inf", "neg_inf")}
        if self.low is None or self.high is None:
            return TensorStats(ref.key, ref.dtype, ref.shape, ref.numel, **special)
        return TensorStats(
            ref.key, ref.dtype, ref.shape, ref.numel, self.low, self.high, self.mean,
            math.sqrt(self.deviation / self.number), math.sqrt(self.square_sum), max(abs(self.low), abs(self.high)),
            histogram=histogram, **special,
        )  # fmt: skip


def _exact(value: Any, dtype: str) -> float:
    """Return a value as a Python number: a whole one for integers and bools."""
    return float(value) if BY_NAME[dtype].kind == "float" else int(value)


def _special(values: Floats) -> dict[str, NDArray[np.bool_]]:
    return {
        "zeros": values == 0,
        "nan": np.isnan(values),
        "pos_inf": values == np.inf,
        "neg_inf": values == -np.inf,
    }


# --------------------------------------------------------------------------------------------------------- histograms


def _edges(extent: tuple[float, float] | None, bins: int) -> Floats | None:
    """Return the borders of equal bins over a range; None if there is nothing to count, or no bin can be that wide."""
    if extent is None or not bins:
        return None
    low, high = extent
    if low == high:
        low, high = low - 0.5, high + 0.5
    return np.linspace(low, high, bins + 1) if math.isfinite(high - low) else None


def _bin_numbers(values: Floats, edges: Floats) -> NDArray[np.int64]:
    """Return the bin of each value, by its borders exactly: an estimate, put right where it is off by one."""
    bins = edges.size - 1
    scale = bins / (edges[-1] - edges[0]) if edges[-1] > edges[0] else math.inf
    if not math.isfinite(scale) or edges[1] <= edges[0]:
        found: NDArray[np.int64] = np.clip(np.searchsorted(edges, values, side="right") - 1, 0, bins - 1)
        return found
    number: NDArray[np.int64] = np.clip(((values - edges[0]) * scale).astype(np.int64), 0, bins - 1)
    number -= (values < edges[number]) & (number > 0)
    number += (values >= edges[number + 1]) & (number < bins - 1)
    return number


def _histogram(source: Source, ref: TensorRef, tally: _Tally, edges: Floats | None, watch: _Watch) -> NDArray[np.int64]:
    """Count a tensor's finite elements by bin: from its patterns if they are known, else in a pass of its own."""
    if edges is None:
        return np.zeros(0, dtype=np.int64)
    counts = np.zeros(edges.size - 1, dtype=np.int64)
    if isinstance(tally, _Patterns):
        values, numbers = tally.seen()
        np.add.at(counts, _bin_numbers(values, edges), numbers)
        return counts
    for _, raw in _blocks(source, ref, watch):
        values = _values(raw, ref.dtype)
        finite = np.isfinite(values)
        counts += np.bincount(_bin_numbers(values if finite.all() else values[finite], edges), minlength=counts.size)
    return counts


def _as_histogram(edges: Floats | None, counts: NDArray[np.int64]) -> Histogram | None:
    return None if edges is None else Histogram(tuple(edges.tolist()), tuple(counts.tolist()))


# -------------------------------------------------------------------------------------------------------------- pairs


class _RowMeans:
    """Mean |Δ| by row from blocks that end anywhere; keeps the row that differs most of every `step` rows."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.num_rows = shape[0] if shape else 1
        self.num_columns = max(math.prod(shape[1:]), 1)
        self.step = max(-(-self.num_rows // MAX_ROWS), 1)
        points = -(-self.num_rows // self.step)
        self.rows = np.arange(points, dtype=np.int64) * self.step
        self.values = np.zeros(points)
        self._open_row, self._open_sum = 0, 0.0

    def add(self, start: int, diff: Floats | None, count: int) -> None:
        """Take in the |Δ| of `count` elements from element `start` on; None means all zero."""
        if not count:
            return
        first, last = start // self.num_columns, (start + count - 1) // self.num_columns
        if diff is None:
            self._close_until(last)
            return
        bounds = np.arange(first, last + 1, dtype=np.int64) * self.num_columns - start
        sums = np.add.reduceat(diff, np.maximum(bounds, 0))
        if first == self._open_row:
            sums[0] += self._open_sum
        self._open_row, self._open_sum = last, float(sums[-1])
        self._offer(first, sums / self.num_columns)  # the last row may be unfinished: its sum only grows

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
        return RowDifferences(tuple(self.rows.tolist()), tuple(self.values.tolist()), self.step)


class _Comparison:
    """One comparison under way. Blocks whose bytes agree are counted once, for both sides."""

    def __init__(
        self, source: Source, a: TensorRef, other: Source, b: TensorRef, same_place: bool,
        progress: Progress | None, cancelled: Asked | None,
    ) -> None:  # fmt: skip
        self.source, self.a, self.other, self.b, self.same_place = source, a, other, b, same_place
        self.by_value = a.dtype != b.dtype
        self.reason = _no_figures(a.dtype) or _no_figures(b.dtype)
        self.rows = _RowMeans(a.shape)
        self.differing = self.finite = 0
        self.diff_sum = self.dot = self.squares_a = self.squares_b = 0.0
        self.max_diff, self.max_at = -1.0, -1
        label = f"Comparing {safe_text(a.key, 40)} with {safe_text(b.key, 40)}"
        self.watch = _Watch(label, self._bytes_to_read(), progress, cancelled)

    def _bytes_to_read(self) -> int:
        """Return what one pass takes, and a second one for the histograms of types that need it."""
        once = self.a.nbytes if self.same_place else self.a.nbytes + self.b.nbytes
        second = 0 if self.reason else sum(r.nbytes for r in (self.a, self.b) if not _tally(r).knows_values)
        return once + second

    def run(self) -> PairStats:
        if self.reason:
            return self._bits_only()
        self.shared, self.only_a, self.only_b = _tally(self.a), _tally(self.a), _tally(self.b)
        self._read()
        return self._result()

    def _bits_only(self) -> PairStats:
        """Compare types that have no figures: by their bits, or not at all if the types differ."""
        if self.by_value:
            text = f"{self.a.dtype} and {self.b.dtype} can not be compared by value."
            raise CheckpointError("dtype-mixed", text, key=self.b.key)
        width = max(BY_NAME[self.a.dtype].itemsize, 1)
        if not self.same_place:
            for _, left, right in self._pairs():
                self.differing += _bits_differ(left, right, width)
        a, b = (TensorStats(r.key, r.dtype, r.shape, r.numel, reason=self.reason) for r in (self.a, self.b))
        return PairStats(self._relation(), False, self.differing, self.a.nbytes // width, a, b, reason=self.reason)

    def _pairs(self) -> Iterator[tuple[int, Array, Array]]:
        """Yield the first element's number and the raw bytes of both sides, element by element beside each other."""
        sizes = [max(BY_NAME[r.dtype].itemsize, 1) for r in (self.a, self.b)]
        step = BLOCK // max(sizes)
        number = self.a.nbytes // sizes[0]
        buffers = [np.empty(step * size, dtype=np.uint8) for size in sizes]
        for start in range(0, number, step):
            count = min(step, number - start)
            views = [buffer[: count * size] for buffer, size in zip(buffers, sizes, strict=True)]
            self.watch.step(sum(view.nbytes for view in views))
            self.source.read_into(self.a, start * sizes[0], views[0].data)
            self.other.read_into(self.b, start * sizes[1], views[1].data)
            yield start, views[0], views[1]

    def _read(self) -> None:
        if self.same_place:
            for start, raw in _blocks(self.source, self.a, self.watch):
                self._agreeing(start, raw)
            return
        for start, left, right in self._pairs():
            if not self.by_value and np.array_equal(left, right):
                self._agreeing(start, left)
            else:
                self.only_a.add(left)
                self.only_b.add(right)
                self._differences(start, left, right)

    def _agreeing(self, start: int, raw: Array) -> None:
        self.shared.add(raw)
        self.rows.add(start, None, raw.nbytes // BY_NAME[self.a.dtype].itemsize)

    def _differences(self, start: int, left: Array, right: Array) -> None:
        a, b = _values(left, self.a.dtype), _values(right, self.b.dtype)
        if self.by_value:
            self.differing += int(np.count_nonzero((a != b) & ~(np.isnan(a) & np.isnan(b))))
        else:
            self.differing += _bits_differ(left, right, BY_NAME[self.a.dtype].itemsize)
        with np.errstate(over="ignore", invalid="ignore"):
            diff = np.abs(a - b)
            finite = a.size
            if not math.isfinite(diff.sum()):
                known = np.isfinite(diff)
                finite = int(np.count_nonzero(known))
                a, b, diff = (np.where(known, x, 0.0) for x in (a, b, diff))
                self._note_max(start, np.where(known, diff, -1.0))
            else:
                self._note_max(start, diff)
            self.finite += finite
            self.diff_sum += float(diff.sum())
            self.dot += float(np.einsum("i,i->", a, b))
            self.squares_a += float(np.einsum("i,i->", a, a))
            self.squares_b += float(np.einsum("i,i->", b, b))
        self.rows.add(start, diff, diff.size)

    def _note_max(self, start: int, diff: Floats) -> None:
        at = int(diff.argmax())
        if diff[at] > self.max_diff:
            self.max_diff, self.max_at = float(diff[at]), start + at

    def _relation(self) -> Relation:
        return "same storage" if self.same_place else "different" if self.differing else "equal"

    def _result(self) -> PairStats:
        common, squares = self.shared.number_finite(), self.shared.squares()
        known = self.finite + common
        if common:
            self.max_diff = max(self.max_diff, 0.0)
        if not self.by_value:
            self.only_a.merge(self.shared)
            self.only_b.merge(self.shared)
        edges = _edges(_joint(self.only_a.range(), self.only_b.range()), BINS)
        hist_a, hist_b = self._histograms(edges)
        return PairStats(
            self._relation(), self.by_value, self.differing, self.a.numel,
            self.only_a.stats(self.a), self.only_b.stats(self.b),
            max_diff=self.max_diff if known else None, where=self._where(),
            mean_diff=self.diff_sum / known if known else None,
            cosine=_cosine(self.dot + squares, self.squares_a + squares, self.squares_b + squares),
            edges=() if edges is None else tuple(edges.tolist()), hist_a=hist_a, hist_b=hist_b, rows=self.rows.result(),
        )  # fmt: skip

    def _histograms(self, edges: Floats | None) -> tuple[tuple[int, ...], tuple[int, ...]]:
        a = _histogram(self.source, self.a, self.only_a, edges, self.watch)
        if not self.by_value and not self.differing:
            return tuple(a.tolist()), tuple(a.tolist())
        b = _histogram(self.other, self.b, self.only_b, edges, self.watch)
        return tuple(a.tolist()), tuple(b.tolist())

    def _where(self) -> tuple[int, int] | None:
        """Return row and column of the largest |Δ|; None if there is none above 0."""
        return divmod(self.max_at, self.rows.num_columns) if self.max_diff > 0 else None


def _bits_differ(left: Array, right: Array, width: int) -> int:
    """Count the elements of `width` bytes whose bits differ."""
    if width <= 8:
        return int(np.count_nonzero(left.view(f"uint{8 * width}") != right.view(f"uint{8 * width}")))
    return int(np.count_nonzero((left != right).reshape(-1, width).any(axis=1)))


def _joint(a: tuple[float, float] | None, b: tuple[float, float] | None) -> tuple[float, float] | None:
    if a is None or b is None:
        return a or b
    return min(a[0], b[0]), max(a[1], b[1])


def _cosine(dot: float, squares_a: float, squares_b: float) -> float | None:
    size = math.sqrt(squares_a) * math.sqrt(squares_b)
    return max(-1.0, min(1.0, dot / size)) if 0 < size < math.inf else None
