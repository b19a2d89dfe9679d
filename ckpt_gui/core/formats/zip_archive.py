"""Zip archives as torch writes them (PKWARE APPNOTE 6.3, sections 4.3 and 4.4), read strictly.

Two zip readers may see two different things in one crafted file: which of two equal names counts, what lies before the
first entry, whether the local or the central header is right. Such a file is refused as ambiguous. Torch's loader and
Python's `zipfile` differ in all three; a scanner that reads with one says nothing about what loads with the other.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping
from typing import NamedTuple, NoReturn

from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.formats.file_errors import show_path
from ckpt_gui.core.formats.files import HeldFile
from ckpt_gui.core.keys import safe_text
from ckpt_gui.dataclasses import dataclass

STORED, DEFLATED = 0, 8
MAX_RATIO = 200
MAX_INFLATED = 1 << 28
LOCAL = struct.Struct("<4s5H3L2H")
U32 = 0xFFFFFFFF
DESCRIPTOR = 24  # bytes that may stand behind a record: its checksum and sizes


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
        head = self.file.read(record.header, LOCAL.size + len(record.name.encode()))
        magic, _, flags, method, _, _, _, packed, size, name_length, extra = LOCAL.unpack_from(head)
        name = head[LOCAL.size :]
        start: int = record.header + LOCAL.size + name_length + extra
        if magic != b"PK\x03\x04":
            fail(self.file, f"record `{safe_text(record.name)}` has no header at byte {record.header:,}")
        sizes = (packed, size) in ((record.packed, record.size), (U32, U32)) or flags & 8
        if name != record.name.encode() or name_length != len(name) or method != record.method or not sizes:
            what = f"record `{safe_text(record.name)}` is described in two different ways"
            fail(self.file, what, code="ambiguous-archive")
        if start + record.packed > self.directory:
            fail(self.file, f"record `{safe_text(record.name)}` runs into the directory of the archive")
        return start

    def unclaimed(self) -> int:
        """Return how many bytes before the directory belong to no record; reads every local header.

        Raises:
            CheckpointError: A local header is not as it should be.
        """
        found, end = 0, 0
        for record in sorted(self.records.values(), key=lambda r: r.header):
            gap = record.header - end
            found += gap if gap > DESCRIPTOR else 0
            end = self.data_offset(record) + record.packed
        gap = self.directory - end
        return found + (gap if gap > DESCRIPTOR else 0)

    def content(self, record: Record, limit: int) -> bytes:
        """Return a record's bytes, inflated if need be.

        Raises:
            CheckpointError: It is larger than the limit, or its checksum does not fit.
        """
        self.check_ratio(record)
        if record.size > limit:
            what = f"record `{safe_text(record.name)}` has {record.size:,} bytes, more than is read at once"
            fail(self.file, what, code="limit-exceeded")
        data = self.file.read(self.data_offset(record), record.packed)
        data = data if record.method == STORED else self._inflate(record, data)
        if record.crc and zlib.crc32(data) != record.crc:  # 0: written without checksums
            what = f"record `{safe_text(record.name)}` does not fit its checksum"
            fail(self.file, what, code="crc-mismatch", fix="Download or copy it again.")
        return data

    def check_ratio(self, record: Record) -> None:
        """Raise if a deflated record claims to inflate as only bombs do.

        Raises:
            CheckpointError: `limit-exceeded`.
        """
        if record.method == DEFLATED and record.size > MAX_INFLATED and record.size > MAX_RATIO * record.packed:
            what = f"record `{safe_text(record.name)}` would inflate from {record.packed:,} to {record.size:,} bytes"
            fail(self.file, what, code="limit-exceeded")

    def _inflate(self, record: Record, data: bytes) -> bytes:
        try:
            out = zlib.decompressobj(-15).decompress(data, record.size + 1)
        except zlib.error as error:
            raise archive_error(self.file, f"record `{safe_text(record.name)}` cannot be inflated ({error})") from error
        if len(out) != record.size:
            fail(self.file, f"record `{safe_text(record.name)}` does not inflate to {record.size:,} bytes")
        return out


def archive_error(file: HeldFile, what: str, *, code: str = "damaged", fix: str | None = None) -> CheckpointError:
    """Return the error for a bad archive."""
    states = {"truncated": "is cut short", "ambiguous-archive": "can be read in two ways"}
    state = (states | {"limit-exceeded": "asks for more than is allowed"}).get(code, "is damaged")
    return CheckpointError(code, f"{show_path(file.path)} {state}: {what}.", fix=fix, path=file.path)


def fail(file: HeldFile, what: str, *, code: str = "damaged", fix: str | None = None) -> NoReturn:
    """Raise the error for a bad archive."""
    raise archive_error(file, what, code=code, fix=fix)
