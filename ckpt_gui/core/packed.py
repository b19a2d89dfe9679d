"""Quantised weights seen as the numbers that they stand for: codes, and the scales that lie beside them.

Only schemes whose names and shapes leave no doubt are decoded. Sources: OCP microscaling formats rev. 1.0, transformers
4.57 `integrations/mxfp4.py` (MXFP4: 32 codes of fp4 a block, the lower half of a byte first, a power of two with bias
127 as scale); DeepSeek-V3 `inference/kernel.py` (FP8 with a scale for each block of 128 × 128); compressed-tensors
`float-quantized` (FP8 with a scale a tensor or a row); ggml `ggml-quants.c` (the blocks of GGUF).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ckpt_gui import dataclasses
from ckpt_gui.core.dtypes import BY_NAME
from ckpt_gui.core.slices import Index, read_part
from ckpt_gui.core.source import Source
from ckpt_gui.core.stats.elements import nibbles, pattern_values
from ckpt_gui.core.tensors import TensorRef
from ckpt_gui.dataclasses import dataclass

Array = NDArray[Any]
SIDE = 128  # rows and columns that share a scale in DeepSeek's FP8
_FP8 = ("fp8_e4m3", "fp8_e5m2")
_BIAS = 127


@dataclass(frozen=True, slots=True)
class Packed:
    """A quantised tensor that can be shown as numbers.

    Attributes:
        shape: Its shape in numbers.
        note: The scheme, and what its scales are called.
        read: Returns the numbers of a part, as one row in row-major order.
    """

    shape: tuple[int, ...]
    note: str
    read: Callable[[Index], Array]


def packed(source: Source, ref: TensorRef, names: Mapping[tuple[str, ...], TensorRef] | None = None) -> Packed | None:
    """Return how a stored tensor is seen as numbers; None if it is plain, or its scheme is not known here.

    Args:
        source: The opened checkpoint.
        ref: One of its tensors.
        names: All tensors by path, where many are asked for one after another.
    """
    if ref.key in source.blocks:
        return _gguf(source, ref)
    known = by_name(source) if names is None else names
    if ref.dtype == "u8" and ref.key.endswith("_blocks"):
        scales = known.get((*ref.section, ref.key.removesuffix("_blocks") + "_scales"))
        return _mxfp4(source, ref, scales) if scales is not None else None
    if ref.dtype in _FP8 and ref.key.endswith("weight"):
        for ending in ("_scale_inv", "_scale"):
            found = known.get((*ref.section, ref.key + ending))
            if found is not None:
                return _fp8(source, ref, found)
    return None


def by_name(source: Source) -> dict[tuple[str, ...], TensorRef]:
    """Return the tensors by path."""
    return {ref.path: ref for ref in source.refs}


def _gguf(source: Source, ref: TensorRef) -> Packed:
    from ckpt_gui.core.formats.ggml_blocks import decode

    blocks = source.blocks[ref.key]
    *rows, width = ref.shape
    shape = (*rows, width // blocks.nbytes * blocks.numel)

    def read(part: Index) -> Array:
        return _in_groups(
            source, ref, part, blocks.numel, blocks.nbytes, lambda raw: decode(raw, blocks.kind, blocks.nbytes)
        )

    return Packed(shape, f"decoded from {blocks.kind}", read)


def _in_groups(
    source: Source, ref: TensorRef, part: Index, numel: int, nbytes: int, decode: Callable[[Array], Array]
) -> Array:
    """Read a part whose last dimension is packed in groups: whole groups are read, and the part is taken from them."""
    last = part.axes[-1]
    if not part.numel:
        return np.zeros(0, dtype=np.float32)
    first, end = last[0] // numel, last[-1] // numel + 1
    stored = dataclasses.replace(part, axes=(*part.axes[:-1], range(first * nbytes, end * nbytes)))
    numbers = decode(read_part(source, ref, stored)).reshape(-1, (end - first) * numel)
    return numbers[:, np.array(last, dtype=np.int64) - first * numel].reshape(-1)


def _mxfp4(source: Source, ref: TensorRef, scales: TensorRef) -> Packed | None:
    if len(ref.shape) < 2 or ref.shape[-1] != 16 or scales.shape != ref.shape[:-1] or scales.dtype != "u8":
        return None
    outer = ref.shape[:-2]
    rows = math.prod(outer)
    codes = dataclasses.replace(ref, shape=(*outer, ref.shape[-2] * 16), strides=None)
    exponents = dataclasses.replace(scales, strides=None)
    if ref.strides is not None or scales.strides is not None or not rows:
        return None

    def read(part: Index) -> Array:
        values = _in_groups(source, codes, part, 32, 16, lambda raw: pattern_values("fp4")[nibbles(raw)])
        last = part.axes[-1]
        groups = range(last[0] // 32, last[-1] // 32 + 1) if len(last) else range(0)
        found = read_part(source, exponents, dataclasses.replace(part, axes=(*part.axes[:-1], groups)))
        sizes = np.ldexp(1.0, found.astype(np.int64).reshape(-1, max(len(groups), 1)) - _BIAS)
        return (
            values.reshape(-1, max(len(last), 1)) * sizes[:, np.array(last, dtype=np.int64) // 32 - groups.start]
        ).reshape(-1)

    return Packed((*outer, ref.shape[-2] * 32), f"decoded from MXFP4 with {scales.key}", read)


def _fp8(source: Source, ref: TensorRef, scales: TensorRef) -> Packed | None:
    if BY_NAME[scales.dtype].kind != "float" or BY_NAME[scales.dtype].bits < 16 or len(ref.shape) != 2:
        return None
    rows, columns = ref.shape
    sides = _sides(rows, columns, scales.shape)
    if sides is None:
        return None
    grid = dataclasses.replace(scales, shape=(-(-rows // sides[0]), -(-columns // sides[1])))
    if grid.numel != scales.numel or scales.strides is not None:
        return None

    def read(part: Index) -> Array:
        values = read_part(source, ref, part)
        spots = [np.array(axis, dtype=np.int64) // side for axis, side in zip(part.axes, sides, strict=True)]
        bounds = tuple(range(int(s[0]), int(s[-1]) + 1) if s.size else range(0) for s in spots)
        found = read_part(source, grid, dataclasses.replace(part, axes=bounds)).reshape(len(bounds[0]), len(bounds[1]))
        sizes = found[(spots[0] - bounds[0].start)[:, None], (spots[1] - bounds[1].start)[None, :]]
        scaled: Array = values * sizes.reshape(-1)
        return scaled

    return Packed(ref.shape, f"FP8 times {scales.key}", read)


def _sides(rows: int, columns: int, shape: tuple[int, ...]) -> tuple[int, int] | None:
    """Return how many rows and columns share a scale, from the shape of the scales."""
    if math.prod(shape) == 1:
        return max(rows, 1), max(columns, 1)
    if shape in ((rows,), (rows, 1)):
        return 1, max(columns, 1)
    if shape == (-(-rows // SIDE), -(-columns // SIDE)):
        return SIDE, SIDE
    return None
