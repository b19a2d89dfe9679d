"""Parts of tensors: an index as Python writes it, and the elements that it means, read without the rest."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ckpt_gui.core.dtypes import BY_NAME
from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.source import Source
from ckpt_gui.core.stats import decode
from ckpt_gui.core.tensors import TensorRef
from ckpt_gui.dataclasses import dataclass

MOST_READ = 64 << 20  # bytes at once, where elements lie far apart in a row
_PART = re.compile(r"\s*(-?\d{1,18})?\s*(?:(:)\s*(-?\d{1,18})?\s*(?:(:)\s*(\d{1,18})?\s*)?)?")


@dataclass(frozen=True, slots=True)
class Index:
    """Which part of a tensor is meant.

    Attributes:
        axes: For each dimension the positions wanted, ascending.
        kept: For each dimension whether it stays (a range) or goes (a single number).
    """

    axes: tuple[range, ...]
    kept: tuple[bool, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the part, single numbers left out."""
        return tuple(len(axis) for axis, kept in zip(self.axes, self.kept, strict=True) if kept)

    @property
    def numel(self) -> int:
        """Elements of the part."""
        return math.prod(len(axis) for axis in self.axes)

    def __str__(self) -> str:
        """Return the index as it would be written, every bound given."""
        parts = (_written(axis) if kept else str(axis[0]) for axis, kept in zip(self.axes, self.kept, strict=True))
        return f"[{', '.join(parts)}]"


def parse_index(text: str, shape: tuple[int, ...]) -> Index:
    """Return the part of a tensor that a text means; dimensions that it does not name are taken whole.

    Raises:
        CheckpointError: It is no index, or lies outside the shape.
    """
    inner = text.strip()
    inner = inner[1:-1] if inner.startswith("[") and inner.endswith("]") else inner
    parts = [part.strip() for part in inner.split(",")] if inner.strip() else []
    if parts.count("...") > 1 or len(parts) - parts.count("...") > len(shape):
        raise _bad(text, f"has more parts than the tensor's {len(shape)} dimensions")
    at = parts.index("...") if "..." in parts else len(parts)
    missing = len(shape) - (len(parts) - parts.count("..."))
    whole = [*parts[:at], *[":"] * missing, *parts[at + 1 :]]
    read = [_axis(text, part, size) for part, size in zip(whole, shape, strict=True)]
    return Index(tuple(axis for axis, _ in read), tuple(kept for _, kept in read))


def _axis(text: str, part: str, size: int) -> tuple[range, bool]:
    match = _PART.fullmatch(part)
    if match is None or not part:
        raise _bad(text, f"has the part `{safe_text(part, 40)}`, which is no number and no range")
    first, colon, last, _, step = match.groups()
    if colon:
        if step == "0":
            raise _bad(text, "has a step of 0")
        found = range(*slice(*(None if n is None else int(n) for n in (first, last, step))).indices(size))
        return found, True
    number = int(first)
    if not -size <= number < size:
        raise _bad(text, f"asks for {number} of a dimension of {size:,}")
    return range(number % size, number % size + 1), False


def _bad(text: str, why: str) -> CheckpointError:
    message = f"The index `{safe_text(text, 80)}` {why}."
    return CheckpointError("bad-index", message, fix="Write it as in Python: [0:8, :16] or [..., 5].")


def _written(axis: range) -> str:
    return f"{axis.start}:{axis.stop}" + (f":{axis.step}" if axis.step != 1 else "")


def read_part(source: Source, ref: TensorRef, part: Index) -> NDArray[Any]:
    """Return the values of a part as one row, in row-major order."""
    spans = list(_spans(ref, part))
    bits = BY_NAME[ref.dtype].bits
    if sum((stop - start) * bits // 8 for start, stop, _ in spans) > MOST_READ:
        text = f"The elements of {part} lie so far apart that more than {MOST_READ >> 20} MiB would have to be read."
        raise CheckpointError("limit-exceeded", text, fix="Ask for fewer rows, or without a step.", key=ref.key)
    pieces = [_values_of(source, ref, start, stop)[::step] for start, stop, step in spans]
    return np.concatenate(pieces) if pieces else np.zeros(0)


def _spans(ref: TensorRef, part: Index) -> Iterator[tuple[int, int, int]]:
    """Yield (first element, the one after the last, step) of runs of elements that are read together."""
    if not part.numel:
        return
    dims = len(ref.shape)
    while dims and part.axes[dims - 1] == range(ref.shape[dims - 1]):  # whole dimensions at the end are one run
        dims -= 1
    run = math.prod(ref.shape[dims:])
    if not dims:
        yield 0, run, 1
        return
    *outer, last = part.axes[:dims]
    for corner in np.ndindex(*(len(axis) for axis in outer)):
        row = 0
        for axis, at, size in zip(outer, corner, ref.shape, strict=False):
            row = row * size + axis[at]
        base = row * ref.shape[dims - 1]
        if run == 1 or last.step == 1:
            yield (base + last[0]) * run, (base + last[-1] + 1) * run, last.step if run == 1 else 1
        else:
            yield from (((base + at) * run, (base + at + 1) * run, 1) for at in last)


def _values_of(source: Source, ref: TensorRef, start: int, stop: int) -> NDArray[Any]:
    """Return the values of a run of elements."""
    kind = BY_NAME[ref.dtype]
    begin, end = start * kind.bits // 8, -(-stop * kind.bits // 8)
    raw = np.empty(end - begin, dtype=np.uint8)
    source.read_into(ref, begin, raw.data)
    if kind.kind in ("int", "bool", "complex"):
        return raw.view(kind.numpy)
    values = decode(raw, ref.dtype)
    skip = start - begin * 8 // kind.bits
    return values[skip : skip + stop - start]
