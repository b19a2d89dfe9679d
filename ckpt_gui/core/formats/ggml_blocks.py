"""What the blocks of quantised GGUF tensors stand for, as fp32.

A row is cut into blocks; each has a scale (for some types also a minimum) and small whole numbers. The arithmetic is in
fp32 and in llama.cpp's order, so that every value is the one that its own `dequantize` gives. Types that need tables of
code vectors (IQ…) are not decoded. Source: ggml `ggml-common.h`, `ggml-quants.c`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def decode(raw: Array, kind: str, nbytes: int) -> Array:
    """Return the numbers of some blocks.

    Args:
        raw: One-dimensional uint8 array of whole blocks.
        kind: Name of the block type, one of `DECODERS`.
        nbytes: Bytes of one block.

    Returns:
        A one-dimensional fp32 array.
    """
    with np.errstate(all="ignore"):  # a damaged scale is an infinity or no number, and stays one
        return DECODERS[kind](raw.reshape(-1, nbytes)).reshape(-1)


def _half(blocks: Array, at: int) -> Array:
    """Return the fp16 number at a byte of each block, as fp32 (one column)."""
    return np.ascontiguousarray(blocks[:, at : at + 2]).view("<f2").astype(np.float32)


def _bits(data: Array, count: int, width: int) -> Array:
    """Return the bit fields of rows of `width` bytes: all lowest fields of a row, then all second lowest, …."""
    shifts = np.arange(0, 8, 8 // count, dtype=np.uint8).reshape(1, 1, count, 1)
    fields = data.reshape(len(data), -1, 1, width) >> shifts & np.uint8((1 << 8 // count) - 1)
    return fields.reshape(len(data), -1)


def _fifth(blocks: Array, at: int) -> Array:
    """Return the fifth bits of 32 numbers, shifted to their place."""
    word = np.ascontiguousarray(blocks[:, at : at + 4]).view("<u4")
    return ((word >> np.arange(32, dtype=np.uint32)) & 1).astype(np.uint8) << 4


def _q4_0(blocks: Array) -> Array:
    return _half(blocks, 0) * (_bits(blocks[:, 2:], 2, 16).astype(np.float32) - 8)


def _q4_1(blocks: Array) -> Array:
    return _half(blocks, 0) * _bits(blocks[:, 4:], 2, 16).astype(np.float32) + _half(blocks, 2)


def _q5_0(blocks: Array) -> Array:
    numbers = _bits(blocks[:, 6:], 2, 16) | _fifth(blocks, 2)
    return _half(blocks, 0) * (numbers.astype(np.float32) - 16)


def _q5_1(blocks: Array) -> Array:
    numbers = _bits(blocks[:, 8:], 2, 16) | _fifth(blocks, 4)
    return _half(blocks, 0) * numbers.astype(np.float32) + _half(blocks, 2)


def _q8_0(blocks: Array) -> Array:
    return np.ascontiguousarray(blocks[:, 2:]).view(np.int8).astype(np.float32) * _half(blocks, 0)


def _spread(scales: Array, numbers: Array) -> tuple[Array, Array]:
    """Return scales and numbers as (blocks, groups, numbers a group)."""
    groups = scales.shape[1]
    return scales[:, :, None], numbers.reshape(len(numbers), groups, -1)


def _less(numbers: Array, minima: Array) -> Array:
    return np.subtract(numbers, minima[:, :, None])


def _q2_k(blocks: Array) -> Array:
    packed = blocks[:, :16]
    scales = _half(blocks, 80) * (packed & 15).astype(np.float32)
    minima = _half(blocks, 82) * (packed >> 4).astype(np.float32)
    scale, numbers = _spread(scales, _bits(blocks[:, 16:80], 4, 32).astype(np.float32))
    return _less(scale * numbers, minima)


def _q3_k(blocks: Array) -> Array:
    packed = blocks[:, 96:108]  # 16 scales of 6 bits: 8 bytes of low halves, 4 of high quarters
    low, high = _bits(packed[:, :8], 2, 8), _bits(packed[:, 8:], 4, 4)
    scales = _half(blocks, 108) * ((low | high << 4).astype(np.float32) - 32)
    lacking = (_bits(blocks[:, :32], 8, 32) ^ 1).astype(np.int8) << 2  # 4 less where the bit is not set
    scale, numbers = _spread(scales, _bits(blocks[:, 32:96], 4, 32).astype(np.int8) - lacking)
    return scale * numbers.astype(np.float32)


def _scales_k(blocks: Array) -> tuple[Array, Array]:
    """Return the 8 scales and 8 minima of 6 bits of the types Q4_K and Q5_K."""
    packed = blocks[:, 4:16].reshape(-1, 3, 4)
    first, second, rest = packed[:, 0], packed[:, 1], packed[:, 2]
    scales = np.concatenate([first & 63, (rest & 15) | (first >> 2 & 48)], axis=1)
    minima = np.concatenate([second & 63, (rest >> 4) | (second >> 2 & 48)], axis=1)
    return _half(blocks, 0) * scales.astype(np.float32), _half(blocks, 2) * minima.astype(np.float32)


def _q4_k(blocks: Array) -> Array:
    scales, minima = _scales_k(blocks)
    scale, numbers = _spread(scales, _bits(blocks[:, 16:], 2, 32).astype(np.float32))
    return _less(scale * numbers, minima)


def _q5_k(blocks: Array) -> Array:
    scales, minima = _scales_k(blocks)
    whole = _bits(blocks[:, 48:], 2, 32) | _bits(blocks[:, 16:48], 8, 32) << 4
    scale, numbers = _spread(scales, whole.astype(np.float32))
    return _less(scale * numbers, minima)


def _q6_k(blocks: Array) -> Array:
    scales = np.ascontiguousarray(blocks[:, 192:208]).view(np.int8).astype(np.float32) * _half(blocks, 208)
    whole = _bits(blocks[:, :128], 2, 64) | _bits(blocks[:, 128:192], 4, 32) << 4
    scale, numbers = _spread(scales, whole.astype(np.float32) - 32)
    return scale * numbers


DECODERS: Mapping[str, Callable[[Array], Array]] = {
    "Q4_0": _q4_0,
    "Q4_1": _q4_1,
    "Q5_0": _q5_0,
    "Q5_1": _q5_1,
    "Q8_0": _q8_0,
    "Q2_K": _q2_k,
    "Q3_K": _q3_k,
    "Q4_K": _q4_k,
    "Q5_K": _q5_k,
    "Q6_K": _q6_k,
}
