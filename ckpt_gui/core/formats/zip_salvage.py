"""The whole records of a torch archive that has lost its directory, found by their local headers.

Torch writes sizes behind the data, where they are known, and not before it. The pickle, which comes first, says how
long each storage is; with that the walk goes from record to record.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import NamedTuple

from ckpt_gui.core.dtypes import BY_NAME
from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.formats.file_errors import show_path
from ckpt_gui.core.formats.files import HeldFile
from ckpt_gui.core.formats.npz import salvage_npz
from ckpt_gui.core.formats.pickle_files import refusal
from ckpt_gui.core.formats.pickle_load import PickleError, PickleResult, load_pickle
from ckpt_gui.core.formats.torch_file import TorchFile, make_file
from ckpt_gui.core.formats.torch_legacy import StorageNames, lost_tensors
from ckpt_gui.core.formats.torch_zip import TorchZipReader, is_swapped
from ckpt_gui.core.formats.zip_archive import STORED, Archive, Record

_LOCAL = struct.Struct("<4s5H3L2H")
_DESCRIPTOR = b"PK\x07\x08"
_U32 = 0xFFFFFFFF
MAX_SMALL = 4096
MAX_RECORDS = 1 << 20
WINDOWS = (1 << 20, 1 << 24, 1 << 28)


class _Header(NamedTuple):
    """A local header; `size` is -1 where it stands behind the data."""

    name: str
    method: int
    crc: int
    packed: int
    size: int
    start: int


def salvage_zip(file: HeldFile, name: str) -> TorchFile:
    """List the whole tensors of a torch archive that is cut short or has lost its directory.

    Args:
        file: The open file.
        name: What the refs shall call it.

    Raises:
        CheckpointError: Not even the pickle that describes the tensors is whole; `unsafe-pickle` if it is an attack.
    """
    walk = _Walk(file)
    walk.run()
    if walk.pickle is None and walk.is_npz():
        return salvage_npz(Archive(file, walk.root or "", walk.records, file.size, 0), name, walk.cut)
    if walk.unsafe:
        raise refusal(file, walk.unsafe)
    if walk.pickle is None:
        text = f"{show_path(file.path)} is cut short before the end of its pickle; no tensor can be listed."
        raise CheckpointError("truncated", text, fix="Download or copy it again.", path=file.path)
    archive = Archive(file, walk.root or "", walk.records, file.size, 0)
    storages = {key[5:]: record for key, record in walk.records.items() if key.startswith("data/")}
    for record in storages.values():
        archive.check_ratio(record)
    swapped = is_swapped(archive)
    checksums = {(name, key): (r.size, r.crc) for key, r in storages.items() if r.crc and not swapped}
    reader = TorchZipReader(archive, swapped=swapped)
    sizes = {key: record.size for key, record in storages.items()}
    return lost_tensors(make_file("torch-zip", name, reader, sizes, walk.pickle, checksums), file)


class _Walk:
    """One walk over the records of a file."""

    def __init__(self, file: HeldFile) -> None:
        self.file = file
        self.root: str | None = None
        self.cut: tuple[str, ...] = ()  # the record in which the file ends
        self.records: dict[str, Record] = {}
        self.pickle: PickleResult | None = None
        self.unsafe: tuple[str, ...] = ()  # what a pickle that is not whole names
        self._sizes: Mapping[str, int] = {}

    def run(self) -> None:
        at = 0
        for _ in range(MAX_RECORDS):
            header = self._header(at)
            if header is None:
                return
            root, slash, key = header.name.partition("/")
            if not slash or header.name.endswith(".npy"):  # arrays may lie in folders of any name
                root, key = "", header.name
            self.root = root if self.root is None else self.root
            if root != self.root or not key or key in self.records:
                return
            found = self._measure(header, key)
            if found is None or header.start + found[0] > self.file.size:
                self.cut = (header.name,)
                return
            size, crc, following = found
            whole = size if header.method == STORED else header.size
            self.records[key] = Record(header.name, header.method, crc, size, whole, at)
            at = following

    def is_npz(self) -> bool:
        """True if what was found is arrays of NumPy."""
        return bool(self.records) and all(name.endswith(".npy") for name in (*self.records, *self.cut))

    def _header(self, at: int) -> _Header | None:
        if at + _LOCAL.size > self.file.size:
            return None
        fields = _LOCAL.unpack(self.file.read(at, _LOCAL.size))
        magic, _, flags, method, _, _, crc, packed, size, name_length, extra_length = fields
        start = at + _LOCAL.size + name_length + extra_length
        if magic != b"PK\x03\x04" or flags & 0x2041 or start > self.file.size or method not in (0, 8):
            return None
        raw = self.file.read(at + _LOCAL.size, name_length)
        if flags & 8 and not size:
            size = packed = -1
        elif size == _U32:
            size, packed = self._zip64(at + _LOCAL.size + name_length, extra_length)
        return _Header(raw.decode("utf-8", "backslashreplace"), method, crc, packed, size, start)

    def _zip64(self, at: int, length: int) -> tuple[int, int]:
        extra = self.file.read(at, length)
        while len(extra) >= 4:
            kind, count = struct.unpack_from("<HH", extra)
            if kind == 1 and count >= 16 and len(extra) >= 20:
                size, packed = struct.unpack_from("<QQ", extra, 4)
                return size, packed
            extra = extra[4 + count :]
        return -1, -1

    def _measure(self, header: _Header, key: str) -> tuple[int, int, int] | None:
        """Return the bytes that a record takes, its CRC-32, and where the next one begins; None if it is not whole."""
        if header.size >= 0:
            end = header.start + header.packed
            if end > self.file.size:
                if key == "data.pkl":
                    self._read_pickle(header, None)  # for what it names up to there
                return None
            if key == "data.pkl":
                self._read_pickle(header, header.packed)
            return header.packed, header.crc, end
        if header.method != STORED:
            return None
        size = self._size(header, key)
        return None if size is None else self._descriptor(header.start + size, size)

    def _size(self, header: _Header, key: str) -> int | None:
        if key == "data.pkl":
            return self._read_pickle(header, None)
        if key.startswith("data/"):
            return self._sizes.get(key[5:])
        head = self.file.read(header.start, min(MAX_SMALL, self.file.size - header.start))
        at = head.find(_DESCRIPTOR)
        return at if at >= 0 else None

    def _descriptor(self, at: int, size: int) -> tuple[int, int, int] | None:
        """Read what stands behind the data: CRC-32 and sizes, of 4 or 8 bytes each."""
        data = self.file.read(at, min(24, max(self.file.size - at, 0))) if at <= self.file.size else b""
        if at > self.file.size:
            return None
        if data[:4] != _DESCRIPTOR or len(data) < 16:  # the data is whole, what follows it is not
            return size, 0, self.file.size
        crc = int.from_bytes(data[4:8], "little")
        large = len(data) >= 24 and struct.unpack_from("<Q", data, 8)[0] == size
        return size, crc, at + (24 if large else 16)

    def _read_pickle(self, header: _Header, size: int | None) -> int | None:
        """Read the pickle; return its length, which nothing else may tell."""
        left = self.file.size - header.start if size is None else size
        for window in WINDOWS:
            names = StorageNames()
            try:
                data = self.file.read(header.start, min(window, left))
                result = load_pickle(data, persistent=names.find) if header.method == STORED else None
            except PickleError as error:
                if window >= left:
                    self.unsafe = error.unsafe
                    return None
                continue
            if result is None:
                return None
            self.pickle = result
            self._sizes = {k: i.numel * (BY_NAME[i.dtype].itemsize if i.dtype else 1) for k, i in names.known.items()}
            return result.end
        return None
