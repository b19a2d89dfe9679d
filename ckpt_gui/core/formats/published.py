"""Comparing whole files with the SHA-256 that is known of them from where they came.

safetensors has no checksums of its own, but who publishes a model through Git LFS or the Hugging Face hub publishes a
hash of each file: it is the name of the file in a cache or in a clone's store, stands in the record of a download, or
in a pointer that lies beside. Files are only read; blobs of a cache stay as they are.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple

from ckpt_gui.core.errors import Cancelled, CheckpointError, Finding
from ckpt_gui.core.formats.file_errors import show_path
from ckpt_gui.core.formats.files import HeldFile
from ckpt_gui.core.formats.lfs import MAX_POINTER, SPEC, Pointer, is_pointer, parse_pointer
from ckpt_gui.core.formats.places import open_file
from ckpt_gui.core.remote.address import is_url
from ckpt_gui.core.source import Source, SourceFile

BLOCK = 4 << 20
MAX_BESIDE = 256  # small files of a folder that are looked at for pointers
Progress = Callable[[str, int, int], None]
_SHA256 = re.compile(r"[0-9a-f]{64}\Z")
_STORES = ("blobs", "objects")


class Known(NamedTuple):
    """What is known of a file.

    Attributes:
        sha256: Its SHA-256.
        size: Its bytes; None if that was not published.
        origin: Where that is said, in words.
    """

    sha256: str
    size: int | None
    origin: str


def verify_published(
    source: Source, progress: Progress | None = None, cancelled: Callable[[], bool] | None = None
) -> list[Finding]:
    """Compare every file of a source of which a SHA-256 is known.

    Raises:
        Cancelled: `cancelled` said so.
    """
    known = {file.name: (file, said) for file in source.files if (said := known_of(file)) is not None}
    return _compare(known.values(), progress, cancelled)


def read_pointer(path: str) -> Pointer | None:
    """Return what a Git LFS pointer says; None for any other file."""
    if is_url(path) or not os.path.isfile(path) or os.path.getsize(path) > MAX_POINTER:
        return None
    file = HeldFile(path)
    try:
        return parse_pointer(file.read(0, file.size))
    finally:
        file.close()


def verify_pointer(
    source: Source,
    path: str,
    pointer: Pointer,
    progress: Progress | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> list[Finding]:
    """Compare the one file of a source with the pointer that the user names.

    Raises:
        CheckpointError: The source is of several files.
        Cancelled: `cancelled` said so.
    """
    if len(source.files) != 1:
        text = f"{show_path(path)} is a Git LFS pointer, which stands for one file; this is a model of several."
        raise CheckpointError("lfs-pointer", text, fix="Check that one file against it.", path=path)
    said = Known(pointer.sha256, pointer.size, f"the Git LFS pointer {show_path(path)}")
    return _compare([(source.files[0], said)], progress, cancelled)


def known_of(file: SourceFile) -> Known | None:
    """Return what is known of a file from where it lies; None if nothing is."""
    if is_url(file.path):
        return None
    real = os.path.realpath(file.path)
    store, name = os.path.split(real)
    if _SHA256.match(name) and any(part in _STORES for part in store.split(os.sep)[-3:]):
        return Known(name, None, "its name in the cache")
    return _downloaded(file.path) or _pointer_beside(file)


def _downloaded(path: str) -> Known | None:
    """Return what huggingface_hub notes of a download into a folder: commit, etag and time, a line each."""
    folder, name = os.path.split(path)
    record = os.path.join(folder, ".cache", "huggingface", "download", f"{name}.metadata")
    lines = _small(record).decode("ascii", "replace").split("\n")
    etag = lines[1].strip() if len(lines) > 1 else ""
    return Known(etag, None, "the record of its download") if _SHA256.match(etag) else None


def _pointer_beside(file: SourceFile) -> Known | None:
    """Return what a pointer in the same folder says of the file: one that bears its name, or tells its size."""
    folder = os.path.dirname(os.path.abspath(file.path))
    own = os.path.basename(file.path)
    found = []
    for name in _small_files(folder):
        head = _small(os.path.join(folder, name))
        pointer = parse_pointer(head) if is_pointer(head) else None
        if pointer and (own in name or pointer.size == file.size):
            found.append((own not in name, name, pointer))
    if not found or (len(found) > 1 and found[0][0]):
        return None  # two pointers of that size: nobody can say which is meant
    _, name, pointer = min(found)
    return Known(pointer.sha256, pointer.size, f"the Git LFS pointer {show_path(name)} beside it")


def _small_files(folder: str) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            sizes = [(e.name, e.stat().st_size) for e in entries if e.is_file(follow_symlinks=False)]
    except OSError:
        return []
    return sorted(name for name, size in sizes if len(SPEC) < size <= MAX_POINTER)[:MAX_BESIDE]


def _small(path: str) -> bytes:
    """Return the content of a small file; nothing if it is not there, or larger than it could be."""
    if not os.path.isfile(path):
        return b""
    try:
        file = HeldFile(path)
    except CheckpointError:
        return b""
    try:
        return file.read(0, min(file.size, MAX_POINTER))
    finally:
        file.close()


def _compare(
    known: Iterable[tuple[SourceFile, Known]], progress: Progress | None, cancelled: Callable[[], bool] | None
) -> list[Finding]:
    pairs = list(known)
    total, done = sum(file.size for file, _ in pairs), 0
    found = []
    for file, said in pairs:
        if said.size is not None and said.size != file.size:
            found.append(_wrong(file, said, f"it has {file.size:,} bytes, and {said.size:,} are said"))
        else:
            sha256 = _hash(file, partial(_tick, progress, cancelled, total, done))
            if sha256 == said.sha256:
                message = f"{show_path(file.name)} has the size and SHA-256 ({sha256[:16]}…) that {said.origin} says."
                found.append(Finding("sha256-verified", "info", message))
            else:
                found.append(_wrong(file, said, f"its SHA-256 is {sha256}, and {said.sha256} is said"))
        done += file.size
    return found


def _hash(file: SourceFile, tick: Callable[[int], None]) -> str:
    held = open_file(file.path)
    digest = hashlib.sha256()
    buffer = memoryview(bytearray(min(BLOCK, max(held.size, 1))))
    try:
        for start in range(0, held.size, BLOCK):
            tick(start)
            part = buffer[: min(BLOCK, held.size - start)]
            held.pread_into(start, part)
            digest.update(part)
    finally:
        held.close()
    return digest.hexdigest()


def _tick(progress: Progress | None, cancelled: Callable[[], bool] | None, total: int, before: int, more: int) -> None:
    if cancelled and cancelled():
        raise Cancelled
    if progress:
        progress("Comparing SHA-256", before + more, total)


def _wrong(file: SourceFile, said: Known, what: str) -> Finding:
    message = f"{show_path(file.name)} is not the file that {said.origin} says: {what}."
    fix = "Download it again; what was computed with it since cannot be trusted."
    return Finding("crc-mismatch", "error", message, (), fix, blocking=True)
