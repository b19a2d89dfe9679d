"""Torch files of before 1.6: five pickles one after another, then the storages (`torch.serialization._legacy_save`).

The pickles are a magic number, a version, the writer's machine, the object, and the list of storage keys; each storage
follows as a count of elements and its bytes. Nothing tells where a storage begins but the sizes of those before it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

from ckpt_gui.core.dtypes import BY_NAME
from ckpt_gui.core.errors import CheckpointError, Finding
from ckpt_gui.core.formats.file_errors import SALVAGE_FIX, show_path
from ckpt_gui.core.formats.files import HeldFile
from ckpt_gui.core.formats.pickle_files import find_unsafe, refusal
from ckpt_gui.core.formats.pickle_global import read_storage
from ckpt_gui.core.formats.pickle_load import PickleError, PickleResult, load_pickle
from ckpt_gui.core.formats.torch_file import TorchFile, make_file, merge_pickles
from ckpt_gui.core.formats.torch_reader import StorageReader
from ckpt_gui.core.formats.torch_values import StorageInfo
from ckpt_gui.core.formats.trailing import find_trailing
from ckpt_gui.core.keys import safe_text
from ckpt_gui.dataclasses import replace

MAGIC = 0x1950A86A20F9469CFC6C
VERSION = 1001
FIRST_WINDOW = 1 << 20
MAX_PICKLED = 1 << 28
Place = tuple[int, int]


class LegacyReader(StorageReader):
    """Reads tensors whose storages lie somewhere in a file."""

    def __init__(self, file: HeldFile, places: Mapping[str, Place]) -> None:
        """Keep where each storage begins, and its bytes."""
        super().__init__(file)
        self._places = places

    def fill(self, storage: str, offset: int, out: memoryview) -> None:
        """Fill `out` with bytes of a storage."""
        self.file.pread_into(self._places[storage][0] + offset, out)


class StorageNames:
    """The storages that a pickle mentions.

    Attributes:
        known: The first mention of each by key.
    """

    def __init__(self) -> None:
        """Start without any."""
        self.known: dict[str, StorageInfo] = {}

    def find(self, pid: Any) -> Any:
        """Return what a persistent id stands for; a module saved with its source is the module."""
        if type(pid) is tuple and len(pid) == 4 and pid[0] == "module":
            return pid[1]
        found = read_storage(pid)
        self.known.setdefault(found.key, found)
        return found


def read_legacy(file: HeldFile, name: str, salvage: bool = False) -> TorchFile:
    """Parse a torch file of before 1.6.

    Args:
        file: The open file.
        name: What the refs shall call it.
        salvage: List the whole tensors of a file that is cut short.

    Raises:
        CheckpointError: It is damaged, cut short, or asks for more than is allowed.
    """
    try:
        return _read(file, name, salvage)
    except CheckpointError as error:
        unsafe = () if error.code == "unsafe-pickle" else find_unsafe(file)
        raise refusal(file, unsafe) if unsafe else error from None


def _read(file: HeldFile, name: str, salvage: bool) -> TorchFile:
    storages = StorageNames()
    *heads, obj, keys = _read_pickles(file, storages)
    places, end, lost = place_storages(file, keys.value, storages.known, keys.end, salvage)
    found = make_file(
        "torch-legacy",
        name,
        LegacyReader(file, places),
        {key: size for key, (_, size) in places.items()},
        merge_pickles([*heads, obj]),
        problems=[old_form(file.name, "before torch 1.6"), *find_trailing(file, file.size - end, "its last tensor")],
    )
    return lost_tensors(found, file) if lost else found


def old_form(name: str, age: str) -> Finding:
    """Return the note that a container is an old one."""
    message = f"{show_path(name)} is a torch file of the form used {age}."
    return Finding("legacy-container", "info", message, fix="An export is written in today's form.")


def _read_pickles(file: HeldFile, storages: StorageNames) -> list[PickleResult]:
    """Return the object and the keys; the bytes that they take are known only once they have been read."""
    window = FIRST_WINDOW
    while True:
        data = file.read(0, min(file.size, window))
        try:
            return _parse(file, data, storages)
        except PickleError:
            if len(data) == file.size or window >= MAX_PICKLED:
                raise
        window *= 8


def _parse(file: HeldFile, data: bytes, storages: StorageNames) -> list[PickleResult]:
    shown = show_path(file.name)
    at = 0
    results = []
    for wanted in (MAGIC, VERSION, None):
        result = load_pickle(data, where=shown, start=at)
        results.append(result)
        at = result.end
        if wanted is not None and result.value != wanted:
            _fail(file, "it does not begin as torch writes it")
    obj = load_pickle(data, where=f"the object in {shown}", start=at, persistent=storages.find)
    keys = load_pickle(data, where=f"the list of storages in {shown}", start=obj.end)
    if type(keys.value) is not list or not all(type(key) is str for key in keys.value):
        _fail(file, "its list of storages is not a list of names")
    return [*results, obj, keys]


def place_storages(
    file: HeldFile, keys: list[str], known: Mapping[str, StorageInfo], at: int, salvage: bool
) -> tuple[dict[str, Place], int, tuple[str, ...]]:
    """Return where each storage lies, where the last one ends, and the storages that are lost.

    Raises:
        CheckpointError: A storage has not the size that the object says, or the file ends too early.
    """
    places: dict[str, Place] = {}
    for number, key in enumerate(keys):
        if key not in known:
            _fail(file, f"it holds a storage `{safe_text(key, 40)}` that nothing says the type of")
        if key in places:
            _fail(file, f"storage `{safe_text(key, 40)}` stands twice")
        info = known[key]
        size = info.numel * (BY_NAME[info.dtype].itemsize if info.dtype else 1)
        if at + 8 + size > file.size:
            if salvage:
                return places, file.size, tuple(keys[number:])
            _fail_truncated(file, at + 8 + size, number, len(keys))
        count = int.from_bytes(file.read(at, 8), "little", signed=True)
        if count != info.numel:
            _fail(file, f"storage `{safe_text(key, 40)}` has {count:,} elements where {info.numel:,} are expected")
        places[key] = (at + 8, size)
        at += 8 + size
    return places, at, ()


def lost_tensors(found: TorchFile, file: HeldFile) -> TorchFile:
    """Say which tensors a file that was cut short has lost, in place of how each of them is damaged."""
    keys = tuple(key for p in found.problems if p.code == "damaged" for key in p.keys)
    if not keys:
        return found
    message = (
        f"{show_path(file.path)} is cut short at {file.size:,} bytes: {len(found.refs):,} of "
        f"{len(found.refs) + len(keys):,} tensors are whole, {len(keys):,} are lost."
    )
    finding = Finding("truncated", "error", message, keys, "Download or copy it again.", blocking=True)
    rest = tuple(p for p in found.problems if p.code != "damaged")
    return replace(found, problems=(finding, *rest))


def _fail_truncated(file: HeldFile, needed: int, number: int, count: int) -> NoReturn:
    raise CheckpointError(
        "truncated",
        f"{show_path(file.path)} is cut short: storage {number + 1:,} of {count:,} ends at byte {needed:,}, "
        f"the file has {file.size:,} ({needed - file.size:,} missing).",
        fix=SALVAGE_FIX if number else "Download or copy it again.",
        path=file.path,
        offset=file.size,
    )


def _fail(file: HeldFile, what: str) -> NoReturn:
    raise CheckpointError("damaged", f"{show_path(file.path)} is damaged: {what}.", path=file.path)
