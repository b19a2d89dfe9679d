"""Stored tensors that are compared with the checksums of their records while they are read to be written elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ckpt_gui.core.crc import crc32
from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.exprs import stream_of
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.ops import RefStream, Stream
from ckpt_gui.core.out_files import Part
from ckpt_gui.core.source import Source
from ckpt_gui.core.tensors import TensorRef

_STRAIGHT = ("permute", "cast")  # ops that read a tensor from start to end, each byte once


class CheckedStream:
    """A stored tensor that is summed while it is read, block after block.

    Attributes:
        ref: The tensor.
        start: The first byte that was read.
        nbytes: How many were, one behind the other.
        crc: Their CRC-32.
    """

    unit = 1

    def __init__(self, source: Source, ref: TensorRef) -> None:
        """Read `ref` from `source`."""
        self.source, self.ref, self.dtype, self.shape = source, ref, ref.dtype, ref.shape
        self.start = self.nbytes = self.crc = 0

    def read_into(self, start: int, out: Any) -> None:
        """Fill `out` with the bytes from `start` on."""
        self.source.read_into(self.ref, start, memoryview(out))
        if not self.nbytes:
            self.start = start
        if start == self.start + self.nbytes:
            self.crc = crc32(out, self.crc)
            self.nbytes += out.nbytes


def open_part(source: Source, part: Part, dims: Mapping[str, int], reads: list[CheckedStream] | None = None) -> Stream:
    """Return a part's bytes as a stream.

    Args:
        source: What is read.
        part: What is made of it.
        dims: Sizes that the ops need.
        reads: Gets the streams of stored tensors that are summed: those that are read once from start to end.
    """
    if reads is None or not _is_straight(part):
        return stream_of(part.entry.expr, dims, lambda ref: RefStream(source, ref))

    def leaf(ref: TensorRef) -> Stream:
        reads.append(CheckedStream(source, ref))
        return reads[-1]

    return stream_of(part.entry.expr, dims, leaf)


def _is_straight(part: Part) -> bool:
    return all(op.name in _STRAIGHT for op in part.entry.ops)


def record_crc(source: Source, ref: TensorRef) -> int | None:
    """Return the stored checksum if it covers exactly this tensor's bytes."""
    if ref.strides is not None or ref.offset:
        return None
    found = source.checksums.get((ref.file, ref.storage))
    if not found:
        return None
    size, crc = found
    return crc if size == ref.nbytes else None


def check_record(source: Source, ref: TensorRef, crc: int) -> None:
    """Compare the checksum of a whole tensor with the one of its record, if that has one.

    Raises:
        CheckpointError: `crc-mismatch`.
    """
    wanted = record_crc(source, ref)
    if wanted is not None and wanted != crc:
        raise CheckpointError(
            "crc-mismatch",
            f"`{safe_text(ref.full_key)}` is damaged: its bytes do not fit the checksum stored with them.",
            fix="Get the file again, or train on from an older checkpoint.",
            key=ref.full_key,
        )


def unchecked(source: Source, part: Part) -> list[TensorRef]:
    """Return the stored tensors of a part whose checksums are not compared while it is written.

    Those are compared that are records as a whole, and are read once from start to end.
    """
    straight = _is_straight(part)
    return [ref for ref in part.entry.inputs if not straight or record_crc(source, ref) is None]
