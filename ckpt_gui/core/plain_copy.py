"""A stored tensor that is written as it is: read, summed, written block by block.

Copying by the system (`copy_file_range`) is no quicker where nothing can be shared, since the bytes are read for their
checksum all the same: measured on ext4 it takes a fifth more of the processor. What was never written to stays so.
"""

from __future__ import annotations

import os
import threading

import numpy as np

from ckpt_gui.core.crc import crc32
from ckpt_gui.core.meter import Meter
from ckpt_gui.core.pieces import block_bytes, blocks
from ckpt_gui.core.source import Source
from ckpt_gui.core.tensors import TensorRef

LARGE = 1 << 20  # bytes from which it is worth a question to the system whether there are holes, or blocks to share
_STRIDE = 8 << 20  # bytes after which it is asked again where the next hole is
_SEEK = threading.Lock()


class PlainCopy:
    """Copies ranges of a stored tensor to its place in a file.

    Args:
        source: Where it is read.
        ref: The tensor.
        fd: The file.
        offset: Where the tensor begins in it.
        there: True if the file has the bytes already, because it shares them: then they are only read.
    """

    def __init__(self, source: Source, ref: TensorRef, fd: int, offset: int, *, there: bool) -> None:
        """Keep what is copied, and where to."""
        self._source, self._ref, self._fd, self._offset, self._there = source, ref, fd, offset, there

    def run(self, start: int, stop: int, label: str, meter: Meter) -> int:
        """Copy a range of bytes; return its CRC-32.

        Raises:
            Cancelled: The user stopped it.
            CheckpointError: The tensor can not be read.
            OSError: The disk is full or fails.
        """
        buffer = np.empty(block_bytes(stop - start), dtype=np.uint8)
        crc, data, known = 0, start, start
        for at, size in blocks(start, stop):
            block = buffer[:size]
            if at >= known and self._ref.nbytes >= LARGE:
                known, data = at + _STRIDE, self._source.next_data(self._ref, at)
            if at + size <= data:
                block[:] = 0  # a hole: the file holds nothing else there yet
            else:
                self._source.read_into(self._ref, at, block.data)
                if not self._there:
                    pwrite(self._fd, block.data, self._offset + at)
            crc = crc32(block.data, crc)
            meter.add(label, size)
        return crc


def pwrite(fd: int, data: memoryview, offset: int) -> None:
    """Write all of some bytes at a place of a file."""
    while data:
        if hasattr(os, "pwrite"):
            done = os.pwrite(fd, data, offset)
        else:
            with _SEEK:
                os.lseek(fd, offset, os.SEEK_SET)
                done = os.write(fd, data)
        data, offset = data[done:], offset + done
