"""Ops that take tensors apart and put them together: concatenation, slices, stacks.

A fused `qkv_proj` is three tensors one under the other, a stack of experts one tensor a slice. Each op is a stream over
streams (see `part_streams`), so nothing is held in memory but the blocks in work. What undoes what is written in
`exprs`: one op alone can not say it, since what puts together has to know all parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.ops import Shape, Stream
from ckpt_gui.core.part_streams import ColumnsStream, RowsStream, SliceStream
from ckpt_gui.core.symbols import EQUAL, Dims, Symbol, size_of, symbols_of
from ckpt_gui.dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Concat:
    """Put tensors one behind the other along a dimension.

    Attributes:
        dim: Which.
        sizes: What each part measures there, in symbols; empty where any sizes will do.
    """

    name: ClassVar[str] = "concat"
    dim: int = 0
    sizes: tuple[Symbol, ...] = ()

    @property
    def needs(self) -> tuple[str, ...]:
        """Nothing: the parts know their sizes."""
        return ()

    def inverse(self) -> Concat:
        """Return itself: what undoes it is a `Take` for each part (see exprs)."""
        return self

    def shape(self, shapes: Sequence[Shape], dims: Dims) -> Shape:
        """Return the shape of the whole.

        Raises:
            CheckpointError: The parts do not fit together.
        """
        first = shapes[0]
        rest = {s[: self.dim] + s[self.dim + 1 :] for s in shapes}
        if len(rest) != 1 or any(len(s) <= self.dim for s in shapes):
            raise CheckpointError("shape-mismatch", f"Tensors of the shapes {list(shapes)} can not be put together.")
        return (*first[: self.dim], sum(s[self.dim] for s in shapes), *first[self.dim + 1 :])

    def apply(self, parts: Sequence[Stream], dims: Dims) -> Stream:
        """Return the whole as a stream."""
        shape = self.shape([p.shape for p in parts], dims)
        return RowsStream(parts, shape) if self.dim == 0 else ColumnsStream(parts, shape, self.dim)

    def describe(self, dims: Dims) -> str:
        """Say what happens, for a person."""
        return "put together" if self.dim == 0 else f"put together along dimension {self.dim}"


@dataclass(frozen=True, slots=True)
class Take:
    """Take one part out of a tensor that is several tensors, one behind the other.

    Attributes:
        dim: Along which dimension they lie.
        index: Which of them.
        sizes: What each measures there, in symbols, or `EQUAL` for each.
    """

    name: ClassVar[str] = "take"
    dim: int
    index: int
    sizes: tuple[Symbol, ...]

    @property
    def needs(self) -> tuple[str, ...]:
        """The dims in its sizes."""
        return tuple(dict.fromkeys(name for size in self.sizes for name in symbols_of(size)))

    def lengths(self, total: int, dims: Dims) -> list[int]:
        """Return the length of each part of a tensor that is `total` long."""
        if EQUAL in self.sizes:
            return [total // len(self.sizes)] * len(self.sizes)
        return [size_of(s, dims) for s in self.sizes]

    def inverse(self) -> Take:
        """Return itself: what undoes it is a `Concat` of all parts (see exprs)."""
        return self

    def shape(self, shapes: Sequence[Shape], dims: Dims) -> Shape:
        """Return the shape of the part.

        Raises:
            CheckpointError: The tensor is not as long as its parts together.
        """
        (shape,) = shapes
        total = shape[self.dim] if len(shape) > self.dim else 0
        lengths = self.lengths(total, dims)
        if not total or sum(lengths) != total:
            wanted = " + ".join(map(str, lengths))
            raise CheckpointError("shape-mismatch", f"A tensor of the shape {shape} is not {wanted} long.")
        return (*shape[: self.dim], lengths[self.index], *shape[self.dim + 1 :])

    def apply(self, parts: Sequence[Stream], dims: Dims) -> Stream:
        """Return the part as a stream."""
        whole = parts[0].shape
        shape = self.shape([whole], dims)
        begin = sum(self.lengths(whole[self.dim], dims)[: self.index])
        return SliceStream(parts[0], shape, self.dim, begin)

    def describe(self, dims: Dims) -> str:
        """Say what happens, for a person."""
        return f"part {self.index + 1} of {len(self.sizes)}"


@dataclass(frozen=True, slots=True)
class Stack:
    """Put equal tensors into one with a new first dimension."""

    name: ClassVar[str] = "stack"

    @property
    def needs(self) -> tuple[str, ...]:
        """Nothing."""
        return ()

    def inverse(self) -> Stack:
        """Return itself: what undoes it is a `Pick` for each slice (see exprs)."""
        return self

    def shape(self, shapes: Sequence[Shape], dims: Dims) -> Shape:
        """Return the shape of the stack."""
        if len(set(shapes)) != 1:
            raise CheckpointError("shape-mismatch", f"Tensors of the shapes {sorted(set(shapes))} can not be stacked.")
        return (len(shapes), *shapes[0])

    def apply(self, parts: Sequence[Stream], dims: Dims) -> Stream:
        """Return the stack as a stream."""
        return RowsStream(parts, self.shape([p.shape for p in parts], dims))

    def describe(self, dims: Dims) -> str:
        """Say what happens, for a person."""
        return "stacked"


@dataclass(frozen=True, slots=True)
class Pick:
    """Take one slice of the first dimension, and drop the dimension.

    Attributes:
        index: Which slice.
        count: How many there are.
    """

    name: ClassVar[str] = "pick"
    index: int
    count: int

    @property
    def needs(self) -> tuple[str, ...]:
        """Nothing."""
        return ()

    def inverse(self) -> Pick:
        """Return itself: what undoes it is a `Stack` of all slices (see exprs)."""
        return self

    def shape(self, shapes: Sequence[Shape], dims: Dims) -> Shape:
        """Return the shape of the slice."""
        (shape,) = shapes
        if shape[:1] != (self.count,):
            raise CheckpointError("shape-mismatch", f"A tensor of the shape {shape} has no {self.count} slices.")
        return shape[1:]

    def apply(self, parts: Sequence[Stream], dims: Dims) -> Stream:
        """Return the slice as a stream."""
        shape = self.shape([p.shape for p in parts], dims)
        return SliceStream(parts[0], shape, 0, self.index)

    def describe(self, dims: Dims) -> str:
        """Say what happens, for a person."""
        return f"slice {self.index}"
