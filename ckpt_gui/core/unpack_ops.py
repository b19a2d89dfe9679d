"""The op that turns the blocks of a quantised tensor into the numbers that they stand for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.ops import Bytes, Shape, Stream, read_any
from ckpt_gui.core.tensors import Blocks

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
