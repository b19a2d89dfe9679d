"""What no checksum tells of a file: archives hidden in it, bytes that nothing needs, truth values that are none."""

from __future__ import annotations

from collections.abc import Callable

from ckpt_gui.core.errors import Cancelled, CheckpointError, Finding
from ckpt_gui.core.formats.checked import BLOCK, Checked, HasRecords
from ckpt_gui.core.formats.file_errors import show_path
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.source import Source
from ckpt_gui.core.tensors import TensorRef

MAX_VIEW = 1 << 30
ZIP_MAGIC = b"PK\x03\x04"


def hidden_archives(source: Source) -> list[Finding]:
    """Find archives hidden in tensors of bytes: another program may open the file as one."""
    hidden = tuple(ref.full_key for ref in source.refs if ref.dtype == "u8" and _begins(source, ref))
    if not hidden:
        return []
    message = f"`{safe_text(hidden[0], 120)}` holds a zip archive in place of numbers; nothing of it was opened."
    return [Finding("foreign-object", "warning", message, hidden, "An export carries it as the bytes that it is.")]


def nested_archives(runs: list[Checked]) -> list[Finding]:
    """Find archives among the records that no tensor needs."""
    nested = [run.name for run in runs if run.storage is None and _begins_record(run)]
    if not nested:
        return []
    message = f"Record {safe_text(nested[0], 80)} is a zip archive of its own; nothing of it was opened."
    return [Finding("foreign-object", "warning", message, fix="The export leaves it out.")]


def _begins_record(run: Checked) -> bool:
    head = bytearray(len(ZIP_MAGIC))
    try:
        run.fill(0, memoryview(head)[: min(len(head), run.nbytes)])
    except CheckpointError:  # told by its checksum
        return False
    return head == ZIP_MAGIC


def holes(source: Source) -> list[Finding]:
    """Find bytes between the records of archives: something may be hidden there."""
    found = {name: reader.unclaimed() for name, reader in source.readers.items() if isinstance(reader, HasRecords)}
    return [
        Finding(
            "trailing-bytes",
            "warning",
            f"{show_path(name)} has {count:,} bytes between its records that belong to none of them.",
            fix="The export leaves the extra bytes out.",
        )
        for name, count in found.items()
        if count
    ]


def odd_truth(source: Source, cancelled: Callable[[], bool] | None) -> list[Finding]:
    """Find truth values that are neither 0 nor 1: programs do not agree on what they mean."""
    room = max(MAX_VIEW, sum(file.size for file in source.files))  # views may be of any size
    refs = [ref for ref in source.refs if ref.dtype == "bool" and ref.nbytes <= room]
    odd = tuple(ref.full_key for ref in refs if _is_odd(source, ref, cancelled))
    if not odd:
        return []
    what = f"{len(odd):,} tensors of truth values hold" if len(odd) > 1 else f"`{safe_text(odd[0], 120)}` holds"
    message = f"{what} bytes that are neither 0 nor 1."
    return [Finding("odd-bool", "warning", message, odd, "An export keeps the bytes as they are.")]


def _is_odd(source: Source, ref: TensorRef, cancelled: Callable[[], bool] | None) -> bool:
    for start in range(0, ref.nbytes, BLOCK):
        if cancelled and cancelled():
            raise Cancelled
        try:
            block = source.read(ref, start, min(start + BLOCK, ref.nbytes))
        except CheckpointError:  # told where checksums are compared
            return False
        if block.translate(None, b"\0\1"):
            return True
    return False


def _begins(source: Source, ref: TensorRef) -> bool:
    try:
        return ref.nbytes >= len(ZIP_MAGIC) and source.read(ref, 0, len(ZIP_MAGIC)) == ZIP_MAGIC
    except CheckpointError:
        return False
