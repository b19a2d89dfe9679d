"""Counts of tensors and comparisons of pairs, kept in the user's cache: what was read before is there at once.

An entry is named by a digest of what was read: the identity of the files (device, inode, size, times), the tensor's
place in them, and the version of this form. An entry that is damaged, or does not add up to its tensor, is as good as
none. The oldest are removed where they take more than `MOST_BYTES`.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import struct
import threading
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ckpt_gui import dataclasses
from ckpt_gui.core.source import Source
from ckpt_gui.core.stats.elements import Array
from ckpt_gui.core.stats.figures import PairStats
from ckpt_gui.core.stats.kept import pair_of
from ckpt_gui.core.stats.tally import tally_for
from ckpt_gui.core.stats.tally_base import Tally
from ckpt_gui.core.tensors import TensorRef
from ckpt_gui.dataclasses import dataclass, field

VERSION = 1
MOST_BYTES = 256 << 20
LEAST_BYTES = 1 << 20  # smaller tensors are read as quickly as their entry
_TRIM_EVERY = 64
_ARRAYS = {"patterns": "u2", "buckets": "u2", "counts": "u8", "kept": "f8"}
_LARGEST_ENTRY, _LARGEST_BODY = 4 << 20, 16 << 20


def default_folder() -> Path:
    """Return where entries are kept."""
    from platformdirs import user_cache_path

    return user_cache_path("ckpt_gui", appauthor=False) / "statistics"


@dataclass(slots=True)
class StatsCache:
    """Entries in a folder.

    Attributes:
        folder: Where they are; made when the first is written.
        most_bytes: What they may take together.
    """

    folder: Path = field(default_factory=default_folder)
    most_bytes: int = MOST_BYTES
    _written: int = 0

    def load(self, source: Source, ref: TensorRef) -> Tally | None:
        """Return the tally that was kept of a tensor; None if there is none that fits."""
        tally = tally_for(ref)
        path = self._path(ref.nbytes, (source, ref))
        return tally if path is not None and self._taken(path, lambda data: tally.restore(*_unpack(data))) else None

    def keep(self, source: Source, ref: TensorRef, tally: Tally) -> None:
        """Write the tally of a tensor; a disk that can not be written to is no fault."""
        path = self._path(ref.nbytes, (source, ref))
        if path is not None:
            self._write(path, _pack(*tally.state()))

    def load_pair(self, source: Source, a: TensorRef, other: Source, b: TensorRef) -> PairStats | None:
        """Return the comparison that was kept of two tensors; None if there is none that fits."""
        found: list[PairStats] = []
        path = self._path(a.nbytes, (source, a), (other, b))
        if path is None or not self._taken(path, lambda data: found.append(pair_of(_unpack(data)[0], a, b))):
            return None
        return found[0]

    def keep_pair(self, source: Source, a: TensorRef, other: Source, b: TensorRef, pair: PairStats) -> None:
        """Write a comparison; a disk that can not be written to is no fault."""
        path = self._path(a.nbytes, (source, a), (other, b))
        if path is not None:
            self._write(path, _pack(dataclasses.asdict(pair), {}))

    def _taken(self, path: Path, take: Callable[[bytes], None]) -> bool:
        """Hand an entry over; one that is damaged is removed."""
        try:
            if path.stat().st_size > _LARGEST_ENTRY:
                return False
            take(path.read_bytes())
            os.utime(path)  # what was used last goes last
        except OSError:
            return False
        except (ValueError, KeyError, TypeError, IndexError, AttributeError, struct.error, zlib.error):
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)
            return False
        return True

    def _write(self, path: Path, data: bytes) -> None:
        part = path.with_suffix(f".{os.getpid()}.{threading.get_ident()}.part")
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            part.write_bytes(data)
            os.replace(part, path)
        except OSError:
            with contextlib.suppress(OSError):
                part.unlink(missing_ok=True)
        self._written += 1
        if self._written % _TRIM_EVERY == 1:
            self.trim()

    def trim(self) -> None:
        """Remove the entries that were used longest ago, until the rest takes no more than it may."""
        entries = []
        for path in self.folder.glob("*.stats"):
            try:
                found = path.stat()
            except OSError:  # another process was quicker
                continue
            entries.append((found.st_mtime_ns, found.st_size, path))
        taken = sum(size for _, size, _ in entries)
        for _, size, path in sorted(entries):
            if taken <= self.most_bytes:
                break
            path.unlink(missing_ok=True)
            taken -= size

    def _path(self, nbytes: int, *parts: tuple[Source, TensorRef]) -> Path | None:
        """Return the file of an entry; None for what is too small, or whose files have no identity."""
        names: list[object] = [VERSION]
        for source, ref in parts:
            identity = _identity(source, ref)
            if identity is None or nbytes < LEAST_BYTES:
                return None
            names += [identity, ref.path, ref.dtype, ref.shape, ref.storage, ref.offset, ref.strides]
        return self.folder / f"{hashlib.sha256(repr(names).encode('utf-8', 'surrogatepass')).hexdigest()}.stats"


def _identity(source: Source, ref: TensorRef) -> tuple[object, ...] | None:
    """Return what tells the bytes of a tensor from others: its file, or all files where several are put together."""
    own = tuple(file.identity for file in source.files if file.name == ref.file)
    found = own or tuple(file.identity for file in source.files)
    return (source.container, *found) if found and all(found) else None


def _pack(plain: dict[str, object], arrays: dict[str, Array]) -> bytes:
    head = json.dumps({"plain": plain, "sizes": {name: array.size for name, array in arrays.items()}}).encode()
    body = b"".join(array.astype(f"<{_ARRAYS[name]}").tobytes() for name, array in arrays.items())
    data = struct.pack("<I", len(head)) + head + zlib.compress(body, 1)
    return struct.pack("<I", zlib.crc32(data)) + data


def _unpack(data: bytes) -> tuple[dict[str, Any], dict[str, Array]]:
    """Take an entry apart.

    Raises:
        ValueError, KeyError, TypeError, struct.error, zlib.error: It is damaged.
    """
    crc, length = struct.unpack_from("<II", data)
    if zlib.crc32(data[4:]) != crc:
        raise ValueError("damaged")
    head = json.loads(data[8 : 8 + length])
    kinds = {name: np.dtype(f"<{_ARRAYS[name]}") for name in head["sizes"]}
    total = sum(size * kinds[name].itemsize for name, size in head["sizes"].items())
    body = zlib.decompressobj().decompress(data[8 + length :], min(total, _LARGEST_BODY))
    arrays, at = {}, 0
    for name, size in head["sizes"].items():
        kind = kinds[name]
        arrays[name] = np.frombuffer(body, kind, size, at)
        at += size * kind.itemsize
    return head["plain"], arrays
