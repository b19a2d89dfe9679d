"""NumPy archives (`numpy.savez`): a zip archive of `.npy` members, stored or deflated.

Arrays of objects are pickles inside an array; they are named and never opened.
Format: `numpy.lib.format`, versions 1.0 to 3.0.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator
from typing import Any

from ckpt_gui import dataclasses
from ckpt_gui.core.beside import Extra
from ckpt_gui.core.dtypes import DTYPES
from ckpt_gui.core.errors import CheckpointError, Finding
from ckpt_gui.core.formats.checked import Checked
from ckpt_gui.core.formats.file_errors import show_path
from ckpt_gui.core.formats.npy_header import MAGIC, MAX_START, data_start, header_width
from ckpt_gui.core.formats.pickle_files import unsafe_in
from ckpt_gui.core.formats.torch_file import TorchFile
from ckpt_gui.core.formats.torch_zip import ZipReader, record_checksums
from ckpt_gui.core.formats.trailing import find_trailing
from ckpt_gui.core.formats.zip_archive import STORED, Archive, Record
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.strides import normal_strides
from ckpt_gui.core.tensors import TensorRef

MAX_OBJECTS = 8 << 20  # of an array of objects that is looked through
_TYPES = {
    **{f"f{d.itemsize}": d.name for d in DTYPES if d.name in ("fp16", "fp32", "fp64")},
    **{f"{d.name[0]}{d.itemsize}": d.name for d in DTYPES if d.name[0] in "iu" and d.kind == "int"},
    **{"b1": "bool", "c8": "c64", "c16": "c128"},
}


class NpzReader(ZipReader):
    """Reads arrays of one archive."""

    def __init__(self, archive: Archive) -> None:
        """Keep the open archive."""
        super().__init__(archive)
        self.records = {record.name: record for record in archive.records.values()}
        self.big: set[str] = set()

    def fill(self, storage: str, offset: int, out: memoryview) -> None:
        """Fill `out` with bytes of a member."""
        self.fill_record(self.records[storage], offset, out)

    def checked(self) -> Iterator[Checked]:
        """Yield every member with its checksum, under the name that its array has as a storage."""
        return (run._replace(storage=run.name) for run in super().checked())

    def is_swapped(self, ref: TensorRef) -> bool:
        """True for arrays of big-endian numbers: each says so for itself."""
        return ref.storage in self.big

    def head(self, record: Record, count: int) -> bytes:
        """Return the first bytes of a member, without inflating more of it.

        Raises:
            CheckpointError: It cannot be inflated.
        """
        data = self.file.read(self._start(record), min(record.packed, count + 1024))
        if record.method == STORED:
            return data[:count]
        try:
            return zlib.decompressobj(-15).decompress(data, count)
        except zlib.error as error:
            raise _damaged(self.archive, record, f"cannot be inflated ({error})") from error


def is_npz(archive: Archive) -> bool:
    """True if an archive holds arrays and nothing else."""
    names = [record.name for record in archive.records.values()]
    return bool(names) and all(name.endswith(".npy") for name in names)


def read_npz(archive: Archive, name: str) -> TorchFile:
    """List the arrays of an archive.

    Raises:
        CheckpointError: A member is damaged.
    """
    return _read(archive, name, None)


def salvage_npz(archive: Archive, name: str, cut: tuple[str, ...]) -> TorchFile:
    """List the whole arrays of an archive that has lost its directory.

    Args:
        archive: The whole members.
        name: What the refs shall call it.
        cut: Members that are known not to be whole; what came after them nobody can tell.
    """
    lost = list(cut)
    found = _read(archive, name, lost)
    keys = tuple(member.removesuffix(".npy") for member in lost)
    message = (
        f"{show_path(archive.file.path)} is cut short at {archive.file.size:,} bytes: {len(found.refs):,} arrays are "
        f"whole; those from there on are lost, and without the directory only {len(keys):,} of them can be named."
    )
    finding = Finding("truncated", "error", message, keys, "Download or copy it again.", blocking=True)
    return dataclasses.replace(found, problems=(finding, *found.problems))


def _read(archive: Archive, name: str, lost: list[str] | None) -> TorchFile:
    """List arrays; damaged members are put into `lost` if there is such a list."""
    reader = NpzReader(archive)
    refs, extras = [], []
    unsafe: dict[str, None] = {}
    for record in reader.records.values():
        archive.check_ratio(record)
        try:
            made = _read_member(reader, record, name)
        except CheckpointError:
            if lost is None:
                raise
            lost.append(record.name)
            continue
        if isinstance(made, TensorRef):
            refs.append(made)
        else:
            extras.append(Extra((record.name.removesuffix(".npy"),), "array", made))
            unsafe |= dict.fromkeys(_unsafe_objects(reader, record))
    problems = [*_unsafe(tuple(unsafe), archive), *_unread(extras, archive)]
    problems += find_trailing(archive.file, archive.trailing, "its archive")
    checksums = record_checksums(reader.records, name)
    return TorchFile("npz", reader, None, tuple(refs), tuple(extras), tuple(problems), checksums)


def _read_member(reader: NpzReader, record: Record, file: str) -> TensorRef | str:
    """Return the array of a member, or what it holds instead."""
    head = reader.head(record, MAX_START)
    width, start = header_width(head), data_start(head)
    if head[:6] != MAGIC or head[6] not in (1, 2, 3) or not 8 + width < start <= len(head):
        raise _damaged(reader.archive, record, "is no array")
    descr, fortran, shape = _parse_header(reader, record, head[8 + width : start])
    order, code = (descr[:1], descr[1:]) if isinstance(descr, str) else ("", "")
    if code not in _TYPES or order not in tuple("<>|="):
        return f"an array of {safe_text(str(descr), 60)}, which is not read"
    dtype = next(d for d in DTYPES if d.name == _TYPES[code])
    needed = start + math.prod(shape) * dtype.itemsize
    if needed != record.size:
        what = f"has {record.size:,} bytes, where its shape {list(shape)} needs {needed:,}"
        raise _damaged(reader.archive, record, what)
    if order == ">":
        reader.big.add(record.name)
    columns = tuple(math.prod(shape[:i]) for i in range(len(shape)))
    strides = normal_strides(shape, columns) if fortran else None
    return TensorRef(record.name.removesuffix(".npy"), dtype.name, shape, (), file, record.name, start, strides)


def _parse_header(reader: NpzReader, record: Record, text: bytes) -> tuple[Any, bool, tuple[int, ...]]:
    import ast  # not with every torch file, which this module looks at first

    try:
        header = ast.literal_eval(text.decode("utf-8").strip())
        descr, fortran, shape = header["descr"], header["fortran_order"], header["shape"]
        good = (
            type(fortran) is bool and type(shape) is tuple and all(type(n) is int and 0 <= n < 1 << 63 for n in shape)
        )
    except (ValueError, SyntaxError, KeyError, TypeError, MemoryError, RecursionError):
        good = False
    if not good or len(shape) > 64 or math.prod(shape) >= 1 << 62:
        raise _damaged(reader.archive, record, "has a header that cannot be read")
    return descr, fortran, shape


def _unsafe_objects(reader: NpzReader, record: Record) -> tuple[str, ...]:
    """Return what the pickle inside an array of objects would run."""
    head = reader.head(record, MAX_START)
    start = data_start(head)
    descr, _, _ = _parse_header(reader, record, head[8 + header_width(head) : start])
    if "O" not in str(descr) or record.size > MAX_OBJECTS or record.packed > MAX_OBJECTS:
        return ()
    return unsafe_in(reader.archive.content(record, MAX_OBJECTS)[start:])


def _unsafe(names: tuple[str, ...], archive: Archive) -> list[Finding]:
    if not names:
        return []
    shown = ", ".join(safe_text(name, 80) for name in names[:8])
    message = (
        f"{show_path(archive.file.name)} would run code in a permissive loader: arrays of objects name {shown}. "
        "Nothing of it was run here."
    )
    return [Finding("unsafe-pickle", "error", message, names, "Do not load the file with allow_pickle=True.")]


def _unread(extras: list[Extra], archive: Archive) -> list[Finding]:
    if not extras:
        return []
    first = extras[0]
    message = (
        f"{len(extras):,} arrays in {show_path(archive.file.name)} hold no numbers that can be read here, "
        f"such as `{safe_text(first.path[0])}`: {first.text}."
    )
    keys = tuple(extra.path[0] for extra in extras)
    return [Finding("foreign-object", "warning", message, keys, "The export leaves them out.")]


def _damaged(archive: Archive, record: Record, what: str) -> CheckpointError:
    path = archive.file.path
    return CheckpointError("damaged", f"{show_path(path)} is damaged: `{safe_text(record.name)}` {what}.", path=path)
