"""How files are filled: what lies where in each, and how much of it the disk really keeps."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Protocol, runtime_checkable

from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.source import Source
from ckpt_gui.core.tensors import TensorRef
from ckpt_gui.dataclasses import dataclass

ALIGNED = 4096  # no alignment above that is told


@dataclass(frozen=True, slots=True)
class FileUse:
    """How a file is filled.

    Attributes:
        name: Relative to the source.
        size: Bytes that it seems to have.
        on_disk: Bytes that it takes on the disk: fewer where it has holes or is compressed; None where nobody tells.
        tensors: Tensors in it.
        nbytes: Their bytes, shared ones once.
    """

    name: str
    size: int
    on_disk: int | None
    tensors: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class ByteRange:
    """A run of bytes of a file.

    Attributes:
        begin: First byte.
        end: The byte after the last.
        kind: `tensor`, `header` (what stands before the first tensor) or `gap`.
        keys: The tensors that lie there; empty for others.
        aligned: The largest power of two that divides `begin`, at most `ALIGNED`.
    """

    begin: int
    end: int
    kind: str
    keys: tuple[str, ...] = ()
    aligned: int = 1


def file_uses(source: Source) -> tuple[FileUse, ...]:
    """Return how each file of a source is filled, by its headers and by what the disk says of it."""
    places: dict[str, dict[tuple[object, ...], int]] = {file.name: {} for file in source.files}
    counts = dict.fromkeys(places, 0)
    for ref in source.refs:
        if ref.file in places:
            counts[ref.file] += 1
            places[ref.file][ref.place] = ref.nbytes
    return tuple(
        FileUse(file.name, file.size, _on_disk(file.path), counts[file.name], sum(places[file.name].values()))
        for file in source.files
    )


def _on_disk(path: str) -> int | None:
    """Return the bytes that the disk keeps of a file; None where the system does not say."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return 512 * found.st_blocks if hasattr(found, "st_blocks") else None  # POSIX only


@runtime_checkable
class HasRegions(Protocol):
    """A reader that knows where tensors lie in its file."""

    def region(self, ref: TensorRef) -> tuple[int, int]:
        """Return offset and length of a tensor that is one run of bytes.

        Raises:
            CheckpointError: It is none.
        """


def byte_map(source: Source, name: str) -> tuple[ByteRange, ...]:
    """Return what lies where in a file, from its first byte to its last.

    Args:
        source: The opened checkpoint.
        name: One of its files.

    Returns:
        Runs in order; empty where the container does not tell. Tensors that are not one run of bytes lie in gaps.
    """
    size = next(file.size for file in source.files if file.name == name)
    reader: object = source.readers.get(name)
    if not isinstance(reader, HasRegions):
        return ()
    keys: dict[tuple[int, int], list[str]] = {}
    for ref in source.refs:
        if ref.file == name and ref.nbytes:
            try:
                begin, length = reader.region(ref)
            except CheckpointError:  # a strided or packed one
                continue
            keys.setdefault((begin, begin + length), []).append(ref.full_key)
    return tuple(_filled(sorted(keys.items()), size))


def _filled(tensors: Iterable[tuple[tuple[int, int], list[str]]], size: int) -> Iterator[ByteRange]:
    at = 0
    for (begin, end), keys in tensors:
        if begin > at:
            yield ByteRange(at, begin, "gap" if at else "header", (), _alignment(at))
        yield ByteRange(begin, end, "tensor", tuple(keys), _alignment(begin))
        at = max(at, end)
    if at < size:
        yield ByteRange(at, size, "gap" if at else "header", (), _alignment(at))


def _alignment(offset: int) -> int:
    """Return the largest power of two that divides an offset, within reason.

    >>> _alignment(192), _alignment(0)
    (64, 4096)
    """
    return min(offset & -offset, ALIGNED) if offset else ALIGNED
