"""Tensors that are put together from parts: boxes of a tensor, or runs of a flat row.

Nothing is copied before it is read.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from ckpt_gui.core.dtypes import BY_NAME
from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.formats.checked import Checked, HasChecksums
from ckpt_gui.core.formats.strided import read_strided
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.source import Reader
from ckpt_gui.core.strides import contiguous_strides
from ckpt_gui.core.tensors import TensorRef, check_window

if TYPE_CHECKING:
    import numpy as np

MAX_PAIRS = 1 << 18


class Piece(Protocol):
    """Bytes of a part, row by row."""

    def read_into(self, start: int, out: memoryview) -> None:
        """Fill `out` with bytes of the part from `start` on."""


class Closing(Protocol):
    """A file or a reader that is held open."""

    def close(self) -> None:
        """Let go of it."""


class RefPiece(NamedTuple):
    """A tensor of another file as a part.

    Attributes:
        reader: Reads it.
        ref: The tensor.
        first: Its first byte that counts.
    """

    reader: Reader
    ref: TensorRef
    first: int = 0

    def read_into(self, start: int, out: memoryview) -> None:
        """Fill `out` with bytes of the part from `start` on."""
        self.reader.read_into(self.ref, self.first + start, out)


class Box(NamedTuple):
    """A part of a tensor.

    Attributes:
        offsets: Where it begins, by dimension.
        sizes: Its shape.
        piece: Its bytes.
    """

    offsets: tuple[int, ...]
    sizes: tuple[int, ...]
    piece: Piece


class Run(NamedTuple):
    """A part of a tensor laid out row by row.

    Attributes:
        nbytes: How long it is.
        piece: Its bytes.
    """

    nbytes: int
    piece: Piece


class AssembledReader:
    """Reads tensors that are put together from parts, by the storage names of their refs."""

    def __init__(
        self,
        files: Iterable[Closing],
        boxes: Mapping[str, Sequence[Box]],
        runs: Mapping[str, Sequence[Run]] | None = None,
    ) -> None:
        """Keep the parts, and the files to be closed at the end."""
        self._files = tuple(files)
        self._boxes, self._runs = boxes, runs or {}

    def read_into(self, ref: TensorRef, start: int, out: memoryview) -> None:
        """Fill `out` with bytes of a tensor; see `tensors.Reader`."""
        check_window(ref, start, len(out))
        if not len(out):
            return
        if ref.storage in self._runs:
            _read_runs(self._runs[ref.storage], start, out)
        else:
            _read_boxes(self._boxes[ref.storage], ref, start, out)

    def checked(self) -> Iterator[Checked]:
        """Yield what has a checksum in the files and parts."""
        for file in self._files:
            if isinstance(file, HasChecksums):
                yield from (run._replace(storage=None) for run in file.checked())
        for storage, boxes in self._boxes.items():
            for box in boxes:
                if isinstance(box.piece, HasChecksums):
                    for run in box.piece.checked():
                        yield run._replace(storage=storage)

    def used(self, storages: Iterable[str]) -> Iterator[Checked]:
        """Yield what has a checksum of the parts that some tensors are put together from, each once."""
        tables: dict[int, dict[str | None, Checked]] = {}
        for storage in storages:
            pieces = [box.piece for box in self._boxes.get(storage, ())]
            pieces += [run.piece for run in self._runs.get(storage, ())]
            for piece in pieces:
                if not isinstance(piece, RefPiece):
                    yield from piece.checked() if isinstance(piece, HasChecksums) else ()
                    continue
                reader, key = piece.reader, piece.ref.storage
                if id(reader) not in tables:
                    checked = reader.checked() if isinstance(reader, HasChecksums) else ()
                    tables[id(reader)] = {run.storage: run for run in checked}
                found = tables[id(reader)].pop(key, None)
                if found is not None:
                    yield found

    def check_unchanged(self) -> None:
        """Raise if a file is not as it was when it was opened."""
        for file in self._files:
            check = getattr(file, "check_unchanged", None)
            if check is not None:
                check()

    def close(self) -> None:
        """Close the files."""
        for file in self._files:
            file.close()


def _read_runs(runs: Sequence[Run], start: int, out: memoryview) -> None:
    at = done = 0
    for run in runs:
        if done == len(out):
            return
        within = start + done - at
        if within < run.nbytes:
            count = min(run.nbytes - within, len(out) - done)
            run.piece.read_into(within, out[done : done + count])
            done += count
        at += run.nbytes


def _read_boxes(boxes: Sequence[Box], ref: TensorRef, start: int, out: memoryview) -> None:
    import numpy as np

    itemsize = BY_NAME[ref.dtype].itemsize
    first, last = start // itemsize, -(-(start + len(out)) // itemsize)
    flat = np.empty((last - first) * itemsize, dtype=np.uint8)
    elements = flat.view(np.dtype((np.void, itemsize)))
    done = 0
    for low, sizes in split_rows(ref.shape, first, last - first):
        count = math.prod(sizes)
        block = elements[done : done + count].reshape(sizes)
        for box in boxes:
            _copy_common(box, low, sizes, block)
        done += count
    skip = start - first * itemsize
    out[:] = flat.data[skip : skip + len(out)]


def split_rows(shape: tuple[int, ...], first: int, count: int) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Yield the boxes that a run of elements covers, in order: their first corner and their sizes.

    >>> list(split_rows((3, 4), 2, 8))
    [((0, 2), (1, 2)), ((1, 0), (1, 4)), ((2, 0), (1, 2))]
    """
    if not shape:
        yield (), ()
        return
    row = math.prod(shape[1:])
    done = 0
    while done < count:
        index, within = divmod(first + done, row)
        if within or count - done < row:
            part = min(row - within, count - done)
            for low, sizes in split_rows(shape[1:], within, part):
                yield (index, *low), (1, *sizes)
        else:
            part = (count - done) // row * row
            yield (index, *[0] * (len(shape) - 1)), (part // row, *shape[1:])
        done += part


def _copy_common(box: Box, low: tuple[int, ...], sizes: tuple[int, ...], block: np.ndarray[Any, Any]) -> None:
    """Copy what a box and a block have in common."""
    import numpy as np

    begins = [max(a, b) for a, b in zip(box.offsets, low, strict=True)]
    ends = [min(a + n, b + m) for a, n, b, m in zip(box.offsets, box.sizes, low, sizes, strict=True)]
    common = [end - begin for begin, end in zip(begins, ends, strict=True)]
    if any(size <= 0 for size in common):
        return
    strides = contiguous_strides(box.sizes)
    steps = zip(begins, box.offsets, strides, strict=True)
    base = sum((begin - offset) * stride for begin, offset, stride in steps) * block.itemsize
    data = np.empty(common, dtype=block.dtype)

    def read(offset: int, buffer: memoryview) -> None:
        box.piece.read_into(base + offset, buffer)

    read_strided(read, common, strides, block.itemsize, 0, data.reshape(-1).view(np.uint8).data)
    block[tuple(slice(b - o, e - o) for b, e, o in zip(begins, ends, low, strict=True))] = data


def check_boxes(key: str, shape: tuple[int, ...], boxes: Sequence[tuple[tuple[int, ...], tuple[int, ...]]]) -> None:
    """Raise unless boxes (offsets, sizes) cover a shape, each element once.

    Raises:
        CheckpointError: `damaged` or `limit-exceeded`.
    """
    filled = [box for box in boxes if 0 not in box[1]]
    for offsets, sizes in boxes:
        if len(offsets) != len(shape) or len(sizes) != len(shape):
            raise _bad(key, "has a part of another number of dimensions")
        if any(o < 0 or n < 0 or o + n > s for o, n, s in zip(offsets, sizes, shape, strict=True)):
            raise _bad(key, f"has a part of shape {list(sizes)} at {list(offsets)}, outside its shape {list(shape)}")
    if sum(math.prod(sizes) for _, sizes in filled) != math.prod(shape):
        raise _bad(key, f"is not covered by its {len(boxes):,} parts")
    if is_grid(shape, boxes):
        return
    if len(filled) ** 2 > MAX_PAIRS:
        raise _bad(key, f"has {len(boxes):,} parts in several dimensions, too many to be checked", "limit-exceeded")
    if any(_meet(a, b) for i, a in enumerate(filled) for b in filled[:i]):
        raise _bad(key, "has parts that overlap")


def is_grid(shape: tuple[int, ...], boxes: Sequence[tuple[tuple[int, ...], tuple[int, ...]]]) -> bool:
    """True if parts are the cells of a grid that covers a shape: the usual case, and quickly checked."""
    filled = [box for box in boxes if 0 not in box[1]]
    if any(len(offsets) != len(shape) or len(sizes) != len(shape) for offsets, sizes in filled):
        return False
    if not filled:  # a tensor without elements
        return 0 in shape
    cells = 1
    for d, size in enumerate(shape):
        starts = sorted({offsets[d] for offsets, _ in filled})
        ends = dict(zip(starts, [*starts[1:], size], strict=True))
        if starts[:1] != [0] or any(offsets[d] + sizes[d] != ends[offsets[d]] for offsets, sizes in filled):
            return False
        cells *= len(starts)
    return len(filled) == cells == len({offsets for offsets, _ in filled})


def _meet(a: tuple[tuple[int, ...], tuple[int, ...]], b: tuple[tuple[int, ...], tuple[int, ...]]) -> bool:
    pairs = zip(a[0], a[1], b[0], b[1], strict=True)
    return all(x < y + m and y < x + n for x, n, y, m in pairs)


def _bad(key: str, what: str, code: str = "damaged") -> CheckpointError:
    return CheckpointError(code, f"Tensor `{safe_text(key)}` {what}.", key=key)
