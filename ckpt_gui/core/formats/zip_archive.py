"""Zip archives as torch writes them (PKWARE APPNOTE 6.3, sections 4.3 and 4.4), read strictly.

Two zip readers may see two different things in one crafted file: which of two equal names counts, what lies before the
first entry, whether the local or the central header is right. Such a file is refused as ambiguous. Torch's loader and
Python's `zipfile` differ in all three; a scanner that reads with one says nothing about what loads with the other.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn

from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.formats.files import HeldFile, show_path
from ckpt_gui.core.keys import safe_text

STORED, DEFLATED = 0, 8
MAX_RATIO = 200
MAX_INFLATED = 1 << 28
_EOCD = struct.Struct("<4s4H2LH")
_EOCD64 = struct.Struct("<4sQ2H2L4Q")
_LOCATOR = struct.Struct("<4sLQL")
_CENTRAL = struct.Struct("<4s6H3L5H2L")
_LOCAL = struct.Struct("<4s5H3L2H")
_U32 = 0xFFFFFFFF


class Record(NamedTuple):
    """An entry of the central directory.

    Attributes:
        name: As the archive has it.
        method: 0 stored, 8 deflated.
        crc: CRC-32 of the content.
        packed: Bytes in the archive.
        size: Bytes of the content.
        header: Where its local header begins.
    """

    name: str
    method: int
    crc: int
    packed: int
    size: int
    header: int


@dataclass(frozen=True, slots=True)
class Archive:
    """A parsed archive.

    Attributes:
        file: The open file.
        root: The one folder that holds all records; empty if there is none such.
        records: Records by their name below the root.
        directory: Where the central directory begins.
        trailing: Bytes after the end of the archive.
    """

    file: HeldFile
    root: str
    records: Mapping[str, Record]
    directory: int
    trailing: int

    def data_offset(self, record: Record) -> int:
        """Return where a record's bytes begin; reads and checks its local header.

        Raises:
            CheckpointError: The local header says something else than the central directory.
        """
        head = self.file.read(record.header, _LOCAL.size + len(record.name.encode()))
        magic, _, flags, method, _, _, _, packed, size, name_length, extra = _LOCAL.unpack_from(head)
        name = head[_LOCAL.size :]
        start: int = record.header + _LOCAL.size + name_length + extra
        if magic != b"PK\x03\x04":
            _fail(self.file, f"record {safe_text(record.name)!r} has no header at byte {record.header:,}")
        sizes = (packed, size) in ((record.packed, record.size), (_U32, _U32)) or flags & 8
        if name != record.name.encode() or name_length != len(name) or method != record.method or not sizes:
            what = f"record {safe_text(record.name)!r} is described in two different ways"
            _fail(self.file, what, code="ambiguous-archive")
        if start + record.packed > self.directory:
            _fail(self.file, f"record {safe_text(record.name)!r} runs into the directory of the archive")
        return start

    def content(self, record: Record, limit: int) -> bytes:
        """Return a record's bytes, inflated if need be.

        Raises:
            CheckpointError: It is larger than the limit, or its checksum does not fit.
        """
        self.check_ratio(record)
        if record.size > limit:
            what = f"record {safe_text(record.name)!r} has {record.size:,} bytes, more than is read at once"
            _fail(self.file, what, code="limit-exceeded")
        data = self.file.read(self.data_offset(record), record.packed)
        data = data if record.method == STORED else self._inflate(record, data)
        if record.crc and zlib.crc32(data) != record.crc:  # 0: written without checksums
            what = f"record {safe_text(record.name)!r} does not fit its checksum"
            _fail(self.file, what, code="crc-mismatch", fix="Download or copy it again.")
        return data

    def check_ratio(self, record: Record) -> None:
        """Raise if a deflated record claims to inflate as only bombs do.

        Raises:
            CheckpointError: `limit-exceeded`.
        """
        if record.method == DEFLATED and record.size > MAX_INFLATED and record.size > MAX_RATIO * record.packed:
            what = f"record {safe_text(record.name)!r} would inflate from {record.packed:,} to {record.size:,} bytes"
            _fail(self.file, what, code="limit-exceeded")

    def _inflate(self, record: Record, data: bytes) -> bytes:
        try:
            out = zlib.decompressobj(-15).decompress(data, record.size + 1)
        except zlib.error as error:
            raise _error(self.file, f"record {safe_text(record.name)!r} cannot be inflated ({error})") from error
        if len(out) != record.size:
            _fail(self.file, f"record {safe_text(record.name)!r} does not inflate to {record.size:,} bytes")
        return out


def read_archive(file: HeldFile) -> Archive:
    """Parse the central directory of a zip archive.

    Raises:
        CheckpointError: `truncated`, `damaged` or `ambiguous-archive`.
    """
    count, size, start, end = _find_directory(file)
    directory = file.read(start, size)
    records = _read_records(file, directory, count)
    _check_places(file, records, start)
    root = _check_names(file, records)
    below = {r.name[len(root) + 1 :] if root else r.name: r for r in records}
    return Archive(file, root, below, start, file.size - end)


def _find_directory(file: HeldFile) -> tuple[int, int, int, int]:
    """Return the number of entries, the size and start of the directory, and where the archive ends."""
    window = min(file.size, _EOCD.size + 0xFFFF + 4096)
    tail = file.read(file.size - window, window)
    at = tail.rfind(b"PK\x05\x06")
    if at < 0 or at + _EOCD.size > len(tail):
        _fail(
            file,
            f"the directory at its end is missing ({file.size:,} bytes are there), so no tensor can be listed",
            code="truncated",
            fix="Download or copy it again.",
        )
    _, disk, start_disk, here, count, size, start, comment = _EOCD.unpack_from(tail, at)
    end = file.size - window + at
    if (disk or start_disk or here != count) and disk != 0xFFFF and count != 0xFFFF:
        _fail(file, "it is one part of a split archive")
    if _U32 in (size, start) or count == 0xFFFF or tail[at - _LOCATOR.size : at][:4] == b"PK\x06\x07":
        count, size, start = _read_zip64(file, end)
    if start + size > end or end + _EOCD.size + comment > file.size:
        _fail(file, "its directory lies outside the file")
    return count, size, start, end + _EOCD.size + comment


def _read_zip64(file: HeldFile, end: int) -> tuple[int, int, int]:
    if end < _LOCATOR.size + _EOCD64.size:
        _fail(file, "its directory (zip64) is missing")
    magic, _, at, _ = _LOCATOR.unpack(file.read(end - _LOCATOR.size, _LOCATOR.size))
    if magic != b"PK\x06\x07" or at + _EOCD64.size > end:
        _fail(file, "its directory (zip64) is missing")
    magic, _, _, _, disk, start_disk, here, count, size, start = _EOCD64.unpack(file.read(at, _EOCD64.size))
    if magic != b"PK\x06\x06" or disk or start_disk or here != count:
        _fail(file, "its directory (zip64) is damaged")
    return count, size, start


def _read_records(file: HeldFile, directory: bytes, count: int) -> list[Record]:
    records: list[Record] = []
    at = 0
    while at < len(directory):
        if at + _CENTRAL.size > len(directory):
            _fail(file, "its directory ends too early")
        fields = _CENTRAL.unpack_from(directory, at)
        if fields[0] != b"PK\x01\x02":
            _fail(file, f"entry {len(records):,} of its directory is damaged")
        at += _CENTRAL.size
        name_length, extra_length, comment_length = fields[10:13]
        name = directory[at : at + name_length]
        extra = directory[at + name_length : at + name_length + extra_length]
        at += name_length + extra_length + comment_length
        records.append(_record(file, fields, name, extra))
    if at != len(directory) or len(records) != count:
        _fail(file, f"its directory holds {len(records):,} entries instead of {count:,}", code="ambiguous-archive")
    return records


def _record(file: HeldFile, fields: tuple[Any, ...], raw: bytes, extra: bytes) -> Record:
    flags, method, crc, packed, size, start = fields[3], fields[4], fields[7], fields[8], fields[9], fields[16]
    try:
        name = raw.decode("utf-8")
    except UnicodeDecodeError:
        name = raw.decode("cp437")
    if flags & 0x2041:
        _fail(file, f"record {safe_text(name)!r} is encrypted", fix="Save it without a password.")
    if method not in (STORED, DEFLATED):
        _fail(file, f"record {safe_text(name)!r} is packed by method {method}, which torch does not write")
    if fields[15] & 0x10 and size:  # torch then returns whatever lies in memory
        _fail(file, f"record {safe_text(name)!r} is marked as a folder but has content", code="ambiguous-archive")
    if _U32 in (packed, size, start):
        size, packed, start = _zip64_fields(file, name, extra, (size, packed, start))
    if method == STORED and packed != size:
        _fail(file, f"record {safe_text(name)!r} has two sizes", code="ambiguous-archive")
    return Record(name, method, crc, packed, size, start)


def _zip64_fields(file: HeldFile, name: str, extra: bytes, values: tuple[int, int, int]) -> tuple[int, ...]:
    """Return size, packed size and header offset, those that are 0xFFFFFFFF taken from the zip64 field."""
    at = 0
    while at + 4 <= len(extra):
        kind, length = struct.unpack_from("<HH", extra, at)
        body = extra[at + 4 : at + 4 + length]
        if kind == 1:
            wanted = sum(v == _U32 for v in values)
            if len(body) < 8 * wanted:
                break
            numbers = iter(struct.unpack_from(f"<{wanted}Q", body))
            return tuple(next(numbers) if v == _U32 else v for v in values)
        at += 4 + length
    _fail(file, f"record {safe_text(name)!r} lacks its size (zip64)")


def _check_places(file: HeldFile, records: list[Record], directory: int) -> None:
    end, before = 0, ""
    for record in sorted(records, key=lambda r: r.header):
        if record.header < end:
            what = f"records {safe_text(before)!r} and {safe_text(record.name)!r} overlap"
            _fail(file, what, code="ambiguous-archive")
        end = record.header + _LOCAL.size + len(record.name.encode()) + record.packed
        before = record.name
    if end > directory:
        _fail(file, f"record {safe_text(before)!r} runs into the directory of the archive")
    if records and min(r.header for r in records) != 0:
        _fail(file, "something lies before its first record", code="ambiguous-archive")


def _check_names(file: HeldFile, records: list[Record]) -> str:
    """Return the one root folder; refuse names that stand twice or lead out of it."""
    names = {r.name for r in records}
    if len(names) != len(records):
        seen: set[str] = set()
        twice = next(r.name for r in records if r.name in seen or seen.add(r.name))  # type: ignore[func-returns-value]
        _fail(file, f"record {safe_text(twice)!r} stands twice", code="ambiguous-archive")
    for name in names:
        if name.startswith("/") or "\\" in name or "\x00" in name or ".." in name.split("/"):
            _fail(file, f"record {safe_text(name)!r} would lead out of the archive", code="ambiguous-archive")
    roots = {name.partition("/")[0] for name in names}
    return roots.pop() if len(roots) == 1 else ""


def _error(file: HeldFile, what: str, *, code: str = "damaged", fix: str | None = None) -> CheckpointError:
    states = {"truncated": "is cut short", "ambiguous-archive": "can be read in two ways"}
    state = (states | {"limit-exceeded": "asks for more than is allowed"}).get(code, "is damaged")
    return CheckpointError(code, f"{show_path(file.path)} {state}: {what}.", fix=fix, path=file.path)


def _fail(file: HeldFile, what: str, *, code: str = "damaged", fix: str | None = None) -> NoReturn:
    raise _error(file, what, code=code, fix=fix)
