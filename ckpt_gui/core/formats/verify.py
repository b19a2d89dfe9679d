"""Comparing every byte with the checksums that a container keeps: torch itself never does.

Only zip archives have checksums; of other files the SHA-256 may be known from where they came (see `published`). Torch
can be told to write none, and then all are zero, which is no damage. Files without any are said to be so: that nothing
was found in them means nothing.
"""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple, Protocol, runtime_checkable

from ckpt_gui.core.errors import Cancelled, CheckpointError, Finding
from ckpt_gui.core.formats.files import show_path
from ckpt_gui.core.formats.published import known_of, verify_published
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.tensors import Source, TensorRef

BLOCK = 4 << 20
ZIP_MAGIC = b"PK\x03\x04"
Progress = Callable[[str, int, int], None]


class Checked(NamedTuple):
    """A run of bytes with a checksum.

    Attributes:
        file: Name of its file.
        name: What it is called in the file.
        storage: The storage name of the tensors that use it; None for others.
        nbytes: How long it is.
        crc: Its CRC-32.
        fill: Fills a buffer from a byte on.
    """

    file: str
    name: str
    storage: str | None
    nbytes: int
    crc: int
    fill: Callable[[int, memoryview], None]


@runtime_checkable
class HasChecksums(Protocol):
    """A reader of a container with checksums."""

    def checked(self) -> Iterator[Checked]:
        """Yield every run of bytes that has a checksum."""


def verify_checksums(
    source: Source, progress: Progress | None = None, cancelled: Callable[[], bool] | None = None
) -> list[Finding]:
    """Read everything that has a checksum and compare.

    Args:
        source: The opened checkpoint.
        progress: Called with a label, bytes done and bytes in all.
        cancelled: Asked before each block.

    Raises:
        Cancelled: `cancelled` said so.
    """
    runs = [
        (name, run)
        for name, reader in source.readers.items()
        if isinstance(reader, HasChecksums)
        for run in reader.checked()
    ]
    files = {run.file for _, run in runs}
    blind = files - {run.file for _, run in runs if run.crc}
    users: dict[tuple[str, str], list[str]] = defaultdict(list)
    for ref in source.refs:
        users[ref.file, ref.storage].append(ref.full_key)
    found = _hidden_archives(source)
    total, done = sum(run.nbytes for _, run in runs), 0
    for name, run in runs:
        if run.file in blind:
            continue
        problem = _check(run, partial(_report, progress, cancelled, total, done))
        done += run.nbytes
        if problem:
            keys = tuple(users[name, run.storage]) if run.storage is not None else ()
            found.append(_finding(run, keys, problem))
    published = verify_published(source, progress, cancelled)
    sure = {file.name for file in source.files if known_of(file)}
    bare = [n for n, reader in source.readers.items() if n and n not in sure and not isinstance(reader, HasChecksums)]
    return [*found, *published, *_without(sorted(blind - sure), bare)]


def _report(progress: Progress | None, cancelled: Callable[[], bool] | None, total: int, done: int, more: int) -> None:
    if cancelled and cancelled():
        raise Cancelled
    if progress:
        progress("Comparing checksums", done + more, total)


def _check(run: Checked, tick: Callable[[int], None]) -> str | None:
    """Return what is wrong with a run of bytes, or None."""
    buffer = bytearray(min(BLOCK, run.nbytes))
    crc = 0
    for start in range(0, run.nbytes, BLOCK):
        view = memoryview(buffer)[: min(BLOCK, run.nbytes - start)]
        try:
            run.fill(start, view)
        except CheckpointError as error:
            return error.message
        crc = zlib.crc32(view, crc)
        tick(start + len(view))
    return (
        None if crc == run.crc else f"its bytes do not fit the checksum stored with them ({crc:08x}, not {run.crc:08x})"
    )


def _finding(run: Checked, keys: tuple[str, ...], problem: str) -> Finding:
    what = f"Record {safe_text(run.name, 80)} of {show_path(run.file)}"
    if keys:
        more = f" and {len(keys) - 1} more" if len(keys) > 1 else ""
        what += f", which holds `{safe_text(keys[0], 120)}`{more},"
    fix = "Download or copy it again; what was computed with it since cannot be trusted."
    return Finding("crc-mismatch", "error", f"{what} is damaged: {problem.rstrip('.')}.", keys, fix, blocking=True)


def _without(blind: list[str], bare: list[str]) -> list[Finding]:
    found = []
    if blind:
        message = f"{_names(blind)} was written without checksums: damage to its numbers cannot be seen."
        found.append(Finding("no-checksums", "info", message))
    if bare:
        message = f"{_names(bare)} is of a format without checksums: damage to its numbers cannot be seen."
        found.append(Finding("no-checksums", "info", message, fix="Compare it with a published SHA-256."))
    return found


def _names(names: list[str]) -> str:
    return show_path(names[0]) + (f" (and {len(names) - 1} more files)" if len(names) > 1 else "")


def _hidden_archives(source: Source) -> list[Finding]:
    """Find archives hidden in tensors of bytes: another program may open the file as one."""
    hidden = tuple(ref.full_key for ref in source.refs if ref.dtype == "u8" and _begins(source, ref))
    if not hidden:
        return []
    message = f"`{safe_text(hidden[0], 120)}` holds a zip archive in place of numbers; nothing of it was opened."
    return [Finding("foreign-object", "warning", message, hidden, "An export carries it as the bytes that it is.")]


def _begins(source: Source, ref: TensorRef) -> bool:
    try:
        return ref.nbytes >= len(ZIP_MAGIC) and source.read(ref, 0, len(ZIP_MAGIC)) == ZIP_MAGIC
    except CheckpointError:
        return False
