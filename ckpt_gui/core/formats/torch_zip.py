"""Torch files since 1.6: a zip archive with one pickle that describes the tensors, and one record a storage.

The pickle is interpreted by `pickle_vm`, which makes nothing but descriptions; the data is read by offset. Torch itself
would check neither that a storage is as large as it claims (when mapped) nor any checksum.
"""

from __future__ import annotations

import gc
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from ckpt_gui.core.dtypes import BY_NAME
from ckpt_gui.core.errors import CheckpointError, Finding
from ckpt_gui.core.formats.files import HeldFile, show_path
from ckpt_gui.core.formats.pickle_vm import MAX_BYTES, PickleResult, load_pickle
from ckpt_gui.core.formats.strided import read_strided
from ckpt_gui.core.formats.torch_layout import layout
from ckpt_gui.core.formats.torch_tree import TreeWalk, find_problems
from ckpt_gui.core.formats.zip_archive import STORED, Archive, Record, read_archive
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.tensors import Extra, TensorRef, check_window

__all__ = ["TorchFile", "TorchZipReader", "layout", "read_torch"]

BLOAT = 1 << 20


@dataclass(frozen=True, slots=True)
class TorchFile:
    """What a torch file holds.

    Attributes:
        reader: Reads the tensors.
        tree: The nested values with refs as leaves.
        refs: The tensors.
        extras: Previews of what is not a tensor.
        problems: What the user should know.
        checksums: Size and CRC-32 by (file, storage); empty if it was written without.
    """

    reader: TorchZipReader
    tree: Any
    refs: tuple[TensorRef, ...]
    extras: tuple[Extra, ...]
    problems: tuple[Finding, ...]
    checksums: Mapping[tuple[str, str], tuple[int, int]]


class TorchZipReader:
    """Reads tensors of one torch file."""

    def __init__(self, archive: Archive) -> None:
        """Keep the open archive; local headers are read when a record is first needed."""
        self._archive = archive
        self._starts: dict[str, int] = {}

    def read_into(self, ref: TensorRef, start: int, out: memoryview) -> None:
        """Fill `out` with bytes of a tensor; see `tensors.Reader`."""
        check_window(ref, start, len(out))
        if not len(out):
            return
        base = self._start(ref.storage) + ref.offset
        file = self._archive.file
        if ref.strides is None:
            file.pread_into(base + start, out)
            return

        def read(offset: int, buffer: memoryview) -> None:
            file.pread_into(base + offset, buffer)

        read_strided(read, ref.shape, ref.strides, BY_NAME[ref.dtype].itemsize, start, out)

    def region(self, ref: TensorRef) -> tuple[int, int]:
        """Return the offset and the length of a tensor's bytes in the file, if it lies row by row.

        Raises:
            CheckpointError: It is a strided view.
        """
        if ref.strides is not None:
            raise CheckpointError("damaged", "A strided tensor is not one run of bytes.", key=ref.full_key)
        return self._start(ref.storage) + ref.offset, ref.nbytes

    def storage_region(self, storage: str) -> tuple[int, int]:
        """Return the offset and the length of a whole storage in the file."""
        return self._start(storage), self._archive.records[f"data/{storage}"].size

    def close(self) -> None:
        """Close the file."""
        self._archive.file.close()

    def _start(self, storage: str) -> int:
        start = self._starts.get(storage)
        if start is None:
            record = self._archive.records[f"data/{storage}"]
            start = self._starts[storage] = self._archive.data_offset(record)
        return start


def read_torch(file: HeldFile, name: str) -> TorchFile:
    """Parse a torch file.

    Args:
        file: The open file.
        name: What the refs shall call it.

    Raises:
        CheckpointError: It is damaged, cannot be read in one way only, or asks for more than is allowed.
    """
    enabled = gc.isenabled()
    gc.disable()  # 1.5 times as fast for 100,000 tensors; cycles of hostile files are few and freed later
    try:
        return _read(file, name)
    finally:
        if enabled:
            gc.enable()


def _read(file: HeldFile, name: str) -> TorchFile:
    archive = read_archive(file)
    pickled = _find_pickle(archive)
    _check_byteorder(archive)
    storages = _storages(archive)
    where = f"{archive.root}/data.pkl in {show_path(file.name)}" if file.name else "data.pkl"
    result = load_pickle(archive.content(pickled, MAX_BYTES), where=safe_text(where, 300))
    walk = TreeWalk(name, {key: record.size for key, record in storages.items()})
    tree = walk.convert(result.value, ())
    problems = find_problems(walk, show_path(file.name))
    problems += _pickle_problems(result, file.name)
    problems += _bloat(walk.refs, walk.sizes, file.name)
    problems += _trailing(archive)
    checksums = _checksums(storages, name)
    reader = TorchZipReader(archive)
    return TorchFile(reader, tree, tuple(walk.refs), _extras(walk), tuple(problems), checksums)


def _find_pickle(archive: Archive) -> Record:
    records = archive.records
    if archive.root and "data.pkl" in records:
        if "constants.pkl" in records:
            _refuse_script(archive)
        return records["data.pkl"]
    path = show_path(archive.file.path)
    if any(name.endswith("/data.pkl") for name in records):
        raise CheckpointError(
            "ambiguous-archive",
            f"{path} can be read in two ways: its records lie in more than one folder.",
            path=archive.file.path,
        )
    what = "a NumPy archive (.npz)" if any(n.endswith(".npy") for n in records) else "a zip archive without data.pkl"
    raise CheckpointError(
        "not-a-checkpoint", f"{path} is {what}, not a checkpoint that can be read here.", path=archive.file.path
    )


def _refuse_script(archive: Archive) -> NoReturn:
    raise CheckpointError(
        "legacy-container",
        f"{show_path(archive.file.path)} is a TorchScript archive; this container is recognised but not read yet.",
        fix="Load it with torch.jit.load and save its state_dict() with torch.save.",
        path=archive.file.path,
    )


def _check_byteorder(archive: Archive) -> None:
    record = archive.records.get("byteorder")
    order = archive.content(record, 64).strip() if record else b"little"
    if order == b"little":
        return
    shown = show_path(archive.file.path)
    if order == b"big":
        raise CheckpointError(
            "legacy-container",
            f"{shown} was written on a big-endian machine; its numbers have to be swapped, which is not done yet.",
            fix="Load it in torch and save it again.",
            path=archive.file.path,
        )
    raise CheckpointError("damaged", f"{shown} is damaged: its byte order is neither little nor big.")


def _storages(archive: Archive) -> dict[str, Record]:
    """Return the records of data by storage key; a deflated one must never be read by offset."""
    found = {name[5:]: record for name, record in archive.records.items() if name.startswith("data/")}
    packed = next((record for record in found.values() if record.method != STORED), None)
    if packed is not None:
        raise CheckpointError(
            "legacy-container",
            f"{show_path(archive.file.path)} was packed again with compression "
            f"(record {safe_text(packed.name)!r}); this is not read yet.",
            fix="Unzip it and zip it again without compression, or load and save it in torch.",
            path=archive.file.path,
        )
    return found


def _pickle_problems(result: PickleResult, name: str) -> list[Finding]:
    found = []
    if result.unsafe:
        names = ", ".join(safe_text(n, 80) for n in result.unsafe[:8])
        what = f"{show_path(name)} would run code in a permissive loader: it names {names}"
        message = f"{what}. Nothing of it was run here."
        fix = "The export holds tensors only. Do not load the file with weights_only=False."
        found.append(Finding("unsafe-pickle", "error", message, keys=result.unsafe, fix=fix))
    others = tuple(n for n in result.foreign if n not in result.unsafe)
    if others:
        names = ", ".join(safe_text(n, 80) for n in others[:8]) + (", …" if len(others) > 8 else "")
        message = f"{show_path(name)} holds objects of other classes, which stay inert here: {names}."
        found.append(Finding("foreign-object", "warning", message, keys=others, fix="The export leaves them out."))
    return found


def _bloat(refs: list[TensorRef], sizes: Mapping[str, int], name: str) -> list[Finding]:
    """Find storages of which the tensors use only a part: a view was saved with all that it was cut from."""
    users: dict[str, list[TensorRef]] = defaultdict(list)
    for ref in refs:
        users[ref.storage].append(ref)
    wasted, keys = 0, []
    for storage, sharing in users.items():
        if sizes[storage] <= BLOAT or any(r.nbytes == sizes[storage] for r in sharing):
            continue
        unused = sizes[storage] - sum({r.place: r.nbytes for r in sharing}.values())
        if unused > BLOAT:
            wasted += unused
            keys += [r.full_key for r in sharing]
    if not keys:
        return []
    what = f"{show_path(name)} carries {wasted:,} bytes that no tensor uses"
    message = f"{what}: views were saved with their whole storage."
    return [Finding("storage-bloat", "warning", message, keys=tuple(keys), fix="The export holds what is used.")]


def _trailing(archive: Archive) -> list[Finding]:
    if not archive.trailing:
        return []
    message = f"{show_path(archive.file.name)} has {archive.trailing:,} bytes after the end of its archive."
    return [Finding("trailing-bytes", "warning", message, fix="The export leaves the extra bytes out.")]


def _checksums(storages: Mapping[str, Record], name: str) -> dict[tuple[str, str], tuple[int, int]]:
    """Torch can be told to write no checksums; then they are all 0, which does not mean that the data is damaged."""
    if not any(record.crc for record in storages.values()):
        return {}
    return {(name, key): (record.size, record.crc) for key, record in storages.items()}


def _extras(walk: TreeWalk) -> tuple[Extra, ...]:
    if not walk.more:
        return tuple(walk.extras)
    return (*walk.extras, Extra((), "more", f"{walk.more:,} more values that are not tensors"))
