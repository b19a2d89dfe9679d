"""Ops that take tensors apart and put them together: slices, concatenation, stacks, transposes, and views.

They are the other half of a layout's rules: a fused `qkv_proj` is three tensors one under the other, a stack of
experts one tensor a slice, a Conv1D weight a transposed one. Each is a stream over streams (see `ops`), so nothing is
held in memory but the blocks in work. What undoes what is written in `exprs`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from ckpt_gui.core.dtypes import BY_NAME
from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.ops import Bytes, Shape, Stream, read_any

Symbol = str | int
EQUAL = "="  # the size of a part that is as long as the others
Dims = Mapping[str, int]
_TRANSPOSE_BLOCK = 4 << 20  # bytes of result made at once: wide enough that what is read is not crumbs
_ROW_READS = 64 << 10  # slices of rows at least this long are read one by one, shorter ones with the whole rows


def size_of(symbol: Symbol, dims: Dims) -> int:
    """Return the value of a symbol, a product of symbols, or a sum of products.

    >>> size_of("heads*head_dim+2*kv_heads*head_dim", {"heads": 4, "kv_heads": 2, "head_dim": 8})
    64

    Raises:
        KeyError: A dim is not known.
    """
    if isinstance(symbol, int):
        return symbol
    return sum(
        math.prod(int(name) if name.isdigit() else dims[name] for name in product.split("*"))
        for product in symbol.split("+")
    )


def symbols_of(symbol: Symbol) -> tuple[str, ...]:
    """Return the dims that a symbol needs.

    >>> symbols_of("2*heads*head_dim")
    ('heads', 'head_dim')
    """
    if isinstance(symbol, int) or symbol == EQUAL:
        return ()
    names = (name for product in symbol.split("+") for name in product.split("*"))
    return tuple(dict.fromkeys(name for name in names if not name.isdigit()))


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
        return _Rows(parts, shape) if self.dim == 0 else _Columns(parts, shape, self.dim)

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
        return _Slice(parts[0], shape, self.dim, begin)

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
        return _Rows(parts, self.shape([p.shape for p in parts], dims))

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
        return _Slice(parts[0], shape, 0, self.index)

    def describe(self, dims: Dims) -> str:
        """Say what happens, for a person."""
        return f"slice {self.index}"


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
        return _Transposed(parts[0], self.shape([p.shape for p in parts], dims))

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
        return _Regrouped(parts[0], shape, size_of(self.groups, dims), size_of(self.parts, dims))

    def describe(self, dims: Dims) -> str:
        """Say what happens, for a person."""
        groups, parts = (dims.get(str(n), n) for n in (self.groups, self.parts))
        return f"rows regrouped, {groups} groups of {parts} → {parts} groups of {groups}"


def seen_as(stream: Stream, shape: Shape) -> Stream:
    """Return the same bytes under another shape."""
    return _Slice(stream, shape, 0, 0)


class _Base:
    """What all streams over streams have: type, shape, and the bytes of an element."""

    unit: int

    def __init__(self, parts: Sequence[Stream], shape: Shape) -> None:
        types = {p.dtype for p in parts}
        if len(types) != 1:
            raise CheckpointError(
                "dtype-mixed", f"Tensors of the types {', '.join(sorted(types))} can not be put together."
            )
        self.parts, self.shape, self.dtype = parts, shape, parts[0].dtype
        self.item = BY_NAME[self.dtype].itemsize
        if not self.item:
            raise CheckpointError(
                "quantised", f"Tensors of the type {self.dtype} can not be taken apart or put together."
            )


class _Rows(_Base):
    """Parts one behind the other in bytes: a concatenation along the first dimension, or a stack."""

    def __init__(self, parts: Sequence[Stream], shape: Shape) -> None:
        super().__init__(parts, shape)
        self.unit = max(p.unit for p in parts)
        self.sizes = [math.prod(p.shape) * self.item for p in parts]

    def read_into(self, start: int, out: Bytes) -> None:
        begin, stop = 0, start + out.nbytes
        for part, size in zip(self.parts, self.sizes, strict=True):
            low, high = max(start, begin), min(stop, begin + size)
            if low < high:
                read_any(part, low - begin, out[low - start : high - start])
            begin += size


class _Columns(_Base):
    """A concatenation along a later dimension: rows of the result are rows of the parts side by side."""

    def __init__(self, parts: Sequence[Stream], shape: Shape, dim: int) -> None:
        super().__init__(parts, shape)
        self.widths = [math.prod(p.shape[dim:]) * self.item for p in parts]
        self.row = sum(self.widths)
        self.unit = max(self.row, 1)

    def read_into(self, start: int, out: Bytes) -> None:
        import numpy as np

        first, rows = start // self.row, out.nbytes // self.row
        table, place = out.reshape(rows, self.row), 0
        for part, width in zip(self.parts, self.widths, strict=True):
            block = np.empty(rows * width, dtype=np.uint8)
            read_any(part, first * width, block)
            table[:, place : place + width] = block.reshape(rows, width)
            place += width


class _Slice(_Base):
    """A part of a tensor along a dimension, from `begin` on; along the first one it is a range of bytes."""

    def __init__(self, inner: Stream, shape: Shape, dim: int, begin: int) -> None:
        super().__init__([inner], shape)
        self.inner, self.dim = inner, dim
        step = math.prod(inner.shape[dim + 1 :]) * self.item
        self.begin = begin * step
        self.outer = inner.shape[dim] * step if inner.shape else self.item  # bytes of a row of the whole
        self.width = math.prod(shape[dim:]) * self.item
        self.unit = max(self.width, 1) if dim else max(inner.unit, 1)

    def read_into(self, start: int, out: Bytes) -> None:
        if self.dim == 0:
            read_any(self.inner, self.begin + start, out)
            return
        first, rows = start // self.width, out.nbytes // self.width
        if self.width >= _ROW_READS:
            for i in range(rows):
                read_any(self.inner, (first + i) * self.outer + self.begin, out[i * self.width :][: self.width])
            return
        self._cut(first, rows, out)

    def _cut(self, first: int, rows: int, out: Bytes) -> None:
        import numpy as np

        block = np.empty(rows * self.outer, dtype=np.uint8)
        read_any(self.inner, first * self.outer, block)
        out.reshape(rows, self.width)[:] = block.reshape(rows, self.outer)[:, self.begin : self.begin + self.width]


class _Transposed(_Base):
    """The last two dimensions swapped, block of columns by block of columns."""

    def __init__(self, inner: Stream, shape: Shape) -> None:
        super().__init__([inner], shape)
        self.inner = inner
        self.high, self.wide = inner.shape[-2:]  # of the stored matrix
        self.row = self.high * self.item  # bytes of a row of the result
        self.matrix = self.high * self.wide * self.item
        rows = max(1, min(self.wide, _TRANSPOSE_BLOCK // max(self.row, 1)))
        self.unit = max(rows * self.row, 1)

    def read_into(self, start: int, out: Bytes) -> None:
        done = 0
        while done < out.nbytes:
            which, inside = divmod(start + done, self.matrix)
            size = min(out.nbytes - done, self.matrix - inside)
            self._columns(which * self.matrix, inside // self.row, out[done : done + size])
            done += size

    def _columns(self, origin: int, first: int, out: Bytes) -> None:
        """Fill rows of the result, from `first` on, of the matrix that begins at `origin`."""
        import numpy as np

        rows = out.nbytes // self.row
        width, pitch = rows * self.item, self.wide * self.item
        block = np.empty((self.high, width), dtype=np.uint8)
        if width == pitch:
            read_any(self.inner, origin, block.reshape(-1))
        else:
            for i in range(self.high):
                read_any(self.inner, origin + i * pitch + first * self.item, block[i])
        cells: Any = block.reshape(self.high, rows, self.item)
        out.reshape(rows, self.high, self.item)[:] = cells.transpose(1, 0, 2)


class _Regrouped(_Base):
    """A tensor whose runs of rows change places: run (i, j) of groups × parts becomes run (j, i)."""

    def __init__(self, inner: Stream, shape: Shape, groups: int, parts: int) -> None:
        super().__init__([inner], shape)
        self.groups, self.count, self.unit = groups, parts, 1
        self.run = math.prod(shape) * self.item // max(groups * parts, 1)

    def read_into(self, start: int, out: Bytes) -> None:
        done = 0
        while done < out.nbytes:
            which, inside = divmod(start + done, self.run)
            part, group = divmod(which, self.groups)
            size = min(out.nbytes - done, self.run - inside)
            origin = (group * self.count + part) * self.run + inside
            read_any(self.parts[0], origin, out[done : done + size])
            done += size
