"""From stored bytes to numbers: the values of every bit pattern of the narrow types, and of blocks of the wide ones."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ckpt_gui.core.casts import as_float, cast
from ckpt_gui.core.dtypes import BY_NAME, CASTABLE

Array = NDArray[Any]
Floats = NDArray[np.float64]
Counts = NDArray[np.int64]

# Exponent bits, mantissa bits, bias, and which patterns are not numbers. Sources: OCP 8-bit floating point, rev. 1.0;
# OCP microscaling formats, rev. 1.0 (e8m0); "fnuz": one NaN in place of −0, no infinities (arXiv 2206.02915).
_FP8 = {
    "fp8_e4m3": (4, 3, 7, "fn"),
    "fp8_e5m2": (5, 2, 15, "ieee"),
    "fp8_e4m3fnuz": (4, 3, 8, "fnuz"),
    "fp8_e5m2fnuz": (5, 2, 16, "fnuz"),
}
# OCP microscaling formats, rev. 1.0: sign, two bits of exponent, one of mantissa.
_FP4 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
# The smallest normal number; below it numbers lose digits. e8m0 has powers of two only, all of them normal.
SMALLEST_NORMAL = {
    "bf16": 2.0**-126, "fp16": 2.0**-14, "fp32": 2.0**-126, "fp64": 2.0**-1022, "fp8_e4m3": 2.0**-6,
    "fp8_e5m2": 2.0**-14, "fp8_e4m3fnuz": 2.0**-7, "fp8_e5m2fnuz": 2.0**-15, "fp4": 1.0,
}  # fmt: skip


def no_figures(dtype: str) -> str | None:
    """Say why there are no figures for an element type; None if there are."""
    kind = BY_NAME[dtype]
    if kind.kind == "complex":
        return f"{dtype} numbers have no order, so there is no minimum, maximum or histogram."
    if kind.bits < 8 and dtype != "fp4":
        return f"How {dtype} elements are packed into bytes is not laid down, so their values can not be told."
    return None


@lru_cache(maxsize=16)
def pattern_values(dtype: str) -> Floats:
    """Return the values of all bit patterns of a type of 4, 8 or 16 bits, the pattern being the index."""
    kind = BY_NAME[dtype]
    if dtype == "fp4":
        return np.array([*_FP4, *(-value for value in _FP4)])
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


def nibbles(raw: Array) -> Array:
    """Return the 4-bit codes of packed bytes, the lower half of each byte first (as in OCP's and torch's fp4 pairs)."""
    codes = np.empty(2 * raw.size, dtype=np.uint8)
    codes[0::2], codes[1::2] = raw & 15, raw >> 4
    return codes


def decode(raw: Array, dtype: str) -> Floats:
    """Return the values of raw bytes in fp64; for fp4 two a byte, a last half byte that pads included."""
    kind = BY_NAME[dtype]
    if kind.bits <= 16:
        patterns = nibbles(raw) if dtype == "fp4" else raw.view(f"uint{kind.bits}")
        values: Floats = pattern_values(dtype)[patterns]
        return values
    with np.errstate(invalid="ignore"):  # a signalling NaN becomes a quiet one
        return raw.view(kind.numpy).astype(np.float64)


def quick(raw: Array, dtype: str) -> Array:
    """Return the values of raw bytes in fp32 where that holds them, else in fp64: a third of the time of `decode`."""
    if dtype == "fp16":
        return cast(raw, dtype, "fp32")[0].view(np.float32)
    return as_float(raw, dtype) if dtype in CASTABLE else decode(raw, dtype)


def exact(value: Any, dtype: str) -> float:
    """Return a value as a Python number: a whole one for integers and bools."""
    return float(value) if BY_NAME[dtype].kind == "float" else int(value)


def special(values: Floats) -> dict[str, NDArray[np.bool_]]:
    """Return masks of the elements that are counted apart."""
    return {
        "zeros": values == 0,
        "neg_zeros": (values == 0) & np.signbit(values),
        "nan": np.isnan(values),
        "pos_inf": values == np.inf,
        "neg_inf": values == -np.inf,
    }
