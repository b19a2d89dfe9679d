"""Exact casts between element types, block by block, without torch.

Sixteen-bit types have 65,536 bit patterns, so a cast from one is a look-up in a table made once. fp32 becomes a
sixteen-bit type by rounding to nearest even, as in torch; both are done by `kernels()`. The remaining casts are numpy's
own, which round the same way. fp64 becomes a sixteen-bit type by way of fp32, as in torch. NaN stays NaN; a finite
value that becomes infinite is counted, so that the user can be told (`cast-overflow`).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ckpt_gui.core.dtypes import BY_NAME
from ckpt_gui.core.native import kernels

Array = NDArray[Any]
_MAGNITUDE = 0x7FFF  # of 16 bits: all but the sign


def as_float(raw: Array, dtype: str) -> Array:
    """Return the values of raw bytes as fp32 (fp64 for fp64 and wide integers).

    Args:
        raw: One-dimensional uint8 array.
        dtype: Element type of the bytes: a float of 16 to 64 bits, an integer or a bool.
    """
    if dtype == "bf16":
        bits = raw.view(np.uint16).astype(np.uint32)
        bits <<= 16  # in place: a second array made and dropped for each block is memory that is mapped anew
        return bits.view(np.float32)
    values = raw.view(BY_NAME[dtype].numpy)
    return (
        values if dtype in ("fp32", "fp64") else values.astype(np.float32 if BY_NAME[dtype].bits <= 16 else np.float64)
    )


def cast(raw: Array, source: str, target: str, out: Array | None = None) -> tuple[Array, int]:
    """Cast raw bytes to another float type.

    Args:
        raw: One-dimensional uint8 array of whole elements.
        source: Element type of `raw`.
        target: Element type wanted.
        out: Where the new bytes go, uint8; `raw` itself if both types have 16 bits. None for a new array.

    Returns:
        The new bytes as a uint8 array, and how many finite values became infinite.
    """
    if source == target:
        if out is None:
            return raw, 0
        out[:] = raw
        return out, 0
    if out is None:
        out = np.empty(raw.size // BY_NAME[source].itemsize * BY_NAME[target].itemsize, dtype=np.uint8)
    if BY_NAME[source].bits != 16:
        return out, _cast_values(raw, source, target, out)
    table, least, most = _table(source, target)
    patterns, results = raw.view(np.uint16), out.view(table.dtype)
    if table.itemsize > 4:
        results[:] = table[patterns]
        return out, 0
    return out, kernels().look_up(patterns, table, results, least, most)


@lru_cache(maxsize=16)
def _table(source: str, target: str) -> tuple[Array, int, int]:
    """Return the results for all 65,536 patterns, and which overflow, without their sign: from the first to the last.

    The patterns of finite numbers grow with their size, so that those that are too large lie side by side.
    """
    patterns = np.arange(65536, dtype=np.uint16).view(np.uint8)
    table = np.empty(65536, dtype=_carrier(target))
    if not _cast_values(patterns, source, target, table.view(np.uint8)):
        return table, 0, 0
    lost = np.isinf(as_float(table.view(np.uint8), target)) & np.isfinite(as_float(patterns, source))
    sizes = np.flatnonzero(lost) & _MAGNITUDE
    return table, int(sizes.min()), int(sizes.max()) + 1


def _cast_values(raw: Array, source: str, target: str, out: Array) -> int:
    """Fill `out` with the values of `raw` in another type; return how many finite ones became infinite."""
    values, carried = as_float(raw, source), out.view(_carrier(target))
    with np.errstate(over="ignore", invalid="ignore"):
        if BY_NAME[target].bits == 16:
            near = values.astype(np.float32, copy=False)
            lost = kernels().to_bf16(near, carried) if target == "bf16" else kernels().to_fp16(near, carried)
            if near is not values:  # what is too large for fp32 was counted by none
                lost += int(np.count_nonzero(np.isinf(near) & np.isfinite(values)))
            return lost
        result = carried.view(BY_NAME[target].numpy)
        result[:] = values
        if BY_NAME[target].bits >= BY_NAME[source].bits:
            return 0
        return int(np.count_nonzero(np.isinf(result) & np.isfinite(values)))


def _carrier(dtype: str) -> str:
    """Return the unsigned integer type that carries a type's bits."""
    return {16: "uint16", 32: "uint32", 64: "uint64"}[BY_NAME[dtype].bits]
