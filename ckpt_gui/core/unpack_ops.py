"""Ops that turn quantised tensors into the numbers that they stand for: GGUF's blocks, FP8 codes with scales."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, ClassVar

from ckpt_gui.core.dtypes import BY_NAME
from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.ops import Bytes, Shape, Stream, read_any
from ckpt_gui.core.source import Blocks
from ckpt_gui.dataclasses import dataclass

_FLOAT = 4  # bytes of an fp32


@dataclass(frozen=True, slots=True)
class Dequantise:
    """Decode rows of blocks to fp32.

    Attributes:
        blocks: How they are packed.
    """

    name: ClassVar[str] = "dequantise"
    blocks: Blocks

    @property
    def needs(self) -> tuple[str, ...]:
        """Nothing."""
        return ()

    def inverse(self) -> Dequantise:
        """Return itself: nothing undoes it, for what quantising took away is gone."""
        return self

    def shape(self, shapes: Sequence[Shape], dims: Mapping[str, int]) -> Shape:
        """Return the shape in numbers: the rows are longer, or shorter, than they are in bytes."""
        *rows, last = shapes[0]
        if last % self.blocks.nbytes:
            raise CheckpointError("damaged", f"A row of {last:,} bytes is not whole blocks of {self.blocks.kind}.")
        return (*rows, last // self.blocks.nbytes * self.blocks.numel)

    def apply(self, parts: Sequence[Stream], dims: Mapping[str, int]) -> Stream:
        """Return the decoded tensor; its unit is one block."""
        return _Decoded(parts[0], self.blocks, self.shape([parts[0].shape], dims))

    def describe(self, dims: Mapping[str, int]) -> str:
        """Name both types."""
        return f"{self.blocks.kind} → fp32"


class _Decoded:
    """A quantised tensor as fp32, block by block."""

    dtype = "fp32"

    def __init__(self, inner: Stream, blocks: Blocks, shape: Shape) -> None:
        self.inner, self.blocks, self.shape = inner, blocks, shape
        self.unit = blocks.numel * _FLOAT

    def read_into(self, start: int, out: Bytes) -> None:
        import numpy as np

        from ckpt_gui.core.formats.ggml_blocks import decode

        raw = np.empty(out.nbytes // self.unit * self.blocks.nbytes, dtype=np.uint8)
        read_any(self.inner, start // self.unit * self.blocks.nbytes, raw)
        out[:] = decode(raw, self.blocks.kind, self.blocks.nbytes).view(np.uint8)


@dataclass(frozen=True, slots=True)
class ScaleBlocks:
    """Decode FP8 (E4M3) codes and multiply each block of them by its scale, in fp32.

    Attributes:
        rows: Rows of a block.
        columns: Columns of a block.
    """

    name: ClassVar[str] = "dequantise"
    rows: int
    columns: int

    @property
    def needs(self) -> tuple[str, ...]:
        """Nothing."""
        return ()

    def inverse(self) -> ScaleBlocks:
        """Return itself: nothing undoes it, for what quantising took away is gone."""
        return self

    def fits(self, codes: Shape, scales: Shape) -> bool:
        """Return True if there is one scale for each block."""
        return len(codes) == 2 and scales == (-(-codes[0] // self.rows), -(-codes[1] // self.columns))

    def shape(self, shapes: Sequence[Shape], dims: Mapping[str, int]) -> Shape:
        """The shape is that of the codes."""
        return shapes[0]

    def apply(self, parts: Sequence[Stream], dims: Mapping[str, int]) -> Stream:
        """Return the decoded tensor; its unit is one row."""
        return _Scaled(parts[0], parts[1], self)

    def describe(self, dims: Mapping[str, int]) -> str:
        """Name both types."""
        return f"FP8 with a scale for each {self.rows} × {self.columns} → fp32"


class _Scaled:
    """An FP8 tensor as fp32, row by row."""

    dtype = "fp32"

    def __init__(self, codes: Stream, scales: Stream, op: ScaleBlocks) -> None:
        self.codes, self.scales, self.op, self.shape = codes, scales, op, codes.shape
        self.unit = max(codes.shape[1], 1) * _FLOAT

    def read_into(self, start: int, out: Bytes) -> None:
        import numpy as np

        from ckpt_gui.core.casts import as_float

        width, row = self.shape[1], start // self.unit
        codes = np.empty(out.nbytes // _FLOAT, dtype=np.uint8)
        read_any(self.codes, row * width, codes)
        count = codes.size // max(width, 1)
        first, last = row // self.op.rows, -(-(row + count) // self.op.rows)
        across = self.scales.shape[1]
        size = BY_NAME[self.scales.dtype].itemsize
        raw = np.empty((last - first) * across * size, dtype=np.uint8)
        read_any(self.scales, first * across * size, raw)
        scales = as_float(raw, self.scales.dtype).astype(np.float32).reshape(-1, across)
        wide = np.repeat(scales, self.op.columns, axis=1)[:, :width]
        which = np.arange(row, row + count) // self.op.rows - first
        numbers = e4m3()[codes].reshape(count, width) * wide[which]
        out[:] = numbers.reshape(-1).view(np.uint8)


@lru_cache(maxsize=1)
def e4m3() -> Any:
    """Return the numbers of the 256 codes of E4M3 (`float8_e4m3fn`: no infinity, all ones is no number), as fp32."""
    import numpy as np

    codes = np.arange(256)
    exponent, fraction = codes >> 3 & 15, codes & 7
    size = np.where(exponent == 0, fraction * 2.0**-9, (8 + fraction) * 2.0 ** (exponent - 10.0))
    size[(codes & 127) == 127] = np.nan
    return np.where(codes < 128, size, -size).astype(np.float32)
