"""Fill the tensors into files that are laid out already: workers read, change and write blocks; checksums run beside.

Each tensor is one job of one worker, block after block, so its CRC-32 costs no second pass. The memory used is that
of the blocks in work, whatever the size of a tensor. Source records that carry a checksum are checked while they are
read.
"""

from __future__ import annotations

import errno
import os
import threading
import zlib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ckpt_gui.core.errors import Cancelled, CheckpointError
from ckpt_gui.core.exprs import stream_of
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.ops import Stream
from ckpt_gui.core.out_files import OutFile, Part
from ckpt_gui.core.tensors import Source, TensorRef

BLOCK = 256 << 10  # fits a core's cache beside its checksum and its copy: measured faster than 1 MiB
Progress = Callable[[str, int, int], None]


@dataclass(slots=True)
class Meter:
    """Counts bytes of all workers, passes progress on, and says when to stop.

    Attributes:
        total: Bytes in all.
        progress: Told label, done and total.
        cancelled: Asked before each block.
        done: Bytes so far.
    """

    total: int
    progress: Progress | None = None
    cancelled: Callable[[], bool] | None = None
    done: int = 0
    _stop: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, label: str, count: int) -> None:
        """Count a block.

        Raises:
            Cancelled: The user, or the failure of another worker, stops the work.
        """
        with self._lock:
            self.done += count
            if self.progress:
                self.progress(label, self.done, self.total)
        if self._stop.is_set() or (self.cancelled and self.cancelled()):
            raise Cancelled

    def rewind(self, done: int) -> None:
        """Forget what was counted of work that was in vain, and that it was stopped."""
        with self._lock:
            self.done = done
            self._stop.clear()

    def stop(self) -> None:
        """Make every worker stop at its next block."""
        self._stop.set()


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
        if self._next == self.ref.nbytes and self._crc != self._wanted:
            raise CheckpointError(
                "crc-mismatch",
                f"`{safe_text(self.ref.full_key)}` is damaged: its bytes do not fit the checksum stored with them.",
                fix="Get the file again, or train on from an older checkpoint.",
                key=self.ref.full_key,
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
    """

    crcs: Mapping[str, int]
    overflow: Mapping[str, int]


def fill_file(path: Path, file: OutFile, source: Source, dims: Mapping[str, int], meter: Meter, workers: int) -> Filled:
    """Write one file: room first, tensors by workers, headers last, then to the disk.

    Raises:
        Cancelled: The user stopped it.
        CheckpointError: A tensor can not be read.
        OSError: The disk is full or fails.
    """
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
    try:
        _reserve(fd, file.layout.nbytes)
        filled = _fill_parts(fd, file, source, dims, meter, workers)
        for offset, data in file.layout.patches(filled.crcs):
            _pwrite(fd, memoryview(data), offset)
        os.fsync(fd)
    finally:
        os.close(fd)
    return filled


def _reserve(fd: int, nbytes: int) -> None:
    """Take the room now, so that a full disk is known before hours of work."""
    if hasattr(os, "posix_fallocate") and nbytes:
        try:
            os.posix_fallocate(fd, 0, nbytes)
            return
        except OSError as error:
            if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS):
                raise
    os.ftruncate(fd, nbytes)


def _fill_parts(fd: int, file: OutFile, source: Source, dims: Mapping[str, int], meter: Meter, workers: int) -> Filled:
    crcs: dict[str, int] = {}
    overflow: dict[str, int] = {}
    biggest_first = sorted(file.parts, key=lambda p: -p.entry.output.nbytes)

    def job(part: Part) -> None:
        stream = open_part(source, part, dims)
        crcs[part.name] = _copy(fd, file.layout.offsets[part.name], stream, part, meter)
        count = getattr(stream, "overflow", 0)
        if count:
            overflow[part.name] = count

    run_jobs(job, biggest_first, meter, workers)
    return Filled(crcs, overflow)


def run_jobs(job: Callable[[Any], None], items: Sequence[Any], meter: Meter, workers: int) -> None:
    """Run a job for every item on some workers; the first failure stops the others and is raised."""
    with ThreadPoolExecutor(max(workers, 1)) as pool:
        futures = [pool.submit(job, item) for item in items]
        try:
            for future in as_completed(futures):
                future.result()
        except BaseException:
            meter.stop()
            pool.shutdown(wait=False, cancel_futures=True)
            raise


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
