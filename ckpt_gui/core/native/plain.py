"""The kernels in numpy: what is used where nothing could be compiled, and what the compiled ones are held to."""

from __future__ import annotations

import math
import sys

import numpy as np

from ckpt_gui.core.native.interface import Array, Columns, Sums

PIECE = 1 << 18  # elements that are counted at once: the best size for numpy's bincount
_MAGNITUDE = 0x7FFF  # of 16 bits: all but the sign
SMALLEST_NORMAL = 2.0**-126  # of fp32 and bf16
_LARGEST = {"bf16": 3.3895313892515355e38, "fp16": 65504.0}  # the largest finite values
_HIGH = 1 if sys.byteorder == "little" else 0  # which half of 32 bits is the upper one


class Plain:
    """See `Kernels`."""

    is_compiled = False

    def count(self, counts: Array, patterns: Array) -> None:
        """See `Kernels`."""
        for start in range(0, patterns.size, PIECE):
            counts += np.bincount(patterns[start : start + PIECE], minlength=counts.size)

    def count_bins(self, counts: Array, values: Array, edges: Array) -> None:
        """See `Kernels`."""
        finite = np.isfinite(values)
        known = (values if finite.all() else values[finite]).astype(np.float64)
        counts += np.bincount(bin_numbers(known, edges), minlength=counts.size)

    def look_up(self, patterns: Array, table: Array, out: Array, least: int = 0, most: int = 0) -> int:
        """See `Kernels`."""
        found = 0
        if least < most:
            sizes = patterns & _MAGNITUDE
            if sizes.max(initial=0) >= least:  # most blocks have none
                found = int(np.count_nonzero((sizes >= least) & (sizes < most)))
        out[:] = table[patterns]
        return found

    def to_bf16(self, values: Array, out: Array) -> int:
        """See `Kernels`."""
        if _all_within(values, _LARGEST["bf16"]):
            out[:] = _rounded(values)
            return 0
        nan = np.isnan(values)
        quiet = ((values.view(np.uint32) >> 16) | 0x40).astype(np.uint16)
        out[:] = np.where(nan, quiet, _rounded(values))
        return int(np.count_nonzero(((out & _MAGNITUDE) == 0x7F80) & np.isfinite(values)))

    def to_fp16(self, values: Array, out: Array) -> int:
        """See `Kernels`."""
        halves = out.view(np.float16)
        if _all_within(values, _LARGEST["fp16"]):
            halves[:] = values
            return 0
        with np.errstate(over="ignore", invalid="ignore"):
            halves[:] = values
        bits = values.view(np.uint32)
        quiet = 0x7E00 | ((bits >> 13) & 0x3FF) | ((bits >> 16) & 0x8000)  # processors differ in what they keep
        np.copyto(out, quiet.astype(np.uint16), where=np.isnan(values))
        return int(np.count_nonzero(np.isinf(halves) & np.isfinite(values)))

    def sums(self, values: Array) -> Sums | None:
        """See `Kernels`."""
        wide = values.astype(np.float64)
        with np.errstate(invalid="ignore"):
            finite = math.isfinite(wide.sum())
        if not wide.size or not finite:
            return None
        return sums_of(wide, SMALLEST_NORMAL)

    def columns(self, values: Array) -> Columns:
        """See `Kernels`."""
        return columns_of(values)


def bin_numbers(values: Array, edges: Array) -> Array:
    """Return the bin of each value, by its borders exactly: an estimate, put right where it is off by one."""
    bins = edges.size - 1
    scale = scale_of(edges)
    if scale is None:
        found: Array = np.clip(np.searchsorted(edges, values, side="right") - 1, 0, bins - 1)
        return found
    number: Array = np.clip(((values - edges[0]) * scale), 0, bins - 1).astype(np.int64)
    number -= (values < edges[number]) & (number > 0)
    number += (values >= edges[number + 1]) & (number < bins - 1)
    return number


def scale_of(edges: Array) -> float | None:
    """Return bins by unit of the values, from which a bin can be estimated; None where borders are too close for it."""
    width = edges[-1] - edges[0]
    scale = (edges.size - 1) / width if width > 0 else math.inf
    return float(scale) if math.isfinite(scale) and edges[1] > edges[0] else None


def columns_of(values: Array) -> Columns:
    """Return what is told of each column of a matrix of float32 or float64."""
    finite = np.isfinite(values)
    if finite.all():
        bad = np.zeros(values.shape[1], dtype=np.int32)
        return Columns(values.sum(axis=0, dtype=np.float64), np.abs(values).max(axis=0, initial=-1.0), bad)
    known, sizes = np.where(finite, values, 0), np.where(finite, np.abs(values), -1)
    bad = np.count_nonzero(~finite, axis=0).astype(np.int32)
    return Columns(known.sum(axis=0, dtype=np.float64), sizes.max(axis=0, initial=-1.0), bad)


def sums_of(values: Array, smallest_normal: float) -> Sums:
    """Return the sums of finite elements.

    Args:
        values: float64, not empty.
        smallest_normal: Of the type they come from; 0 for integers.
    """
    zeros = values.size - int(np.count_nonzero(values))
    negative = int(np.count_nonzero(np.signbit(values[values == 0]))) if zeros else 0
    with np.errstate(over="ignore", invalid="ignore"):
        mean = float(values.mean())
        centred = values - mean
        deviation, squares = (float(np.einsum("i,i->", some, some)) for some in (centred, values))
    small = int(np.count_nonzero(np.abs(values) < smallest_normal)) - zeros if smallest_normal else 0
    return Sums(mean, deviation, squares, float(values.min()), float(values.max()), zeros, negative, small)


def _all_within(values: Array, largest: float) -> bool:
    """Return True for most blocks: neither NaN, nor infinite, nor too large."""
    return not values.size or bool(-largest <= values.min() and values.max() <= largest)


def _rounded(values: Array) -> Array:
    """Round fp32 that is no NaN to the nearest bf16, ties to even."""
    bits = values.view(np.uint32)
    rounded = bits >> 16
    rounded &= 1
    rounded += 0x7FFF
    rounded += bits
    return rounded.view(np.uint16)[_HIGH::2]
