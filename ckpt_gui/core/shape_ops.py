"""Ops that give one tensor another shape or another order of rows: transposes, views, regrouped rows.

A Conv1D weight is a transposed one, a stack of experts may lie flat, rows of q, k and v may stand head by head. Each op
is a stream over a stream (see `part_streams`), so nothing is held in memory but the blocks in work.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.ops import Shape, Stream
from ckpt_gui.core.part_streams import RegroupedStream, TransposedStream, seen_as
from ckpt_gui.core.symbols import Dims, Symbol, size_of, symbols_of
from ckpt_gui.dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Transpose:
    """Swap the last two dimensions. It is its own inverse."""

    name: ClassVar[str] = "transpose"

    @property
    def needs(self) -> tuple[str, ...]:
        """Nothing."""
        return ()

    def inverse(self) -> Transpose:
        """Return itself."""
        return self

    def shape(self, shapes: Sequence[Shape], dims: Dims) -> Shape:
        """Return the shape of the result."""
        (shape,) = shapes
        if len(shape) < 2:
            raise CheckpointError("shape-mismatch", f"A tensor of the shape {shape} can not be transposed.")
        return (*shape[:-2], shape[-1], shape[-2])

    def apply(self, parts: Sequence[Stream], dims: Dims) -> Stream:
        """Return the transposed tensor as a stream."""
        return TransposedStream(parts[0], self.shape([p.shape for p in parts], dims))

    def describe(self, dims: Dims) -> str:
        """Say what happens, for a person."""
        return "transposed"


@dataclass(frozen=True, slots=True)
class Reshape:
    """See the same bytes in another shape.

    Attributes:
        source: The shape before, in symbols.
        target: The shape after.
    """

    name: ClassVar[str] = "reshape"
    source: tuple[Symbol, ...]
    target: tuple[Symbol, ...]

    @property
    def needs(self) -> tuple[str, ...]:
        """The dims in both shapes."""
        return tuple(dict.fromkeys(n for size in (*self.source, *self.target) for n in symbols_of(size)))

    def inverse(self) -> Reshape:
        """Return the way back."""
        return Reshape(self.target, self.source)

    def shape(self, shapes: Sequence[Shape], dims: Dims) -> Shape:
        """Return the shape after."""
        shape = tuple(size_of(s, dims) for s in self.target)
        if math.prod(shape) != math.prod(shapes[0]):
            raise CheckpointError("shape-mismatch", f"A tensor of the shape {shapes[0]} is not {shape} in size.")
        return shape

    def apply(self, parts: Sequence[Stream], dims: Dims) -> Stream:
        """Return the same bytes under another shape."""
        return seen_as(parts[0], self.shape([p.shape for p in parts], dims))

    def describe(self, dims: Dims) -> str:
        """Say what happens, for a person."""
        return "seen in another shape"


@dataclass(frozen=True, slots=True)
class Regroup:
    """Put rows that are groups of parts as parts of groups: `[q k v]` head by head becomes all q, all k, all v.

    Attributes:
        groups: How many groups there are before, in symbols (`heads`).
        parts: How many parts a group has.
    """

    name: ClassVar[str] = "regroup"
    groups: Symbol
    parts: Symbol

    @property
    def needs(self) -> tuple[str, ...]:
        """The dims in its numbers."""
        return tuple(dict.fromkeys((*symbols_of(self.groups), *symbols_of(self.parts))))

    def inverse(self) -> Regroup:
        """Return the way back."""
        return Regroup(self.parts, self.groups)

    def shape(self, shapes: Sequence[Shape], dims: Dims) -> Shape:
        """Rows change places; the shape stays.

        Raises:
            CheckpointError: The rows are not a whole number a part.
        """
        (shape,) = shapes
        groups, parts = size_of(self.groups, dims), size_of(self.parts, dims)
        if not shape or shape[0] % (groups * parts):
            raise CheckpointError("shape-mismatch", f"A tensor of the shape {shape} is not {groups} × {parts} parts.")
        return shape

    def apply(self, parts: Sequence[Stream], dims: Dims) -> Stream:
        """Return the regrouped tensor as a stream."""
        shape = self.shape([p.shape for p in parts], dims)
        return RegroupedStream(parts[0], shape, size_of(self.groups, dims), size_of(self.parts, dims))

    def describe(self, dims: Dims) -> str:
        """Say what happens, for a person."""
        groups, parts = (dims.get(str(n), n) for n in (self.groups, self.parts))
        return f"rows regrouped, {groups} groups of {parts} → {parts} groups of {groups}"
