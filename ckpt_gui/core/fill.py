"""Fill the tensors into files that are laid out already: workers read, change and write pieces; checksums run beside.

Each piece is summed while it is written, so a CRC-32 costs no second pass. The memory used is that of the blocks in
work, whatever the size of a tensor. Source records that carry a checksum are checked while they are read. A large
tensor that stays as it is takes no room at all on a file system that can share blocks.
"""

from __future__ import annotations

import errno
import os
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from ckpt_gui.core.checked_stream import CheckedStream, check_record, open_part
from ckpt_gui.core.crc import Sums, crc32
from ckpt_gui.core.flushing import flushing
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.meter import Meter, run_jobs
from ckpt_gui.core.out_files import OutFile, Part
from ckpt_gui.core.pieces import Piece, big_first, block_bytes, blocks, cut
from ckpt_gui.core.plain_copy import LARGE, PlainCopy, pwrite
from ckpt_gui.core.source import Source, SourceFile
from ckpt_gui.core.tensors import TensorRef
from ckpt_gui.dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Filled:
    """What filling a file found.

    Attributes:
        crcs: CRC-32 by part name.
        overflow: Finite values that became infinite by a cast, by part name.
        shared: Bytes that share their room on the disk with the source.
    """

    crcs: Mapping[str, int]
    overflow: Mapping[str, int]
    shared: int = 0


def fill_file(path: Path, file: OutFile, source: Source, dims: Mapping[str, int], meter: Meter, workers: int) -> Filled:
    """Write one file: what shares the source's room, room for the rest, tensors, headers last; all of it to the disk.

    Raises:
        Cancelled: The user stopped it.
        CheckpointError: A tensor can not be read.
        OSError: The disk is full or fails.
    """
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
    try:
        shared = share(fd, file, source)
        _reserve(fd, file, shared, sparse=any(map(_has_holes, source.files)))
        with flushing(fd, meter):
            filling = _Filling(fd, file, source, dims, meter, shared)
            run_jobs(filling.fill, filling.pieces(), meter, workers)
            filled = Filled(filling.crcs, filling.overflow, sum(shared.values()))
            for offset, data in file.layout.patches(filled.crcs):
                pwrite(fd, memoryview(data), offset)
    finally:
        os.close(fd)
    return filled


def share(fd: int, file: OutFile, source: Source) -> dict[str, int]:
    """Let large tensors that are copied as they are share the source's room; return how many bytes, by part name.

    This comes before room is taken: btrfs does not give back what it took in one piece while any of that is in use.
    """
    plain = [(part.name, part.entry.expr) for part in file.parts]
    return {
        name: source.clone_run(ref, fd, file.layout.offsets[name])
        for name, ref in plain
        if isinstance(ref, TensorRef) and ref.nbytes >= LARGE
    }


def _reserve(fd: int, file: OutFile, shared: Mapping[str, int], *, sparse: bool) -> None:
    """Take the room now, so that a full disk is known before hours of work; where the source has holes, they stay.

    None is asked for what is shared: XFS wants room for all of a range, whatever of it is there.
    """
    os.ftruncate(fd, file.layout.nbytes)
    if sparse or not hasattr(os, "posix_fallocate"):
        return
    try:
        for start, stop in _gaps(file, shared):
            os.posix_fallocate(fd, start, stop - start)
    except OSError as error:
        if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS):
            raise


def _gaps(file: OutFile, shared: Mapping[str, int]) -> Iterator[tuple[int, int]]:
    """Yield the ranges of a file that share no room."""
    at = 0
    for start, count in sorted((file.layout.offsets[name], count) for name, count in shared.items() if count):
        if start > at:
            yield at, start
        at = start + count
    if at < file.layout.nbytes:
        yield at, file.layout.nbytes


def _has_holes(file: SourceFile) -> bool:
    """Say whether a good part of a file was never written to."""
    try:
        info = os.stat(file.path)
    except OSError:  # it is no file, or gone, which reading will tell
        return False
    return hasattr(info, "st_blocks") and info.st_blocks * 512 < info.st_size * 3 // 4


class _Filling:
    """The parts of a file, under way.

    Attributes:
        crcs: CRC-32 of what is complete, by part name.
        overflow: Finite values that became infinite by a cast, by part name.
    """

    def __init__(
        self,
        fd: int,
        file: OutFile,
        source: Source,
        dims: Mapping[str, int],
        meter: Meter,
        shared: Mapping[str, int],
    ) -> None:
        self._fd, self._file, self._source, self._dims = fd, file, source, dims
        self._meter, self._shared = meter, shared
        self._made, self._read, self._lock = Sums(), Sums(), threading.Lock()
        self.crcs: dict[str, int] = {}
        self.overflow: Counter[str] = Counter()

    def pieces(self) -> list[Piece[Part]]:
        """Return what there is to do."""
        return big_first(piece for part in self._file.parts for piece in self._cut(part))

    def _cut(self, part: Part) -> Iterator[Piece[Part]]:
        return cut(part, part.entry.output.nbytes, lambda: open_part(self._source, part, self._dims).unit)

    def fill(self, piece: Piece[Part]) -> None:
        """Write a piece; compare the checksums of what was read for it once the others are there."""
        part, total = piece.of, piece.of.entry.output.nbytes
        crc = self._plain(part.entry.expr, piece) if isinstance(part.entry.expr, TensorRef) else self._changed(piece)
        whole = self._made.add(part.name, piece.start, piece.nbytes, crc, total)
        if whole is None:
            return
        self.crcs[part.name] = whole
        if isinstance(part.entry.expr, TensorRef):
            check_record(self._source, part.entry.expr, whole)

    def _label(self, part: Part) -> str:
        return f"Writing {safe_text(part.entry.key, 60)}"

    def _plain(self, ref: TensorRef, piece: Piece[Part]) -> int:
        name = piece.of.name
        there = bool(self._shared.get(name))
        copy = PlainCopy(self._source, ref, self._fd, self._file.layout.offsets[name], there=there)
        return copy.run(piece.start, piece.stop, self._label(piece.of), self._meter)

    def _changed(self, piece: Piece[Part]) -> int:
        """Write a piece of what is made by ops; return its CRC-32."""
        part, reads = piece.of, list[CheckedStream]()
        stream = open_part(self._source, part, self._dims, reads)
        buffer = np.empty(block_bytes(piece.nbytes, stream.unit), dtype=np.uint8)
        offset, label, crc = self._file.layout.offsets[part.name], self._label(part), 0
        for start, size in blocks(piece.start, piece.stop, stream.unit):
            block = buffer[:size]
            stream.read_into(start, block)
            crc = crc32(block.data, crc)
            pwrite(self._fd, block.data, offset + start)
            self._meter.add(label, size)
        self._count(part, getattr(stream, "overflow", 0))
        for read in reads:
            whole = self._read.add(part.name, read.start, read.nbytes, read.crc, read.ref.nbytes)
            if whole is not None:
                check_record(self._source, read.ref, whole)
        return crc

    def _count(self, part: Part, overflow: int) -> None:
        if overflow:
            with self._lock:
                self.overflow[part.name] += overflow
