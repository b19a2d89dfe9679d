"""A name that a pickle mentions, and the storages that its persistent ids name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ckpt_gui.core.dtypes import BY_STORAGE
from ckpt_gui.core.formats.pickle_inert import is_plain, is_standard
from ckpt_gui.core.formats.torch_values import StorageInfo

Builder = Callable[[tuple[Any, ...]], Any]

# Storages of torch's own quantised tensors: the tensors stay foreign objects, what lies beside them is read.
QUANTISED = {
    "QInt8Storage": "i8",
    "QUInt8Storage": "u8",
    "QInt32Storage": "i32",
    "QUInt4x2Storage": "u8",
    "QUInt2x4Storage": "u8",
}
UNTYPED = ("torch.UntypedStorage", "torch.storage.UntypedStorage", "torch.storage._UntypedStorage")


class Global:
    """A name that the pickle mentions.

    Attributes:
        name: `module.qualname`, Python 2 spellings turned into today's.
        build: The inert builder; None for a name that is not on the allow-list.
        unsafe: True if a permissive loader would run code not known to be harmless.
        dtype: For a storage class: the element type, or None where it is counted in bytes.
        is_storage: True for a storage class.
        only_if_called: True if merely mentioning the name runs nothing of note (a function outside Python itself).
        copies: True if the builder copies its arguments, which a small file may ask for a million times.
    """

    __slots__ = ("build", "copies", "dtype", "is_storage", "name", "only_if_called", "unsafe")

    def __init__(self, name: str, build: Builder | None = None, *, unsafe: bool = False) -> None:
        """Describe a name."""
        self.name = name
        self.build = build
        self.unsafe = unsafe
        self.only_if_called = not is_standard(name) and is_plain(name)
        self.copies = build is not None and not name.startswith("torch._")
        last = name.rpartition(".")[2]
        typed = BY_STORAGE.get(last) if name in (f"torch.{last}", f"torch.cuda.{last}") else None
        codes = QUANTISED.get(last) if name == f"torch.{last}" else None
        self.dtype = typed.name if typed else codes
        self.is_storage = self.dtype is not None or name in UNTYPED


def read_storage(pid: Any) -> StorageInfo:
    """Return the storage that a persistent id names.

    Raises:
        ValueError: It names none.
    """
    if type(pid) is not tuple or len(pid) not in (5, 6) or pid[0] != "storage":
        raise ValueError("it refers to something outside that is no storage")
    _, kind, key, location, numel = pid[:5]
    if type(kind) is not Global or not kind.is_storage:
        raise ValueError("a storage is of an unknown type")
    if type(key) is not str or type(numel) is not int or numel < 0:
        raise ValueError("a storage has no proper name or size")
    view = pid[5] if len(pid) == 6 else None  # files of before torch 1.6: its key, first element, elements
    if view is not None and (type(view) is not tuple or len(view) != 3 or not are_counts(view[1:])):
        raise ValueError("a part of a storage has no proper size")
    place = location if type(location) is str else ""
    part = (view[1], view[2]) if view else None
    return tuple.__new__(StorageInfo, (kind.dtype, key, place, numel, part))  # in half the time of its own


def are_counts(values: tuple[Any, ...]) -> bool:
    """True if all are whole numbers that are not negative."""
    return all(type(value) is int and 0 <= value < 1 << 63 for value in values)
