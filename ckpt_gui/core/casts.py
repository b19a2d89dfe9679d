"""Exact casts between element types, block by block, without torch.

Sixteen-bit types have 65,536 bit patterns, so a cast from one is a look-up in a table made once. fp32 → bf16 rounds to
nearest even on the integer bits, as torch does; the remaining casts are numpy's own, which round the same way. fp64
becomes a sixteen-bit type by way of fp32, as in torch. NaN stays NaN; a finite value that becomes infinite is counted,
so that the user can be told (`cast-overflow`).
"""

from __future__ import annotations

import sys
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ckpt_gui.core.dtypes import BY_NAME

Array = NDArray[Any]
_LARGEST = {"bf16": 3.3895313892515355e38, "fp16": 65504.0}  # the largest finite values
_MAGNITUDE = 0x7FFF  # of 16 bits: all but the sign
_HIGH = 1 if sys.byteorder == "little" else 0  # which half of 32 bits is the upper one


def as_float(raw: Array, dtype: str) -> Array:
    """Return the values of raw bytes as fp32 (fp64 for fp64 and wide integers).

    Args:
        raw: One-dimensional uint8 array.
        dtype: Element type of the bytes: a float of 16 to 64 bits, an integer or a bool.
    """
    if dtype == "bf16":
        return (raw.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    values = raw.view(BY_NAME[dtype].numpy)
    return (
        values if dtype in ("fp32", "fp64") else values.astype(np.float32 if BY_NAME[dtype].bits <= 16 else np.float64)
    )


def cast(raw: Array, source: str, target: str) -> tuple[Array, int]:
    """Cast raw bytes to another float type.

    Args:
        raw: One-dimensional uint8 array of whole elements.
        source: Element type of `raw`.
        target: Element type wanted.

    Returns:
        The new bytes as a uint8 array, and how many finite values became infinite.
    """
    if source == target:
        return raw, 0
    if BY_NAME[source].bits == 16:
        values, overflow, least = _table(source, target)
        patterns = raw.view(np.uint16)
        count = 0
        if overflow is not None and (patterns & _MAGNITUDE).max(initial=0) >= least:  # a second look-up costs as much
            count = int(np.count_nonzero(overflow[patterns]))
        return values[patterns].view(np.uint8), count
    return _cast_values(raw, source, target)


@lru_cache(maxsize=16)
def _table(source: str, target: str) -> tuple[Array, Array | None, int]:
    """Return the results for all 65,536 patterns, a mask of those that overflow (None if none can), and the least.

    The least is that of their patterns without sign: a block that has none from there on has no overflow.
    """
    patterns = np.arange(65536, dtype=np.uint16).view(np.uint8)
    result, count = _cast_values(patterns, source, target)
    table = result.view(_carrier(target))
    if not count:
        return table, None, 0
    mask = np.isinf(as_float(result, target)) & np.isfinite(as_float(patterns, source))
    return table, mask, int((np.flatnonzero(mask) & _MAGNITUDE).min())


def _cast_values(raw: Array, source: str, target: str) -> tuple[Array, int]:
    values = as_float(raw, source)
    if target in _LARGEST and values.size and -_LARGEST[target] <= values.min() and values.max() <= _LARGEST[target]:
        near = values.astype(np.float32, copy=False)  # most blocks: neither NaN, nor infinite, nor too large
        small = _round_bf16(near) if target == "bf16" else near.astype(np.float16)
        return small.view(np.uint8), 0
    with np.errstate(over="ignore", invalid="ignore"):
        near = values.astype(np.float32) if BY_NAME[target].bits == 16 else values
        result = _to_bf16(near) if target == "bf16" else near.astype(BY_NAME[target].numpy)
    out = np.ascontiguousarray(result).view(np.uint8)
    if BY_NAME[target].bits >= BY_NAME[source].bits and target != "fp16":
        return out, 0
    return out, int(np.count_nonzero(np.isinf(as_float(out, target)) & np.isfinite(values)))


def _to_bf16(values: Array) -> Array:
    """Round fp32 to the nearest bf16, ties to even, NaN kept (made quiet)."""
    quiet = ((values.view(np.uint32) >> 16) | 0x40).astype(np.uint16)
    return np.where(np.isnan(values), quiet, _round_bf16(values))


def _round_bf16(values: Array) -> Array:
    """Round fp32 that is no NaN to the nearest bf16, ties to even."""
    bits = values.view(np.uint32)
    rounded = bits >> 16
    rounded &= 1
    rounded += 0x7FFF
    rounded += bits
    return rounded.view(np.uint16)[_HIGH::2].copy()


def _carrier(dtype: str) -> str:
    """Return the unsigned integer type that carries a type's bits."""
    return {16: "uint16", 32: "uint32", 64: "uint64"}[BY_NAME[dtype].bits]
