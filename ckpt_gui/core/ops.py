"""Value changes: each an op with an exact inverse, applied to streams of bytes.

A `Stream` is a tensor that can be read by byte range without being held in memory. An op turns streams into a stream,
so an export of any size needs only the memory of the blocks being worked on, and any worker may make any block.

The rotary permutation: Meta and torchtune rotate pairs of neighbouring rows (2i, 2i+1) of a head, Hugging Face rotates
row i with row i + head_dim/2. Source: transformers `convert_llama_weights_to_hf.py`, torchtune `convert_weights.py`;
FORMATS in the README. The permutation is not its own inverse (except at head_dim 4).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Protocol, TypeAlias, runtime_checkable

from ckpt_gui.core.dtypes import BY_NAME, num_bytes
from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.source import Source
from ckpt_gui.core.tensors import TensorRef
from ckpt_gui.dataclasses import dataclass, field

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Bytes: TypeAlias = "NDArray[np.uint8]"  # numpy is imported where bytes are moved: a look at a file needs none
Shape: TypeAlias = tuple[int, ...]
HEAD_LIMIT = 8 << 20  # bytes of a head that are reordered in memory at once; the largest published ones have 4 MiB


class Stream(Protocol):
    """A tensor that is read by byte range, row-major.

    Attributes:
        dtype: Short name of the element type.
        shape: Sizes, outermost first.
        unit: Ranges must start at a multiple of this many bytes, and end at one or at the end of the tensor.
    """

    dtype: str
    shape: Shape
    unit: int

    def read_into(self, start: int, out: Bytes) -> None:
        """Fill `out` with the bytes from `start` on."""


@runtime_checkable
class HasColumns(Protocol):
    """A stream of which parts of many rows are had faster together than row by row."""

    def read_columns(self, origin: int, begin: int, out: Bytes) -> None:
        """Fill each row of `out` with the bytes of a row of the tensor from byte `begin` of it on.

        Args:
            origin: The byte at which the first of the rows begins.
            begin: Where in each row the part begins.
            out: Bytes of the shape (rows, bytes of a part).
        """


class Op(Protocol):
    """A step that makes one tensor of one or several."""

    name: ClassVar[str]

    @property
    def needs(self) -> tuple[str, ...]:
        """Dims that must be known."""

    def inverse(self) -> Op:
        """Return the op that undoes this one; those that take apart and put together undo each other (see exprs)."""

    def shape(self, shapes: Sequence[Shape], dims: Mapping[str, int]) -> Shape:
        """Return the shape of the result from those of its parts.

        Raises:
            CheckpointError: They do not fit.
            KeyError: A dim is not known.
        """

    def apply(self, parts: Sequence[Stream], dims: Mapping[str, int]) -> Stream:
        """Return the result as a stream over its parts."""

    def describe(self, dims: Mapping[str, int]) -> str:
        """Say what happens, for a person."""


def read_any(stream: Stream, start: int, out: Bytes) -> None:
    """Read any byte range of a stream, whatever its unit; a range that fits the unit is read at once."""
    import numpy as np

    total = num_bytes(stream.dtype, math.prod(stream.shape))
    first = start // stream.unit * stream.unit
    last = min(-(-(start + out.nbytes) // stream.unit) * stream.unit, total)
    if first == start and last == start + out.nbytes:
        stream.read_into(start, out)
        return
    scratch = np.empty(last - first, dtype=np.uint8)
    stream.read_into(first, scratch)
    out[:] = scratch[start - first :][: out.nbytes]


@dataclass(slots=True)
class RefStream:
    """A stored tensor as a stream."""

    source: Source
    ref: TensorRef
    dtype: str = field(init=False)
    shape: Shape = field(init=False)
    unit: int = field(init=False, default=1)

    def __post_init__(self) -> None:
        """Copy what the ref says.

        Raises:
            CheckpointError: It is an endless view, which is not read whole.
        """
        self.ref.refuse_endless()
        self.dtype, self.shape = self.ref.dtype, self.ref.shape

    def read_into(self, start: int, out: Bytes) -> None:
        """Read from the source."""
        self.source.read_into(self.ref, start, out.data)


@dataclass(frozen=True, slots=True)
class RopePermute:
    """Reorder the rows of each head between the two rotary conventions.

    Attributes:
        heads: The dim that counts the heads: `heads` for q, `kv_heads` for k.
        to: `halves` (Hugging Face) or `pairs` (Meta, torchtune).
    """

    name: ClassVar[str] = "permute"
    heads: str
    to: str = "halves"

    @property
    def needs(self) -> tuple[str, ...]:
        """The number of heads: it can not be read off the shape."""
        return (self.heads,)

    def inverse(self) -> RopePermute:
        """Return the permutation the other way."""
        return RopePermute(self.heads, "pairs" if self.to == "halves" else "halves")

    def shape(self, shapes: Sequence[Shape], dims: Mapping[str, int]) -> Shape:
        """Rows change places; the shape stays."""
        return shapes[0]

    def check(self, shape: Shape, dims: Mapping[str, int], key: str = "") -> int:
        """Return the rows of one head.

        Raises:
            CheckpointError: The rows are not a whole, even number a head.
        """
        heads = dims[self.heads]
        if not shape or heads < 1 or shape[0] % heads or (shape[0] // heads) % 2:
            rows = shape[0] if shape else 0
            raise CheckpointError(
                "heads-unknown",
                f"{key or 'A tensor'} has {rows} rows, which {heads} {self.heads.replace('_', ' ')} do not divide into "
                "even heads: the head count is wrong.",
                fix="Give the right counts with --heads and --kv-heads, or a config.json.",
                key=key or None,
            )
        return shape[0] // heads

    def apply(self, parts: Sequence[Stream], dims: Mapping[str, int]) -> Stream:
        """Return the permuted tensor; its unit is one head."""
        return _Permuted(parts[0], self.check(parts[0].shape, dims), self.to)

    def describe(self, dims: Mapping[str, int]) -> str:
        """Name the heads and the direction."""
        order = "pairs → halves" if self.to == "halves" else "halves → pairs"
        return f"rotary rows {order}, {dims.get(self.heads, '?')} heads"


class _Permuted:
    """A tensor whose rows change places within each head."""

    def __init__(self, inner: Stream, head_dim: int, to: str) -> None:
        self.inner, self.to, self.head_dim = inner, to, head_dim
        self.dtype, self.shape = inner.dtype, inner.shape
        self.row = math.prod(inner.shape[1:]) * BY_NAME[inner.dtype].bits // 8
        head = head_dim * self.row
        self.unit = max(head if head <= HEAD_LIMIT else self.row, 1)

    def read_into(self, start: int, out: Bytes) -> None:
        if self.unit == self.row and self.head_dim > 1:
            self._read_rows(start // self.row, out)
        else:
            self._read_heads(start, out)

    def _read_rows(self, first: int, out: Bytes) -> None:
        """Fetch each row from where it stands: for heads too large to be held."""
        for i in range(out.nbytes // self.row):
            head, row = divmod(first + i, self.head_dim)
            origin = (head * self.head_dim + self._origin(row)) * self.row
            read_any(self.inner, origin, out[i * self.row :][: self.row])

    def _origin(self, row: int) -> int:
        """Return which stored row of a head becomes this one."""
        half = self.head_dim // 2
        if self.to == "halves":
            which, pair = divmod(row, half)
            return 2 * pair + which
        pair, which = divmod(row, 2)
        return which * half + pair

    def _read_heads(self, start: int, out: Bytes) -> None:
        import numpy as np

        scratch = np.empty_like(out)
        read_any(self.inner, start, scratch)
        half = self.head_dim // 2
        split = (half, 2) if self.to == "halves" else (2, half)
        rows = scratch.reshape(-1, *split, self.row)
        np.copyto(out.reshape(-1, *reversed(split), self.row), rows.transpose(0, 2, 1, 3))


@dataclass(frozen=True, slots=True)
class Cast:
    """Change the element type. The way back need not give the same bits, so a plan never adds it by itself."""

    name: ClassVar[str] = "cast"
    source: str
    target: str

    @property
    def needs(self) -> tuple[str, ...]:
        """Nothing."""
        return ()

    def inverse(self) -> Cast:
        """Return the cast back (exact only if `target` holds every value of `source`)."""
        return Cast(self.target, self.source)

    def shape(self, shapes: Sequence[Shape], dims: Mapping[str, int]) -> Shape:
        """The shape stays."""
        return shapes[0]

    def apply(self, parts: Sequence[Stream], dims: Mapping[str, int]) -> Stream:
        """Return the tensor in the other type."""
        return CastStream(parts[0], self.target)

    def describe(self, dims: Mapping[str, int]) -> str:
        """Name both types."""
        return f"cast {self.source} → {self.target}"


class CastStream:
    """A tensor in another element type; counts the finite values that became infinite."""

    def __init__(self, inner: Stream, target: str) -> None:
        """Cast `inner` to `target`, block by block."""
        self.inner, self.source, self.dtype, self.shape = inner, inner.dtype, target, inner.shape
        self._in, self._out = BY_NAME[inner.dtype].itemsize, BY_NAME[target].itemsize
        self.unit = math.lcm(inner.unit, self._in) // self._in * self._out
        self.overflow = 0

    def read_into(self, start: int, out: Bytes) -> None:
        """Fill `out` with cast bytes."""
        import numpy as np

        from ckpt_gui.core.casts import cast

        in_place = self._in == self._out  # bf16 and fp16
        raw = out if in_place else np.empty(out.nbytes // self._out * self._in, dtype=np.uint8)
        read_any(self.inner, start // self._out * self._in, raw)
        self.overflow += cast(raw, self.source, self.dtype, out)[1]
