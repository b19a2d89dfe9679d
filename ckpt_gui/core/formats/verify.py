"""Comparing every byte with the checksums that a container keeps: torch itself never does.

Only zip archives have checksums; of other files the SHA-256 may be known from where they came (see `published`). Torch
can be told to write none, and then all are zero, which is no damage. Files without any are said to be so: that nothing
was found in them means nothing.
"""

from __future__ import annotations

import os
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import NamedTuple, Protocol, runtime_checkable

from ckpt_gui.core.errors import Cancelled, CheckpointError, Finding
from ckpt_gui.core.formats.file_errors import show_path
from ckpt_gui.core.formats.published import known_of, verify_published
from ckpt_gui.core.formats.regular_file import identity_of
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.tensors import Source, SourceFile, TensorRef

BLOCK = 4 << 20
MAX_VIEW = 1 << 30
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


@runtime_checkable
class HasRecords(Protocol):
    """A reader of an archive."""

    def unclaimed(self) -> int:
        """Return how many bytes belong to no record."""


@runtime_checkable
class HasParts(Protocol):
    """A reader whose tensors are put together from parts with checksums."""

    def used(self, storages: Iterable[str]) -> Iterator[Checked]:
        """Yield the checksums of the parts of some storages."""


def verify_used(
    source: Source,
    refs: Iterable[TensorRef],
    progress: Progress | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> None:
    """Read what some tensors lie in, where it has checksums, and compare.

    An export compares whole records while it reads them; this is for all others: views, arrays of NumPy, tensors put
    together from parts, and those that are not read from start to end.

    Raises:
        CheckpointError: `crc-mismatch`, for the first that does not fit.
        Cancelled: `cancelled` said so.
    """
    keys: dict[tuple[str, str], list[str]] = defaultdict(list)
    for ref in refs:
        keys[ref.file, ref.storage].append(ref.full_key)
    runs = [(name, run) for name, run in _used(source, keys) if run.crc]  # all are 0 where torch was told to write none
    total, done = sum(run.nbytes for _, run in runs), 0
    for name, run in runs:
        problem = _check(run, partial(_report, progress, cancelled, total, done))
        done += run.nbytes
        if problem:
            found = _finding(run, tuple(keys.get((name, run.storage or ""), ())), problem)
            raise CheckpointError(found.code, found.message, fix=found.fix)


def _used(source: Source, places: Iterable[tuple[str, str]]) -> Iterator[tuple[str, Checked]]:
    storages: dict[str, list[str]] = defaultdict(list)
    for name, storage in places:
        storages[name].append(storage)
    for name, wanted in storages.items():
        reader: object = source.readers.get(name)
        if isinstance(reader, HasParts):
            yield from ((name, run) for run in reader.used(wanted))
        elif isinstance(reader, HasChecksums):
            known = frozenset(wanted)
            yield from ((name, run) for run in reader.checked() if run.storage in known)


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
    found = [*_hidden_archives(source), *_nested_archives([run for _, run in runs]), *_holes(source)]
    found += _odd_truth(source, cancelled)
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
    return [*found, *published, *_changed(source), *_without(sorted(blind - sure), bare)]


def changed_files(source: Source) -> list[str]:
    """Return the files of a source that are not as they were when it was opened: written, replaced, or gone."""
    return [file.path for file in source.files if file.identity and not _is_same(file)]


def _is_same(file: SourceFile) -> bool:
    try:
        return identity_of(os.stat(file.path)) == tuple(file.identity)
    except OSError:
        return False


def _changed(source: Source) -> list[Finding]:
    found = changed_files(source)
    if not found:
        return []
    message = f"{_names(found)} changed since it was opened; what is said here is about what was read before."
    return [Finding("damaged", "error", message, fix="Open it again once no other program writes to it.")]


def _report(progress: Progress | None, cancelled: Callable[[], bool] | None, total: int, done: int, more: int) -> None:
    if cancelled and cancelled():
        raise Cancelled
    if progress:
        progress("Comparing checksums", done + more, total)


def _check(run: Checked, tick: Callable[[int], None]) -> str | None:
    """Return what is wrong with a run of bytes, or None."""
    buffer = bytearray(min(BLOCK, run.nbytes))
    crc = 0
    for start in range(0, max(run.nbytes, 1), BLOCK):  # of an empty one the header is read all the same
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


def _nested_archives(runs: list[Checked]) -> list[Finding]:
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


def _holes(source: Source) -> list[Finding]:
    """Find bytes between the records of archives: something may be hidden there."""
    holes = {name: reader.unclaimed() for name, reader in source.readers.items() if isinstance(reader, HasRecords)}
    return [
        Finding(
            "trailing-bytes",
            "warning",
            f"{show_path(name)} has {count:,} bytes between its records that belong to none of them.",
            fix="The export leaves the extra bytes out.",
        )
        for name, count in holes.items()
        if count
    ]


def _odd_truth(source: Source, cancelled: Callable[[], bool] | None) -> list[Finding]:
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
