"""Comparing every byte with the checksums that a container keeps: torch itself never does.

Only zip archives have checksums; of other files the SHA-256 may be known from where they came (see `published`). Torch
can be told to write none, and then all are zero, which is no damage. Files without any are said to be so: that nothing
was found in them means nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import partial

from ckpt_gui.core.crc import crc32
from ckpt_gui.core.errors import Cancelled, CheckpointError, Finding
from ckpt_gui.core.formats.checked import BLOCK, Checked, HasChecksums, HasParts
from ckpt_gui.core.formats.doubtful import hidden_archives, holes, nested_archives, odd_truth
from ckpt_gui.core.formats.file_errors import show_path
from ckpt_gui.core.formats.places import identity_at, side_by_side
from ckpt_gui.core.formats.published import known_of, verify_published
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.remote.address import is_url
from ckpt_gui.core.source import Source, SourceFile
from ckpt_gui.core.tensors import TensorRef

Progress = Callable[[str, int, int], None]


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
    found = [*hidden_archives(source), *nested_archives([run for _, run in runs]), *holes(source)]
    found += odd_truth(source, cancelled)
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
    files = [file for file in source.files if file.identity]
    same = side_by_side(_is_same, files, remote=any(is_url(file.path) for file in files))
    return [file.path for file, is_same in zip(files, same, strict=True) if not is_same]


def _is_same(file: SourceFile) -> bool:
    try:
        return identity_at(file.path) == tuple(file.identity)
    except (OSError, CheckpointError):
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
        crc = crc32(view, crc)
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
