"""The true values of a part of a tensor, read on demand: only the bytes of the part, however large the tensor is.

An index is written as in Python: `[0:8, :16]`, `[-1]`, `[..., 5]`. Where a scheme of quantised weights is known by the
tensors beside it, codes are shown as the weights that they stand for.
"""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from ckpt_gui.core.dtypes import BY_NAME
from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.packed import packed
from ckpt_gui.core.slices import Index, parse_index, read_part
from ckpt_gui.core.source import Source
from ckpt_gui.core.stats import no_figures
from ckpt_gui.core.tensors import TensorRef
from ckpt_gui.dataclasses import dataclass

__all__ = ["MOST", "Index", "Values", "parse_index", "read_values", "shape_of"]

MOST = 100_000  # elements at once


@dataclass(frozen=True, slots=True, eq=False)
class Values:
    """A part of a tensor.

    Attributes:
        key: The tensor's name in the file.
        dtype: Its element type.
        shape: Its sizes; of one that was decoded, those of its numbers.
        index: Which part this is.
        array: The values, of the part's shape: fp64, whole numbers for integers and bools, complex for complex types.
        note: How they were decoded, where that is not plain; else empty.
    """

    key: str
    dtype: str
    shape: tuple[int, ...]
    index: Index
    array: NDArray[Any]
    note: str = ""


def read_values(source: Source, ref: TensorRef, index: str | Index, *, most: int = MOST, plain: bool = False) -> Values:
    """Return the values of a part of a tensor.

    Args:
        source: The opened checkpoint.
        ref: One of its tensors.
        index: Which part; of a quantised tensor that is decoded, by its shape in numbers (`shape_of`).
        most: Elements that may be read at once.
        plain: True to have the codes of a quantised tensor as they are.

    Raises:
        CheckpointError: The index is none, asks for too much, or the bytes can not be read; or the type has no values.
    """
    view = None if plain else packed(source, ref)
    shape = ref.shape if view is None else view.shape
    part = parse_index(index, shape) if isinstance(index, str) else index
    if BY_NAME[ref.dtype].kind != "complex" and (reason := no_figures(ref.dtype)):
        raise CheckpointError("bad-index", reason, key=ref.key)
    if part.numel > most:
        text = f"{part} holds {part.numel:,} elements; at most {most:,} are shown at once."
        raise CheckpointError("limit-exceeded", text, fix="Ask for a smaller part.", key=ref.key)
    array = (read_part(source, ref, part) if view is None else view.read(part)).reshape(part.shape)
    return Values(ref.key, ref.dtype, shape, part, array, view.note if view else "")


def shape_of(source: Source, ref: TensorRef) -> tuple[int, ...]:
    """Return the shape of a tensor in numbers: of a quantised one that can be decoded, that of its numbers."""
    view = packed(source, ref)
    return ref.shape if view is None else view.shape
