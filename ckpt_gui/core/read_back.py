"""Read a file of an export back before it is kept: every name, type and shape, and the checksum of every tensor.

The file is opened with our own reader, as anybody would open them; what the disk or the memory has spoilt on the way
is told, and nothing of it is kept.
"""

from __future__ import annotations

from itertools import zip_longest
from pathlib import Path

import numpy as np

from ckpt_gui.core.crc import Sums, crc32
from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.fill import Filled
from ckpt_gui.core.formats import open_checkpoint
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.meter import Meter, run_jobs
from ckpt_gui.core.out_files import OutFile
from ckpt_gui.core.pieces import Piece, big_first, block_bytes, blocks, cut
from ckpt_gui.core.source import Source
from ckpt_gui.core.tensors import TensorRef


def verify(path: Path, file: OutFile, filled: Filled, meter: Meter, workers: int) -> int:
    """Open a written file again and compare every tensor; return how many weights there are.

    Raises:
        CheckpointError: Something is not as it was meant to be.
    """
    with open_checkpoint(path) as source:
        _compare(file, source)
        refs = {leaf.record: ref for leaf, ref in zip(file.leaves, source.refs, strict=True)}
        sums = Sums()

        def job(piece: Piece[str]) -> None:
            ref = refs[piece.of]
            crc = sums.add(piece.of, piece.start, piece.nbytes, _crc(source, ref, piece, meter), ref.nbytes)
            if crc is not None and crc != filled.crcs[piece.of]:
                raise _wrong(ref.key, "was read back with other bytes than were written")

        pieces = big_first(piece for record, ref in refs.items() for piece in cut(record, ref.nbytes))
        run_jobs(job, pieces, meter, workers)
    return file.weights


def _compare(file: OutFile, source: Source) -> None:
    """Raise unless a written file holds exactly the names, types and shapes that were meant."""
    for leaf, ref in zip_longest(file.leaves, source.refs):
        if ref is None:
            raise _wrong(leaf.spec.key, "is not found in the written file")
        if leaf is None or leaf.spec.key != ref.key:
            raise _wrong(ref.key, "was not to be written")
        if (leaf.spec.dtype, leaf.spec.shape) != (ref.dtype, ref.shape):
            raise _wrong(ref.key, "has another type or shape than planned")
    # Codes of a quantised model that were meant to be carried are no fault of the file.
    worst = next((f for f in source.problems if f.severity == "error" and f.code != "quantised"), None)
    if worst is not None:
        raise _wrong(file.name, f"can not be read as it should ({worst.message.rstrip('.')})")


def _crc(source: Source, ref: TensorRef, piece: Piece[str], meter: Meter) -> int:
    buffer = np.empty(block_bytes(piece.nbytes), dtype=np.uint8)
    crc = 0
    for start, size in blocks(piece.start, piece.stop):
        block = buffer[:size]
        source.read_into(ref, start, block.data)
        crc = crc32(block.data, crc)
        meter.add("Verifying", size)
    return crc


def _wrong(key: str, what: str) -> CheckpointError:
    return CheckpointError(
        "verify-failed", f"`{safe_text(key)}` {what}: the disk or the memory may be failing. Nothing was kept.", key=key
    )
