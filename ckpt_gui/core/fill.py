"""Fill the tensors into files that are laid out already: workers read, change and write blocks; checksums run beside.

Each tensor is one job of one worker, block after block, so its CRC-32 costs no second pass. The memory used is that
of the blocks in work, whatever the size of a tensor. Source records that carry a checksum are checked while they are
read. A large tensor that stays as it is is copied by the system, from file to file: a fraction of the time, and no room
at all on a file system that can share blocks; its checksum is calculated beside it.
"""

from __future__ import annotations

import errno
import os
import threading
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.exprs import stream_of
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.meter import Meter, run_jobs
from ckpt_gui.core.ops import Stream
from ckpt_gui.core.out_files import OutFile, Part
from ckpt_gui.core.tensors import Source, SourceFile, TensorRef
from ckpt_gui.dataclasses import dataclass

BLOCK = 256 << 10  # fits a core's cache beside its checksum and its copy: measured faster than 1 MiB
LARGE = 1 << 20  # bytes from which a tensor is copied by the system
PIECE = 8 << 20  # bytes copied at once: small enough to be found in the processor's cache by what follows


class CheckedStream:
    """A stored tensor that is checked against the checksum of its record while it is read from start to end."""

    unit = 1

    def __init__(self, source: Source, ref: TensorRef) -> None:
        """Read `ref` from `source`."""
        self.source, self.ref, self.dtype, self.shape = source, ref, ref.dtype, ref.shape
        self._wanted = _whole_record(source, ref)
        self._crc = self._next = 0

    def read_into(self, start: int, out: Any) -> None:
        """Fill `out`; at the end of the tensor compare the checksum.

        Raises:
            CheckpointError: `crc-mismatch`.
        """
        self.source.read_into(self.ref, start, memoryview(out))
        if self._wanted is None or start != self._next:
            return
        self._crc = zlib.crc32(out, self._crc)
        self._next = start + out.nbytes
        if self._next == self.ref.nbytes:
            _check_record(self.ref, self._wanted, self._crc)


def _check_record(ref: TensorRef, wanted: int | None, crc: int) -> None:
    if wanted is not None and wanted != crc:
        raise CheckpointError(
            "crc-mismatch",
            f"`{safe_text(ref.full_key)}` is damaged: its bytes do not fit the checksum stored with them.",
            fix="Get the file again, or train on from an older checkpoint.",
            key=ref.full_key,
        )


def _whole_record(source: Source, ref: TensorRef) -> int | None:
    """Return the stored checksum if it covers exactly this tensor's bytes; zero means that none was stored."""
    if ref.strides is not None or ref.offset:
        return None
    found = source.checksums.get((ref.file, ref.storage))
    if not found:
        return None
    size, crc = found
    return crc if size == ref.nbytes else None


def unchecked(source: Source, part: Part) -> list[TensorRef]:
    """Return the stored tensors of a part whose checksums are not compared while it is written.

    Those are compared that are records as a whole, and are read once from start to end.
    """
    straight = all(op.name in _STRAIGHT for op in part.entry.ops)
    return [ref for ref in part.entry.inputs if not straight or _whole_record(source, ref) is None]


_STRAIGHT = ("permute", "cast")


def open_part(source: Source, part: Part, dims: Mapping[str, int]) -> Stream:
    """Return a part's bytes as a stream."""
    return stream_of(part.entry.expr, dims, lambda ref: CheckedStream(source, ref))


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
    """Write one file: what shares the source's room, room for the rest, tensors, headers last, then to the disk.

    Raises:
        Cancelled: The user stopped it.
        CheckpointError: A tensor can not be read.
        OSError: The disk is full or fails.
    """
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
    try:
        shared = _share(fd, file, source)
        _reserve(fd, file.layout.nbytes, sparse=any(map(_has_holes, source.files)))
        filled = _fill_parts(fd, file, source, dims, meter, workers, shared)
        for offset, data in file.layout.patches(filled.crcs):
            _pwrite(fd, memoryview(data), offset)
        os.fsync(fd)
    finally:
        os.close(fd)
    return filled


def _share(fd: int, file: OutFile, source: Source) -> dict[str, int]:
    """Let large tensors that are copied as they are share the source's room; return how many bytes, by part name.

    This comes before room is taken: btrfs does not give back what it took in one piece while any of that is in use.
    """
    plain = [(part.name, part.entry.expr) for part in file.parts]
    return {
        name: source.clone_run(ref, fd, file.layout.offsets[name])
        for name, ref in plain
        if isinstance(ref, TensorRef) and ref.nbytes >= LARGE
    }


def _reserve(fd: int, nbytes: int, *, sparse: bool) -> None:
    """Take the room now, so that a full disk is known before hours of work; where the source has holes, they stay."""
    if hasattr(os, "posix_fallocate") and nbytes and not sparse:
        try:
            os.posix_fallocate(fd, 0, nbytes)
            return
        except OSError as error:
            if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS):
                raise
    os.ftruncate(fd, nbytes)


def _has_holes(file: SourceFile) -> bool:
    """Say whether a good part of a file was never written to."""
    try:
        info = os.stat(file.path)
    except OSError:  # it is no file, or gone, which reading will tell
        return False
    return hasattr(info, "st_blocks") and info.st_blocks * 512 < info.st_size * 3 // 4


def _fill_parts(
    fd: int,
    file: OutFile,
    source: Source,
    dims: Mapping[str, int],
    meter: Meter,
    workers: int,
    shared: Mapping[str, int],
) -> Filled:
    crcs: dict[str, int] = {}
    overflow: dict[str, int] = {}
    biggest_first = sorted(file.parts, key=lambda p: -p.entry.output.nbytes)

    def job(part: Part) -> None:
        offset, expr = file.layout.offsets[part.name], part.entry.expr
        if isinstance(expr, TensorRef):
            copy = PlainCopy(source, expr, fd, offset, f"Writing {safe_text(part.entry.key, 60)}", meter)
            crcs[part.name] = copy.run(there=bool(shared.get(part.name)))
            _check_record(expr, _whole_record(source, expr), crcs[part.name])
            return
        stream = open_part(source, part, dims)
        crcs[part.name] = _copy(fd, offset, stream, part, meter)
        count = getattr(stream, "overflow", 0)
        if count:
            overflow[part.name] = count

    run_jobs(job, biggest_first, meter, workers)
    return Filled(crcs, overflow, sum(shared.values()))


class PlainCopy:
    """Copies a stored tensor as it is: by the system where it can, and what was never written to stays so."""

    def __init__(self, source: Source, ref: TensorRef, fd: int, offset: int, label: str, meter: Meter) -> None:
        """Copy `ref` to `offset` of the file `fd`."""
        self._source, self._ref, self._fd, self._offset = source, ref, fd, offset
        self._label, self._meter = label, meter
        self._buffer = np.empty(min(BLOCK, ref.nbytes), dtype=np.uint8)
        self._crc = 0

    def run(self, *, there: bool) -> int:
        """Copy, or only read what is there already because the file shares it; return the CRC-32.

        Raises:
            Cancelled: The user stopped it.
            CheckpointError: The tensor can not be read.
            OSError: The disk is full or fails.
        """
        total = self._ref.nbytes
        large = total >= LARGE
        at = 0
        while at < total:
            stop = min(at + PIECE, total)
            if large and (data := min(self._source.next_data(self._ref, at), total)) > at:
                self._zeros(data - at)
                at = data
                continue
            self._read(at, stop, written=there or (large and self._copy(at, stop)))
            at = stop
        return self._crc

    def _copy(self, at: int, stop: int) -> bool:
        return bool(self._source.copy_run(self._ref, at, stop - at, self._fd, self._offset + at))

    def _read(self, start: int, stop: int, *, written: bool) -> None:
        """Calculate the checksum of a piece, and write what the system has not copied."""
        for at in range(start, stop, BLOCK):
            block = self._buffer[: min(BLOCK, stop - at)]
            self._source.read_into(self._ref, at, block.data)
            self._crc = zlib.crc32(block.data, self._crc)
            if not written:
                _pwrite(self._fd, block.data, self._offset + at)
            self._meter.add(self._label, block.nbytes)

    def _zeros(self, count: int) -> None:
        """Count bytes that are zeros and need not be written: the file holds nothing else yet."""
        self._buffer[:] = 0
        for start in range(0, count, BLOCK):
            block = self._buffer[: min(BLOCK, count - start)]
            self._crc = zlib.crc32(block.data, self._crc)
            self._meter.add(self._label, block.nbytes)


def _copy(fd: int, offset: int, stream: Stream, part: Part, meter: Meter) -> int:
    """Write a tensor block by block; return its CRC-32."""
    total = part.entry.output.nbytes
    step = max(BLOCK // stream.unit, 1) * stream.unit
    buffer = np.empty(min(step, total), dtype=np.uint8)
    crc = 0
    for start in range(0, total, step):
        block = buffer[: min(step, total - start)]
        stream.read_into(start, block)
        crc = zlib.crc32(block.data, crc)
        _pwrite(fd, block.data, offset + start)
        meter.add(f"Writing {safe_text(part.entry.key, 60)}", block.nbytes)
    return crc


def _pwrite(fd: int, data: memoryview, offset: int) -> None:
    while data:
        if hasattr(os, "pwrite"):
            done = os.pwrite(fd, data, offset)
        else:
            with _SEEK:
                os.lseek(fd, offset, os.SEEK_SET)
                done = os.write(fd, data)
        data, offset = data[done:], offset + done


_SEEK = threading.Lock()
