"""Laying out a zip archive as torch writes it (PKWARE APPNOTE 6.3): stored records, data aligned to 64 bytes.

Unlike torch, every header carries its CRC-32 and sizes in place, and nothing depends on the time: the same tensors give
the same file. Padding is a field `FB` in the local header, as torch has it.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence

from ckpt_gui.core.formats.layout import FileLayout
from ckpt_gui.dataclasses import dataclass

ALIGNMENT = 64
_U16, _U32 = 0xFFFF, 0xFFFFFFFF
_DATE = 0x21  # 1 January 1980, the earliest there is
_UTF8 = 0x800


@dataclass(frozen=True, slots=True)
class Entry:
    """A record to be written.

    Attributes:
        name: Its name in the archive.
        size: Its bytes.
        content: What it holds; None for data that is filled in by somebody else.
        label: What it is called in the layout; None for records that the layout writes itself.
    """

    name: str
    size: int
    content: bytes | None = None
    label: str | None = None


@dataclass(frozen=True, slots=True)
class _Placed:
    entry: Entry
    header: int
    data: int


def layout_zip(entries: Sequence[Entry]) -> FileLayout:
    """Place records one after another; headers, directory and small records become patches."""
    placed = []
    at = 0
    for entry in entries:
        data = _data_start(entry, at)
        placed.append(_Placed(entry, at, data))
        at = data + entry.size
    directory = at
    nbytes = directory + len(_directory(placed, directory, {}))
    offsets = {p.entry.label: p.data for p in placed if p.entry.label is not None}
    sizes = {p.entry.label: p.entry.size for p in placed if p.entry.label is not None}
    return FileLayout(nbytes, offsets, sizes, _ZipPatches(tuple(placed), directory))


@dataclass(frozen=True, slots=True)
class _ZipPatches:
    """Headers, small records and directory; a value, so that a layout can be sent to another process."""

    placed: tuple[_Placed, ...]
    directory: int

    def __call__(self, crcs: Mapping[str, int]) -> Iterator[tuple[int, bytes]]:
        known = {p.entry.name: _crc(p.entry, crcs) for p in self.placed}
        for place in self.placed:
            content = place.entry.content or b""
            yield place.header, _local_header(place, known[place.entry.name]) + content
        yield self.directory, _directory(self.placed, self.directory, known)


def _crc(entry: Entry, crcs: Mapping[str, int]) -> int:
    if entry.content is not None:
        return zlib.crc32(entry.content)
    return crcs[entry.label] if entry.label is not None and entry.size else 0


def _data_start(entry: Entry, header: int) -> int:
    """Return the first multiple of 64 that leaves room for the header and a padding field of at least 4 bytes."""
    least = header + 30 + len(entry.name.encode()) + len(_local_zip64(entry)) + 4
    return least + -least % ALIGNMENT


def _local_zip64(entry: Entry) -> bytes:
    return struct.pack("<2H2Q", 1, 16, entry.size, entry.size) if entry.size >= _U32 else b""


def _flags(entry: Entry) -> int:
    return 0 if entry.name.isascii() else _UTF8


def _local_header(place: _Placed, crc: int) -> bytes:
    entry = place.entry
    name = entry.name.encode()
    extra = _local_zip64(entry)
    padding = place.data - place.header - 30 - len(name) - len(extra) - 4
    extra += struct.pack("<2s1H", b"FB", padding) + b"Z" * padding
    size = min(entry.size, _U32)
    version = 45 if entry.size >= _U32 else 20
    fields = (b"PK\x03\x04", version, _flags(entry), 0, 0, _DATE, crc, size, size, len(name), len(extra))
    return struct.pack("<4s5H3L2H", *fields) + name + extra


def _central_header(place: _Placed, crc: int) -> bytes:
    entry = place.entry
    name = entry.name.encode()
    large = [entry.size] * 2 if entry.size >= _U32 else []
    large += [place.header] if place.header >= _U32 else []
    extra = struct.pack(f"<2H{len(large)}Q", 1, 8 * len(large), *large) if large else b""
    size = min(entry.size, _U32)
    version = 45 if large else 20
    fields = (b"PK\x01\x02", version, version, _flags(entry), 0, 0, _DATE, crc, size, size, len(name), len(extra))
    return struct.pack("<4s6H3L5H2L", *fields, 0, 0, 0, 0, min(place.header, _U32)) + name + extra


def _directory(placed: Sequence[_Placed], start: int, crcs: Mapping[str, int]) -> bytes:
    body = b"".join(_central_header(place, crcs.get(place.entry.name, 0)) for place in placed)
    count, size = len(placed), len(body)
    if count >= _U16 or start >= _U32 or size >= _U32:
        end64 = struct.pack("<4sQ2H2L4Q", b"PK\x06\x06", 44, 45, 45, 0, 0, count, count, size, start)
        body += end64 + struct.pack("<4sLQL", b"PK\x06\x07", 0, start + size, 1)
    small = min(count, _U16)
    return body + struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, small, small, min(size, _U32), min(start, _U32), 0)
