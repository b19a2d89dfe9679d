"""The central directory of a zip archive, read strictly (PKWARE APPNOTE 6.3, sections 4.3 and 4.4)."""

from __future__ import annotations

import struct
from itertools import starmap

from ckpt_gui.core.formats.file_errors import SALVAGE_FIX
from ckpt_gui.core.formats.files import HeldFile
from ckpt_gui.core.formats.zip_archive import DEFLATED, LOCAL, STORED, U32, Archive, Record, fail
from ckpt_gui.core.keys import safe_text

_EOCD = struct.Struct("<4s4H2LH")
_EOCD64 = struct.Struct("<4sQ2H2L4Q")
_LOCATOR = struct.Struct("<4sLQL")
_SUSPECT = ("\n/", "\\", "\x00", "..")  # looked for in all names at once
_NEWEST = 63  # tenths of the version of the format that is needed
_CENTRAL = struct.Struct("<4s2x3H4x3L4H2x2L")  # without the writer's version, times and internal attributes


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
        fail(
            file,
            f"the directory at its end is missing ({file.size:,} bytes are there)",
            code="truncated",
            fix=SALVAGE_FIX,
        )
    _, disk, start_disk, here, count, size, start, comment = _EOCD.unpack_from(tail, at)
    end = file.size - window + at
    is_large = U32 in (size, start) or count == 0xFFFF or tail[at - _LOCATOR.size : at][:4] == b"PK\x06\x07"
    if not {disk, start_disk} <= ({0, 0xFFFF} if is_large else {0}) or here != count:
        fail(file, "it is one part of a split archive")
    if is_large:
        count, size, start = _read_zip64(file, end)
    if start + size > end or end + _EOCD.size + comment > file.size:
        fail(file, "its directory lies outside the file")
    return count, size, start, end + _EOCD.size + comment


def _read_zip64(file: HeldFile, end: int) -> tuple[int, int, int]:
    if end < _LOCATOR.size + _EOCD64.size:
        fail(file, "its directory (zip64) is missing")
    magic, disk, at, disks = _LOCATOR.unpack(file.read(end - _LOCATOR.size, _LOCATOR.size))
    if magic != b"PK\x06\x07" or at + _EOCD64.size > end:
        fail(file, "its directory (zip64) is missing")
    if disk or disks > 1:
        fail(file, "it is one part of a split archive")
    magic, _, _, _, disk, start_disk, here, count, size, start = _EOCD64.unpack(file.read(at, _EOCD64.size))
    if magic != b"PK\x06\x06" or disk or start_disk or here != count:
        fail(file, "its directory (zip64) is damaged")
    return count, size, start


def _read_records(file: HeldFile, directory: bytes, count: int) -> list[Record]:
    """Return the entries; the fields that are the same for nearly all of them are looked at once a kind."""
    records: list[tuple[str, int, int, int, int, int]] = []
    checked: set[tuple[int, ...]] = set()
    unpack, size_of_entry, end = _CENTRAL.unpack_from, _CENTRAL.size, len(directory)
    at = 0
    while at < end:
        if at + size_of_entry > end:
            fail(file, "its directory ends too early")
        fields = unpack(directory, at)
        magic, version, flags, method, crc, packed, size, named, more, comment, disk, outer, start = fields
        if magic != b"PK\x01\x02":
            fail(file, f"entry {len(records):,} of its directory is damaged")
        at += size_of_entry
        raw = directory[at : at + named]
        name = raw.decode() if raw.isascii() else _name(raw)
        at += named + more + comment
        kind = (version, flags, method, disk)
        if kind not in checked:
            _check_kind(file, name, *kind)
            checked.add(kind)
        if outer & 0x10 and size:  # torch then returns whatever lies in memory
            what = f"record `{safe_text(name)}` is marked as a folder but has content"
            fail(file, what, code="ambiguous-archive")
        if packed == U32 or size == U32 or start == U32:
            extra = directory[at - more - comment : at - comment]
            size, packed, start = _zip64_fields(file, name, extra, (size, packed, start))
        if method == STORED and packed != size:
            fail(file, f"record `{safe_text(name)}` has two sizes", code="ambiguous-archive")
        records.append((name, method, crc, packed, size, start))
    if at != end or len(records) != count:
        fail(file, f"its directory holds {len(records):,} entries instead of {count:,}", code="ambiguous-archive")
    return list(starmap(Record, records))


def _name(raw: bytes) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return raw.decode("cp437")


def _check_kind(file: HeldFile, name: str, version: int, flags: int, method: int, disk: int) -> None:
    """Raise for records that no reader of today reads, or that torch does not write."""
    if flags & 0x2041:
        fail(file, f"record `{safe_text(name)}` is encrypted", fix="Save it without a password.")
    if version & 0xFF > _NEWEST:
        fail(file, f"record `{safe_text(name)}` asks for version {(version & 0xFF) / 10} of the format")
    if flags & 0x20:
        fail(file, f"record `{safe_text(name)}` is a patch to another file")
    if disk > 1:
        fail(file, f"record `{safe_text(name)}` lies in another part of a split archive")
    if method not in (STORED, DEFLATED):
        fail(file, f"record `{safe_text(name)}` is packed by method {method}, which torch does not write")


def _zip64_fields(file: HeldFile, name: str, extra: bytes, values: tuple[int, int, int]) -> tuple[int, ...]:
    """Return size, packed size and header offset, those that are 0xFFFFFFFF taken from the zip64 field."""
    at = 0
    while at + 4 <= len(extra):
        kind, length = struct.unpack_from("<HH", extra, at)
        body = extra[at + 4 : at + 4 + length]
        if kind == 1:
            wanted = sum(v == U32 for v in values)
            if len(body) < 8 * wanted:
                break
            numbers = iter(struct.unpack_from(f"<{wanted}Q", body))
            return tuple(next(numbers) if v == U32 else v for v in values)
        at += 4 + length
    fail(file, f"record `{safe_text(name)}` lacks its size (zip64)")


def _check_places(file: HeldFile, records: list[Record], directory: int) -> None:
    end, before = 0, ""
    for record in sorted(records, key=lambda r: r.header):
        if record.header < end:
            what = f"records `{safe_text(before)}` and `{safe_text(record.name)}` overlap"
            fail(file, what, code="ambiguous-archive")
        end = record.header + LOCAL.size + len(record.name.encode()) + record.packed
        before = record.name
    if end > directory:
        fail(file, f"record `{safe_text(before)}` runs into the directory of the archive")
    if records and min(r.header for r in records) != 0:
        fail(file, "something lies before its first record", code="ambiguous-archive")


def _check_names(file: HeldFile, records: list[Record]) -> str:
    """Return the one root folder; refuse names that stand twice or lead out of it."""
    names = [r.name for r in records]
    if len(set(names)) != len(names):
        seen: set[str] = set()
        twice = next(r.name for r in records if r.name in seen or seen.add(r.name))  # type: ignore[func-returns-value]
        fail(file, f"record `{safe_text(twice)}` stands twice", code="ambiguous-archive")
    for name in names if any(map("\n".join(["", *names]).__contains__, _SUSPECT)) else ():
        if name.startswith("/") or "\\" in name or "\x00" in name or ".." in name.split("/"):
            fail(file, f"record `{safe_text(name)}` would lead out of the archive", code="ambiguous-archive")
    root = next(iter(names), "").partition("/")[0]
    below = f"{root}/"
    return root if all(name.startswith(below) or name == root for name in names) else ""
