"""An opened checkpoint: tensors in file order, what else its files hold as inert values, and a way to read bytes.

Reading goes through `pread` on held descriptors and never through a memory map: a file that shrinks under a map kills
the process, while a short `pread` is an error that can be told (see README, "Reading files").
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Protocol, runtime_checkable

from ckpt_gui import dataclasses
from ckpt_gui.core.beside import Extra, Sidecars
from ckpt_gui.core.errors import CheckpointError, Finding
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.remote.address import is_url
from ckpt_gui.core.tensors import TensorRef
from ckpt_gui.dataclasses import dataclass, field

DISK_BLOCK = 4096  # bytes of a block that files can share


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


def find_ref(source: Source, key: str) -> TensorRef:
    """Return the tensor of that stored key, with or without its section.

    Raises:
        CheckpointError: There is none.
    """
    for ref in source.refs:
        if key in (ref.key, ref.full_key):
            return ref
    raise CheckpointError("missing-tensor", f"There is no tensor `{safe_text(key)}` in this checkpoint.", key=key)
