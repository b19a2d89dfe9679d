"""Torch files since 1.6: a zip archive with one pickle that describes the tensors, and one record a storage.

The pickle is interpreted by `pickle_vm`, which makes nothing but descriptions; the data is read by offset, or inflated
where somebody packed the archive again. Torch itself would check neither that a storage is as large as it claims (when
mapped) nor any checksum.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ckpt_gui.core.errors import CheckpointError, Finding
from ckpt_gui.core.formats.checked import Checked
from ckpt_gui.core.formats.file_errors import show_path
from ckpt_gui.core.formats.files import HeldFile
from ckpt_gui.core.formats.inflate import InflatedRecord
from ckpt_gui.core.formats.pickle_load import load_pickle
from ckpt_gui.core.formats.pickle_records import refuse_unsafe, stray_pickles
from ckpt_gui.core.formats.torch_file import TorchFile, make_file
from ckpt_gui.core.formats.torch_reader import StorageReader
from ckpt_gui.core.formats.trailing import find_trailing
from ckpt_gui.core.formats.zip_archive import STORED, Archive, Record, archive_error
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.tensors import TensorRef

MAX_PICKLE = 1 << 28  # a million tensors take less; three times as much memory is needed to read it


class ZipReader(StorageReader):
    """Reads tensors whose storages are records of an archive.

    Attributes:
        archive: The archive.
    """

    def __init__(self, archive: Archive, folder: str = "", *, swapped: bool = False) -> None:
        """Keep the open archive; local headers are read when a record is first needed."""
        super().__init__(archive.file, swapped=swapped)
        self.archive = archive
        self._folder = folder
        self._starts: dict[str, int] = {}
        self._inflated: dict[str, InflatedRecord] = {}

    def fill(self, storage: str, offset: int, out: memoryview) -> None:
        """Fill `out` with bytes of a record."""
        self.fill_record(self.archive.records[self._folder + storage], offset, out)

    def fill_record(self, record: Record, offset: int, out: memoryview) -> None:
        """Fill `out` with the content of any record of the archive."""
        start = self._start(record)
        if record.method == STORED:
            self.file.pread_into(start + offset, out)
            return
        held = self._inflated.get(record.name)
        if held is None:
            made = InflatedRecord(self.file, record.name, start, record.packed, record.size, record.crc)
            held = self._inflated.setdefault(record.name, made)
        held.read_into(offset, out)

    def checked(self) -> Iterator[Checked]:
        """Yield every record with its checksum."""
        folder = self._folder
        for key, record in self.archive.records.items():
            storage = key[len(folder) :] if key.startswith(folder) else None

            def fill(start: int, out: memoryview, record: Record = record) -> None:
                self.fill_record(record, start, out)

            yield Checked(self.file.name, record.name, storage, record.size, record.crc, fill)

    def unclaimed(self) -> int:
        """Return how many bytes of the archive belong to no record, as far as its headers can be read."""
        try:
            return self.archive.unclaimed()
        except CheckpointError:  # told by the comparison of checksums
            return 0

    def _start(self, record: Record) -> int:
        start = self._starts.get(record.name)
        if start is None:
            start = self._starts[record.name] = self.archive.data_offset(record)
        return start


class TorchZipReader(ZipReader):
    """Reads tensors of one torch file."""

    def __init__(self, archive: Archive, *, swapped: bool = False) -> None:
        """Keep the open archive."""
        super().__init__(archive, "data/", swapped=swapped)

    def region(self, ref: TensorRef) -> tuple[int, int]:
        """Return the offset and the length of a tensor's bytes in the file, if they lie there as they are.

        Raises:
            CheckpointError: It is a strided view, packed, or in another byte order.
        """
        record = self.archive.records[f"data/{ref.storage}"]
        if ref.strides is not None or record.method != STORED or self.swapped:
            raise CheckpointError("damaged", "The tensor is not one run of bytes in the file.", key=ref.full_key)
        return self._start(record) + ref.offset, ref.nbytes

    def run_of(self, ref: TensorRef) -> tuple[HeldFile, int] | None:
        """Return the file and where a tensor begins, if it lies there as it is; see `tensors.HasRuns`."""
        record = self.archive.records[f"data/{ref.storage}"]
        if ref.strides is not None or record.method != STORED or self.is_swapped(ref):
            return None
        return self.file, self._start(record) + ref.offset

    def next_data(self, ref: TensorRef, start: int) -> int:
        """Return where bytes other than zeros may begin; see `tensors.HasHoles`."""
        if ref.strides is not None or self.swapped or self.archive.records[f"data/{ref.storage}"].method != STORED:
            return start
        begin, length = self.region(ref)
        return self.file.next_data(begin + start, begin + length) - begin


def read_torch(archive: Archive, name: str) -> TorchFile:
    """Parse a torch file.

    Args:
        archive: The open archive.
        name: What the refs shall call it.

    Raises:
        CheckpointError: It is damaged, cannot be read in one way only, or asks for more than is allowed.
    """
    file = archive.file
    refuse_twins(archive)
    pickled = _find_pickle(archive)
    swapped = is_swapped(archive)
    storages = find_storages(archive)
    where = f"{archive.root}/data.pkl in {show_path(file.name)}" if file.name else "data.pkl"
    result = load_pickle(archive.content(pickled, MAX_PICKLE), where=safe_text(where, 300))
    checksums = {} if swapped else record_checksums(storages, name)
    return make_file(
        "torch-zip",
        name,
        TorchZipReader(archive, swapped=swapped),
        {key: record.size for key, record in storages.items()},
        result,
        checksums,
        [*stray_pickles(archive), *_version(archive), *find_trailing(file, archive.trailing, "its archive")],
    )


def _version(archive: Archive) -> list[Finding]:
    if "version" in archive.records or ".data/version" in archive.records:
        return []
    message = f"{show_path(archive.file.name)} has no record `version`: torch refuses it, although its data is whole."
    return [Finding("metadata-format", "warning", message, fix="The export writes it.")]


def refuse_twins(archive: Archive) -> None:
    """Raise if two records have one name without regard to case: torch looks for them so.

    Raises:
        CheckpointError: `ambiguous-archive`.
    """
    names = archive.records
    seen: dict[str, str] = {}
    for name in names if len(set(map(str.lower, names))) < len(names) else ():
        other = seen.setdefault(name.lower(), name)
        if other != name:
            what = f"records `{safe_text(other)}` and `{safe_text(name)}` differ in case only"
            raise archive_error(archive.file, what, code="ambiguous-archive")


def _find_pickle(archive: Archive) -> Record:
    records = archive.records
    if archive.root and "data.pkl" in records:
        return records["data.pkl"]
    path = show_path(archive.file.path)
    if any(name.endswith("/data.pkl") for name in records):
        raise CheckpointError(
            "ambiguous-archive",
            f"{path} can be read in two ways: its records lie in more than one folder.",
            path=archive.file.path,
        )
    refuse_unsafe(archive)
    program = any(record.name.rpartition("/")[2] == "archive_format" for record in archive.records.values())
    what = "a program of torch.export (.pt2)" if program else "a zip archive without data.pkl"
    raise CheckpointError(
        "not-a-checkpoint", f"{path} is {what}, not a checkpoint that can be read here.", path=archive.file.path
    )


def is_swapped(archive: Archive) -> bool:
    """True if an archive was written on a big-endian machine.

    Raises:
        CheckpointError: It claims an order that there is not.
    """
    record = archive.records.get("byteorder")
    order = archive.content(record, 64).strip() if record else b"little"
    if order not in (b"little", b"big"):
        shown = show_path(archive.file.path)
        raise CheckpointError("damaged", f"{shown} is damaged: its byte order is neither little nor big.")
    return order == b"big"


def find_storages(archive: Archive, folder: str = "data/") -> dict[str, Record]:
    """Return the records of data by storage key.

    Raises:
        CheckpointError: `limit-exceeded`: a deflated one would inflate far beyond what tensors do.
    """
    found = {name[len(folder) :]: record for name, record in archive.records.items() if name.startswith(folder)}
    for record in found.values():
        if record.method != STORED:
            archive.check_ratio(record)
    return found


def record_checksums(storages: Mapping[str, Record], name: str) -> dict[tuple[str, str], tuple[int, int]]:
    """Torch can be told to write no checksums; then they are all 0, which does not mean that the data is damaged."""
    if not any(record.crc for record in storages.values()):
        return {}
    return {(name, key): (record.size, record.crc) for key, record in storages.items()}
