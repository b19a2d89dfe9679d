"""Ops that put an adapter into a tensor: W + scale · B · A, by rows; and what is added to a bias.

The product is added up in fp32 and rounded once, to the weight's own type. Both factors of an adapter are small and
held; the weight passes by row after row, so a matrix of any size needs the memory of the rows in work. There is no way
back: rounding has taken what would be needed. Sources: peft 0.15 `tuners/lora/layer.py`, `dora.py`; torchtune 0.6.1
`modules/peft/dora.py`.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from ckpt_gui.core.dtypes import BY_NAME, CASTABLE, num_bytes
from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.ops import Bytes, Shape, Stream, read_any
from ckpt_gui.dataclasses import dataclass

if TYPE_CHECKING:
    from numpy.typing import NDArray

_HELD = 64 << 20  # bytes of B in fp32 that are held; of a larger one the rows are read beside those of the weight
_BLAS = threading.Lock()  # the matrix product uses every core by itself: one worker at a time


@dataclass(frozen=True, slots=True)
class MergeLora:
    """Add a low-rank product to a weight; with DoRA, give each row of the sum its trained length.

    The parts are the weight (out × in), A (rank × in), B (out × rank), and for DoRA the lengths (out).

    Attributes:
        scale: What the product is multiplied by.
        dora: True if the parts have the lengths of the rows.
    """

    name: ClassVar[str] = "merge"
    scale: float
    dora: bool = False

    @property
    def needs(self) -> tuple[str, ...]:
        """Nothing."""
        return ()

    def inverse(self) -> MergeLora:
        """Return itself: nothing undoes it."""
        return self

    def shape(self, shapes: Sequence[Shape], dims: Mapping[str, int]) -> Shape:
        """Return the weight's shape.

        Raises:
            CheckpointError: The parts do not fit together.
        """
        weight, a, b, *rest = shapes
        rank = a[0] if a else 0
        if weight != (*b[:1], *a[1:]) or b[1:] != (rank,) or rest != ([weight[:1]] if self.dora else []):
            text = f"An adapter of the shapes {a} and {b} does not fit a weight of the shape {weight}."
            raise CheckpointError("shape-mismatch", text)
        return weight

    def apply(self, parts: Sequence[Stream], dims: Mapping[str, int]) -> Stream:
        """Return the merged weight as a stream; its unit is one row."""
        self.shape([p.shape for p in parts], dims)
        return _Merged(parts, self.scale, self.dora)

    def describe(self, dims: Mapping[str, int]) -> str:
        """Say what happens, for a person."""
        product = f"plus {self.scale:g} · B · A"
        return f"{product}, rows to their trained length (DoRA)" if self.dora else product


class _Merged:
    """A weight with its adapter, row by row; counts the finite values that became infinite."""

    def __init__(self, parts: Sequence[Stream], scale: float, dora: bool) -> None:
        self.weight, self.a, self.b = parts[:3]
        self.lengths = parts[3] if dora else None
        self.scale, self.dtype, self.shape = scale, self.weight.dtype, self.weight.shape
        for part in parts:
            if part.dtype not in CASTABLE:
                raise CheckpointError("quantised", f"An adapter can not be merged into or from the type {part.dtype}.")
        self.row = self.shape[1] * BY_NAME[self.dtype].itemsize
        self.unit = max(self.row, 1)
        self.overflow = 0
        self._held: dict[int, NDArray[Any]] = {}

    def read_into(self, start: int, out: Bytes) -> None:
        import numpy as np

        from ckpt_gui.core.casts import cast

        kind = "fp64" if self.dtype == "fp64" else "fp32"
        first, rows = start // self.unit, out.nbytes // self.unit
        weight = _rows(self.weight, first, rows, kind)
        a, b = self._all(self.a, kind), self._some(self.b, first, rows, kind)
        with np.errstate(all="ignore"):
            with _BLAS:
                merged = b @ a
            merged *= merged.dtype.type(self.scale)
            merged += weight
            if self.lengths is not None:
                norm = np.sqrt(np.einsum("ij,ij->i", merged, merged))
                merged *= (self._some(self.lengths, first, rows, kind) / norm)[:, None]
        out[:], overflow = cast(merged.reshape(-1).view(np.uint8), kind, self.dtype)
        self.overflow += overflow

    def _all(self, stream: Stream, kind: str) -> NDArray[Any]:
        held = self._held.get(id(stream))
        if held is None:
            held = self._held[id(stream)] = _rows(stream, 0, stream.shape[0], kind)
        return held

    def _some(self, stream: Stream, first: int, rows: int, kind: str) -> NDArray[Any]:
        if num_bytes("fp32", math.prod(stream.shape)) <= _HELD:
            return self._all(stream, kind)[first : first + rows]
        return _rows(stream, first, rows, kind)


def _rows(stream: Stream, first: int, rows: int, kind: str) -> NDArray[Any]:
    """Return rows of a tensor as values of the type in which is reckoned."""
    import numpy as np

    from ckpt_gui.core.casts import as_float

    row = num_bytes(stream.dtype, math.prod(stream.shape[1:]))
    raw = np.empty(rows * row, dtype=np.uint8)
    read_any(stream, first * row, raw)
    values = as_float(raw, stream.dtype).astype(np.float64 if kind == "fp64" else np.float32, copy=False)
    return values.reshape(rows, *stream.shape[1:])


@dataclass(frozen=True, slots=True)
class MergeBias:
    """Add what an adapter learnt to a bias, scaled as the product is.

    So PEFT reckons while it trains; its own merge (peft 0.15 `tuners/lora/layer.py`) leaves the scale out.

    Attributes:
        scale: What the adapter's part is multiplied by.
    """

    name: ClassVar[str] = "merge"
    scale: float

    @property
    def needs(self) -> tuple[str, ...]:
        """Nothing."""
        return ()

    def inverse(self) -> MergeBias:
        """Return itself: nothing undoes it."""
        return self

    def shape(self, shapes: Sequence[Shape], dims: Mapping[str, int]) -> Shape:
        """Return the bias's shape.

        Raises:
            CheckpointError: The two are not equally long.
        """
        if shapes[0] != shapes[1]:
            raise CheckpointError("shape-mismatch", f"A bias of {shapes[1]} does not fit one of {shapes[0]}.")
        return shapes[0]

    def apply(self, parts: Sequence[Stream], dims: Mapping[str, int]) -> Stream:
        """Return the sum as a stream."""
        self.shape([p.shape for p in parts], dims)
        return _Sum(parts, self.scale)

    def describe(self, dims: Mapping[str, int]) -> str:
        """Say what happens, for a person."""
        return f"plus {self.scale:g} · the adapter's bias"


class _Sum:
    """A bias and what is added to it, number by number; counts the finite values that became infinite."""

    def __init__(self, parts: Sequence[Stream], scale: float) -> None:
        self.bias, self.added = parts
        self.scale, self.dtype, self.shape = scale, self.bias.dtype, self.bias.shape
        self.unit = BY_NAME[self.dtype].itemsize
        self.overflow = 0

    def read_into(self, start: int, out: Bytes) -> None:
        import numpy as np

        from ckpt_gui.core.casts import cast

        kind = "fp64" if self.dtype == "fp64" else "fp32"
        first, count = start // self.unit, out.nbytes // self.unit
        total = _rows(self.added, first, count, kind)
        with np.errstate(all="ignore"):
            total = total * total.dtype.type(self.scale) + _rows(self.bias, first, count, kind)
        out[:], overflow = cast(total.view(np.uint8), kind, self.dtype)
        self.overflow += overflow
