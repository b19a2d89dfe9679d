"""Torch files of 2016: a tar archive of storages, tensors and a pickle (`torch.serialization.legacy_load`).

The storages and the tensors are small pickles with raw numbers between them; the pickle of the object refers to both by
number.
"""

from __future__ import annotations

import struct
from typing import Any

from ckpt_gui.core.dtypes import BY_NAME
from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.formats.file_errors import show_path
from ckpt_gui.core.formats.files import HeldFile
from ckpt_gui.core.formats.pickle_files import refusal
from ckpt_gui.core.formats.pickle_global import Global, are_counts
from ckpt_gui.core.formats.pickle_load import MAX_BYTES, PickleError, PickleResult, load_pickle
from ckpt_gui.core.formats.tar_archive import read_members
from ckpt_gui.core.formats.torch_file import TorchFile, make_file, merge_pickles
from ckpt_gui.core.formats.torch_legacy import LegacyReader, Place, lost_tensors, old_form
from ckpt_gui.core.formats.torch_values import StorageInfo, TensorStub

WINDOWS = (1 << 12, 1 << 18, 1 << 24)
MAX_COUNT = 1 << 20
MAX_DIMS = 64
LOST = "lost "  # before the number of a storage that is not in the file any more


def read_tar(file: HeldFile, name: str, *, salvage: bool = False) -> TorchFile:
    """Parse a torch file of 2016.

    Args:
        file: The open file.
        name: What the refs shall call it.
        salvage: List the whole tensors of a file that is cut short within its storages, which come last.

    Raises:
        CheckpointError: It is damaged, or no torch file.
    """
    members = read_members(file, salvage=salvage)
    if not {"storages", "tensors", "pickle"} <= members.keys():
        message = f"{show_path(file.path)} is a tar archive that torch did not write, not a checkpoint."
        raise CheckpointError("not-a-checkpoint", message, fix="Unpack it and open the files in it.", path=file.path)
    try:
        return _Reading(file, salvage=salvage).read(members, name)
    except PickleError as error:
        raise refusal(file, error.unsafe) if error.unsafe else error from None


class _Reading:
    """The reading of one file."""

    def __init__(self, file: HeldFile, *, salvage: bool) -> None:
        self.file = file
        self.salvage = salvage
        self.pickles: list[PickleResult] = []
        self.objects: dict[int, StorageInfo | TensorStub] = {}
        self.places: dict[str, Place] = {}
        self.at = self.end = 0

    def read(self, members: dict[str, Place], name: str) -> TorchFile:
        self._enter(members["storages"])
        try:
            self._storages()
        except CheckpointError:  # what was read of them until then is whole
            if not self.salvage or self.end < self.file.size:
                raise
        self._enter(members["tensors"])
        self._tensors()
        start, size = members["pickle"]
        if size > MAX_BYTES:
            raise self._damaged("its pickle is too large")
        result = load_pickle(self.file.read(start, size), where="pickle", persistent=self._find)
        sizes = {key: size for key, (_, size) in self.places.items()}
        reader = LegacyReader(self.file, self.places)
        note = old_form(self.file.name, "in 2016 (a tar archive)")
        pickle = merge_pickles([*self.pickles, result])
        found = make_file("torch-tar", name, reader, sizes, pickle, problems=[note])
        return lost_tensors(found, self.file) if self.salvage else found

    def _enter(self, place: Place) -> None:
        self.at, self.end = place[0], place[0] + place[1]

    def _pickle(self) -> Any:
        """Return the value of the small pickle at this place, and go on behind it."""
        for window in WINDOWS:
            data = self.file.read(self.at, min(window, self.end - self.at))
            try:
                result = load_pickle(data, where=f"a pickle at byte {self.at:,}")
            except PickleError:
                if len(data) < window or window == WINDOWS[-1]:
                    raise
                continue
            if result.unsafe:
                self.pickles.append(result)
            self.at += result.end
            return result.value
        raise AssertionError("unreachable")

    def _count(self) -> int:
        count = self._pickle()
        if type(count) is not int or not 0 <= count <= MAX_COUNT:
            raise self._damaged("it has no proper number of storages or tensors")
        return count

    def _numbers(self, layout: str) -> tuple[Any, ...]:
        size = struct.calcsize(layout)
        if self.at + size > self.end:
            raise self._damaged("a member ends too early")
        self.at += size
        return struct.unpack(layout, self.file.read(self.at - size, size))

    def _storages(self) -> None:
        for _ in range(self._count()):
            match self._pickle():
                case (key, location, Global(is_storage=True) as kind):
                    pass
                case _:
                    raise self._damaged("a storage is not described")
            (numel,) = self._numbers("<q")
            size = numel * (BY_NAME[kind.dtype].itemsize if kind.dtype else 1)
            if numel < 0 or self.at + size > self.end:
                raise self._damaged(f"a storage claims {numel:,} elements, which do not fit into it")
            info = StorageInfo(kind.dtype, str(_id(key)), location if type(location) is str else "", numel)
            self._add(key, info)
            self.places[info.key] = (self.at, size)
            self.at += size
        self._views(self._pickle())

    def _views(self, views: Any) -> None:
        if type(views) is not list:
            raise self._damaged("its list of views is none")
        for view in views:
            if type(view) is not tuple or len(view) != 4 or not are_counts(view[2:]):
                raise self._damaged("a view of a storage is not described")
            root = self.objects.get(_id(view[1]))
            if not isinstance(root, StorageInfo) or root.view is not None:
                raise self._damaged("a view is of a storage that is not there")
            self._add(view[0], root._replace(view=(view[2], view[3])))

    def _tensors(self) -> None:
        for _ in range(self._count()):
            described = self._pickle()
            if type(described) is not tuple or len(described) != 3:
                raise self._damaged("a tensor is not described")
            storage = self.objects.get(_id(described[1]))
            if storage is None and self.salvage:
                storage = StorageInfo(None, f"{LOST}{_id(described[1])}", "", 0)
            if not isinstance(storage, StorageInfo):
                raise self._damaged("a tensor is of a storage that is not there")
            ndim, _ = self._numbers("<2i")
            if not 0 <= ndim <= MAX_DIMS:
                raise self._damaged(f"a tensor claims {ndim:,} dimensions")
            numbers = self._numbers(f"<{2 * ndim + 1}q")
            self._add(described[0], TensorStub(storage, numbers[-1], numbers[:ndim], numbers[ndim:-1]))

    def _add(self, key: Any, value: StorageInfo | TensorStub) -> None:
        number = _id(key)
        if number < 0 or number in self.objects:
            raise self._damaged("two of its parts have the same number")
        self.objects[number] = value

    def _find(self, pid: Any) -> Any:
        if type(pid) is tuple and pid:  # a module with its source
            return pid[0]
        if _id(pid) not in self.objects:
            raise ValueError("it refers to a tensor that is not there")
        return self.objects[_id(pid)]

    def _damaged(self, what: str) -> CheckpointError:
        text = f"{show_path(self.file.path)} is a damaged torch file of 2016: {what} (at byte {self.at:,})."
        return CheckpointError("damaged", text, path=self.file.path, offset=self.at)


def _id(key: Any) -> int:
    """Return the number by which parts refer to each other; -1 for what is none."""
    if type(key) is str and key.isascii() and key.isdigit() and len(key) < 21:
        return int(key)
    return key if type(key) is int and 0 <= key < 1 << 64 else -1
