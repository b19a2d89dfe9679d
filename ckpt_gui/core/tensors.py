"""Stored tensors: what a file says about each, and how its bytes are read.

A `TensorRef` is one stored tensor: a description, no data. A `Source` is an opened checkpoint: refs in file order,
everything else the files hold as inert values, and a way to read bytes. Opening reads headers only.

Reading goes through `pread` on held descriptors and never through a memory map: a file that shrinks under a map kills
the process, while a short `pread` is an error that can be told (see README, "Reading files").
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Any, Protocol, runtime_checkable

from ckpt_gui import dataclasses
from ckpt_gui.core.beside import Extra, Sidecars
from ckpt_gui.core.bulk import column, tally
from ckpt_gui.core.dtypes import num_bytes
from ckpt_gui.core.errors import CheckpointError, Finding
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.remote.address import is_url
from ckpt_gui.dataclasses import dataclass, field

DISK_BLOCK = 4096  # bytes of a block that files can share
ENDLESS = 1 << 30  # bytes from which a view may be an endless one
_KEY, _SECTION = attrgetter("key"), attrgetter("section")
_FORM = attrgetter("dtype", "shape")


@lru_cache(maxsize=4096)  # few types and shapes, however many tensors there are
def _bytes_of(dtype: str, shape: tuple[int, ...]) -> int:
    return num_bytes(dtype, math.prod(shape))


class _Sized:
    """What follows from an element type and a shape."""

    __slots__ = ()
    dtype: str
    shape: tuple[int, ...]

    @property
    def numel(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of the tensor stored row by row."""
        return _bytes_of(self.dtype, self.shape)


@dataclass(frozen=True, slots=True)
class TensorSpec(_Sized):
    """What a tensor is: key, element type, shape."""

    key: str
    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TensorRef(_Sized):
    """One stored tensor of a source.

    Attributes:
        key: The name inside its section, as the file has it.
        dtype: Short name of the element type.
        shape: Sizes, outermost first.
        section: Names of the nested dicts that hold it, outermost first; empty at the top.
        file: The file that holds its bytes, relative to the source's root; empty in memory.
        storage: Names the bytes: two refs with equal (file, storage) share them.
        offset: Where the first element lies in the storage, in bytes.
        strides: Element strides; None where the tensor lies row by row without gaps.
    """

    key: str
    dtype: str
    shape: tuple[int, ...]
    section: tuple[str, ...] = ()
    file: str = ""
    storage: str = ""
    offset: int = 0
    strides: tuple[int, ...] | None = None

    @property
    def path(self) -> tuple[str, ...]:
        """Section and key."""
        return (*self.section, self.key)

    @property
    def full_key(self) -> str:
        """Section and key joined by dots: for display only, not unique in every file."""
        return ".".join(self.path) if self.section else self.key

    @property
    def stored_nbytes(self) -> int:
        """Bytes of the tensor where what strides of 0 repeat counts once."""
        repeats = math.prod(size for size, stride in zip(self.shape, self.strides or (), strict=False) if stride == 0)
        return self.nbytes // max(repeats, 1)

    @property
    def is_endless(self) -> bool:
        """True for a few stored numbers that strides of 0 repeat without end: never to be read or written whole."""
        return self.strides is not None and self.nbytes > max(ENDLESS, 64 * self.stored_nbytes)

    def refuse_endless(self) -> None:
        """Raise if the tensor is not to be read whole.

        Raises:
            CheckpointError: `limit-exceeded`.
        """
        if self.is_endless:
            raise CheckpointError(
                "limit-exceeded",
                f"`{safe_text(self.full_key, 120)}` is not read whole: {self.endless_text()}.",
                key=self.full_key,
            )

    def endless_text(self) -> str:
        """Say what an endless view is."""
        stored = self.stored_nbytes * self.numel // max(self.nbytes, 1)
        return f"it is an expanded view of {max(stored, 1):,} stored elements, which would take {self.nbytes:,} bytes"

    @property
    def place(self) -> tuple[object, ...]:
        """Equal for two refs exactly when they are the same elements of the same storage."""
        return (self.file, self.storage, self.offset, self.dtype, self.shape, self.strides)


@dataclass(frozen=True, slots=True)
class Blocks:
    """How the numbers of a quantised tensor are packed: its ref counts bytes, a block of which is some numbers.

    Attributes:
        kind: Name of the block type, such as `Q4_K`.
        numel: Numbers in a block.
        nbytes: Bytes of a block.
    """

    kind: str
    numel: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file of a source, with the identity it had when it was opened.

    Attributes:
        name: Relative to the source's root.
        path: Where it is.
        size: Bytes.
        identity: Device, inode, size, mtime_ns, ctime_ns; empty where there is no such thing.
    """

    name: str
    path: str
    size: int
    identity: tuple[int, ...] = ()


@runtime_checkable
class Reader(Protocol):
    """Reads the bytes of the refs of one file (or of memory)."""

    def read_into(self, ref: TensorRef, start: int, out: memoryview) -> None:
        """Fill `out` with the bytes [start, start + len(out)) of the tensor in row-major order.

        Raises:
            CheckpointError: The file ended early, changed, or cannot be read.
        """

    def close(self) -> None:
        """Let go of the file."""


@runtime_checkable
class HasHoles(Protocol):
    """A reader that knows where its file was never written to."""

    def next_data(self, ref: TensorRef, start: int) -> int:
        """Return the first place in a tensor, from byte `start` on, that may hold anything but zeros.

        Raises:
            CheckpointError: The file shrank or cannot be read.
        """


@runtime_checkable
class HasRuns(Protocol):
    """A reader of tensors that lie in a local file as they are, which the system can copy from file to file."""

    def run_of(self, ref: TensorRef) -> tuple[Run, int] | None:
        """Return the file and where in it a tensor begins; None if it is not one run of bytes as it is."""


@lru_cache(maxsize=64)  # asked for each tensor; Python looks through a protocol for 10 µs each time
def _has_runs(kind: type) -> bool:
    return issubclass(kind, HasRuns)


class Run(Protocol):
    """A file whose bytes can be read past the end of a tensor, and copied by the system."""

    def pread_into(self, offset: int, out: memoryview) -> None:
        """Fill `out` with the bytes from `offset` on.

        Raises:
            CheckpointError: The file ended early, changed, or cannot be read.
        """

    def copy_to(self, offset: int, count: int, fd: int, place: int) -> int:
        """Copy bytes to `place` of another file; return how many were, 0 where the system does no such thing."""

    def clone_to(self, offset: int, count: int, fd: int, place: int) -> bool:
        """Let another file share the room of whole blocks; False where the file system can not."""


@dataclass(frozen=True, slots=True)
class Source:
    """An opened checkpoint.

    Attributes:
        path: What was opened, as text.
        container: `safetensors`, `torch-zip`, `memory`, ….
        refs: Every stored tensor, in file order.
        files: The files that hold them.
        tree: The nested values of a torch file with `TensorRef` leaves; None for flat containers.
        metadata: String metadata of the container (`__metadata__` of safetensors).
        extras: Values that are not tensors.
        problems: Findings made while opening.
        sidecars: Config, params and tokenizer files found beside it.
        readers: One reader a file name.
        checksums: Size and CRC-32 of a whole storage by (file, storage) where the container keeps one.
        taken: The file by which one of several models in a folder was chosen; empty where there was no choice.
        assigned: Which file holds each tensor, by its full key, as the index of a folder says; empty without one.
        config: What the container itself says of the model, in the terms of config.json (GGUF); None for all others.
        blocks: How quantised tensors that can be decoded are packed, by key (GGUF).
        ranks: Files that each hold one rank's slices of the same tensors (tensor parallelism), in order; a rank whose
            file is missing is an empty name. Empty for all others.
    """

    path: str
    container: str
    refs: tuple[TensorRef, ...]
    files: tuple[SourceFile, ...] = ()
    tree: Any = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    extras: tuple[Extra, ...] = ()
    problems: tuple[Finding, ...] = ()
    sidecars: Sidecars = field(default_factory=Sidecars)
    readers: Mapping[str, Reader] = field(default_factory=dict, repr=False, compare=False)
    checksums: Mapping[tuple[str, str], tuple[int, int]] = field(default_factory=dict, repr=False, compare=False)
    taken: str = ""
    assigned: Mapping[str, str] = field(default_factory=dict)
    config: Mapping[str, Any] | None = None
    blocks: Mapping[str, Blocks] = field(default_factory=dict)
    ranks: tuple[str, ...] = ()

    def read_into(self, ref: TensorRef, start: int, out: memoryview) -> None:
        """Fill `out` with the bytes [start, start + len(out)) of a tensor in row-major order.

        Raises:
            CheckpointError: As `Reader.read_into`.
        """
        self.readers[ref.file].read_into(ref, start, out)

    def next_data(self, ref: TensorRef, start: int) -> int:
        """Return the first place from byte `start` on that may hold anything but zeros; `start` if nobody knows.

        Raises:
            CheckpointError: As `HasHoles.next_data`.
        """
        reader = self.readers[ref.file]
        return reader.next_data(ref, start) if isinstance(reader, HasHoles) else start

    def place_of(self, ref: TensorRef) -> int | None:
        """Return where in its file a tensor begins; None if it does not lie there as it is, or nobody knows.

        Raises:
            CheckpointError: The file cannot be read.
        """
        run = self.run_of(ref)
        return run[1] if run else None

    def clone_run(self, ref: TensorRef, fd: int, place: int) -> int:
        """Let another file share the room of a tensor; return its bytes, 0 where the file system can not.

        Its first and last bytes, which do not fill a block of the disk, are copied.
        """
        run = self.run_of(ref)
        if run is None or (run[1] - place) % DISK_BLOCK:
            return 0
        file, origin = run
        head = min(-origin % DISK_BLOCK, ref.nbytes)
        middle = (ref.nbytes - head) // DISK_BLOCK * DISK_BLOCK
        tail = head + middle
        if not middle or not file.clone_to(origin + head, middle, fd, place + head):
            return 0
        rest = ref.nbytes - tail
        whole = file.copy_to(origin, head, fd, place) == head if head else True
        whole &= file.copy_to(origin + tail, rest, fd, place + tail) == rest if rest else True
        return ref.nbytes if whole else 0

    def run_of(self, ref: TensorRef) -> tuple[Run, int] | None:
        """Return the local file and where in it a tensor begins; None if it is not one run of bytes there, as it is."""
        reader = self.readers[ref.file]
        return reader.run_of(ref) if _has_runs(type(reader)) else None  # type: ignore[attr-defined]

    def read(self, ref: TensorRef, start: int = 0, stop: int | None = None) -> bytes:
        """Return the bytes [start, stop) of a tensor in row-major order; the whole tensor by default."""
        out = bytearray((ref.nbytes if stop is None else stop) - start)
        self.read_into(ref, start, memoryview(out))
        return bytes(out)

    def numel(self, ref: TensorRef) -> int:
        """Return how many numbers a tensor holds: of a quantised one, those that its blocks stand for."""
        blocks = self.blocks.get(ref.key)
        return ref.numel // blocks.nbytes * blocks.numel if blocks else ref.numel

    def close(self) -> None:
        """Close the files. Safe to call twice."""
        for reader in self.readers.values():
            reader.close()

    def __enter__(self) -> Source:
        """Return self; closes on exit."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the files."""
        self.close()

    @property
    def is_folder(self) -> bool:
        """True if a folder (or an index file in it) was opened."""
        if is_url(self.path):
            return self.path not in {file.path for file in self.files}
        return os.path.isdir(self.path) or self.path.endswith(".index.json")

    def replace(self, **changes: Any) -> Source:
        """Return a copy with some fields changed."""
        return dataclasses.replace(self, **changes)


def all_bytes(refs: Iterable[TensorRef]) -> int:
    """Return the bytes of all refs, each counted."""
    return _bytes_of_forms(tally(map(_FORM, refs)))


def unique_bytes(refs: Iterable[TensorRef]) -> int:
    """Return the bytes of all refs, tensors at the same place counted once."""
    return _bytes_of_forms(count_places(refs))


def _bytes_of_forms(counted: Counter[tuple[str, tuple[int, ...]]]) -> int:
    return sum(_bytes_of(dtype, shape) * n for (dtype, shape), n in counted.items())


def count_places(refs: Iterable[TensorRef]) -> Counter[tuple[str, tuple[int, ...]]]:
    """Return how many refs have each type and shape, tensors at the same place counted once.

    Even a model of 100,000 tensors has few types and shapes, so that sums over them are quick.
    """
    listed = list(refs)
    if shares_storage(listed):
        listed = list({r.place: r for r in listed}.values())
    return tally(map(_FORM, listed))


def full_keys(refs: Sequence[TensorRef]) -> list[str]:
    """Return section and key of each ref, joined by dots."""
    return [ref.full_key for ref in refs] if any(column(_SECTION, refs)) else column(_KEY, refs)


def shares_storage(refs: Iterable[TensorRef]) -> bool:
    """Return True if two tensors may lie in one storage."""
    seen: dict[str, set[str]] = {}
    for ref in refs:
        if ref.storage is ref.key:  # in files in which each tensor has its own
            continue
        storages = seen.setdefault(ref.file, set())
        if ref.storage in storages:
            return True
        storages.add(ref.storage)
    return False


def find_ref(source: Source, key: str) -> TensorRef:
    """Return the tensor of that stored key, with or without its section.

    Raises:
        CheckpointError: There is none.
    """
    for ref in source.refs:
        if key in (ref.key, ref.full_key):
            return ref
    raise CheckpointError("missing-tensor", f"There is no tensor `{safe_text(key)}` in this checkpoint.", key=key)


def check_window(ref: TensorRef, start: int, length: int) -> None:
    """Raise if a byte range lies outside a tensor: a mistake of the caller, told plainly."""
    if start < 0 or start + length > ref.nbytes:
        raise CheckpointError(
            "damaged", f"Bytes {start} to {start + length} lie outside a tensor of {ref.nbytes} bytes.", key=ref.key
        )
