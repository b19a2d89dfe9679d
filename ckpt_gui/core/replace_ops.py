"""Ops by which an adapter takes a tensor's place: the whole of it, or some rows of an embedding.

There is no way back: what was there is not in the result. Source: peft 0.15 `utils/other.py` (ModulesToSaveWrapper),
`tuners/trainable_tokens/layer.py`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import ClassVar

from ckpt_gui.core.dtypes import num_bytes
from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.ops import Bytes, Shape, Stream, read_any
from ckpt_gui.dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Replace:
    """Take the second tensor instead of the first: an adapter can bring whole tensors that were trained."""

    name: ClassVar[str] = "replace"

    @property
    def needs(self) -> tuple[str, ...]:
        """Nothing."""
        return ()

    def inverse(self) -> Replace:
        """Return itself: nothing undoes it."""
        return self

    def shape(self, shapes: Sequence[Shape], dims: Mapping[str, int]) -> Shape:
        """Return the shape of the new tensor."""
        return shapes[1]

    def apply(self, parts: Sequence[Stream], dims: Mapping[str, int]) -> Stream:
        """Return the new tensor."""
        return parts[1]

    def describe(self, dims: Mapping[str, int]) -> str:
        """Say what happens, for a person."""
        return "replaced by the adapter's own"


@dataclass(frozen=True, slots=True)
class PutRows:
    """Put trained rows in the place of an embedding's own (peft 0.15 `tuners/trainable_tokens/layer.py`).

    Attributes:
        indices: Which rows they are, in their order.
    """

    name: ClassVar[str] = "tokens"
    indices: tuple[int, ...]

    @property
    def needs(self) -> tuple[str, ...]:
        """Nothing."""
        return ()

    def inverse(self) -> PutRows:
        """Return itself: nothing undoes it."""
        return self

    def shape(self, shapes: Sequence[Shape], dims: Mapping[str, int]) -> Shape:
        """Return the embedding's shape.

        Raises:
            CheckpointError: The rows are of another width, not as many as their numbers, or beyond the last one.
        """
        whole, rows = shapes
        if whole[1:] != rows[1:] or rows[:1] != (len(self.indices),) or max(self.indices, default=-1) >= whole[0]:
            text = f"Trained rows of the shape {rows} do not fit an embedding of the shape {whole}."
            raise CheckpointError("shape-mismatch", text)
        return whole

    def apply(self, parts: Sequence[Stream], dims: Mapping[str, int]) -> Stream:
        """Return the embedding with the rows in it, as a stream; its unit is one row."""
        self.shape([p.shape for p in parts], dims)
        return _WithRows(parts, self.indices)

    def describe(self, dims: Mapping[str, int]) -> str:
        """Say what happens, for a person."""
        return f"{len(self.indices):,} rows replaced by trained ones"


class _WithRows:
    """An embedding of which some rows are taken from another tensor of the same type."""

    def __init__(self, parts: Sequence[Stream], indices: tuple[int, ...]) -> None:
        self.whole, self.rows = parts
        self.indices, self.dtype, self.shape = indices, self.whole.dtype, self.whole.shape
        self.unit = max(num_bytes(self.dtype, math.prod(self.shape[1:])), 1)

    def read_into(self, start: int, out: Bytes) -> None:
        read_any(self.whole, start, out)
        first, count = start // self.unit, out.nbytes // self.unit
        for place, index in enumerate(self.indices):
            if first <= index < first + count:
                at = (index - first) * self.unit
                read_any(self.rows, place * self.unit, out[at : at + self.unit])
