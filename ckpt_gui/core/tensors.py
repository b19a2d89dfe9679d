"""Stored tensors: what a file says about each. A `TensorRef` is a description and holds no data (see `source`)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from operator import attrgetter

from ckpt_gui.core.bulk import column, tally
from ckpt_gui.core.dtypes import num_bytes
from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.keys import safe_text
from ckpt_gui.dataclasses import dataclass

ENDLESS = 1 << 30  # bytes from which a view may be an endless one
_KEY, _SECTION = attrgetter("key"), attrgetter("section")
_FORM = attrgetter("dtype", "shape")


@lru_cache(maxsize=4096)  # few types and shapes, however many tensors there are
def _bytes_of(dtype: str, shape: tuple[int, ...]) -> int:
    return num_bytes(dtype, math.prod(shape))


class _Sized:
    """What follows from an element type and a shape."""

    __slots__ = ()
    dtype: str
    shape: tuple[int, ...]

    @property
    def numel(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of the tensor stored row by row."""
        return _bytes_of(self.dtype, self.shape)


@dataclass(frozen=True, slots=True)
class TensorSpec(_Sized):
    """What a tensor is: key, element type, shape."""

    key: str
    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TensorRef(_Sized):
    """One stored tensor of a source.

    Attributes:
        key: The name inside its section, as the file has it.
        dtype: Short name of the element type.
        shape: Sizes, outermost first.
        section: Names of the nested dicts that hold it, outermost first; empty at the top.
        file: The file that holds its bytes, relative to the source's root; empty in memory.
        storage: Names the bytes: two refs with equal (file, storage) share them.
        offset: Where the first element lies in the storage, in bytes.
        strides: Element strides; None where the tensor lies row by row without gaps.
    """

    key: str
    dtype: str
    shape: tuple[int, ...]
    section: tuple[str, ...] = ()
    file: str = ""
    storage: str = ""
    offset: int = 0
    strides: tuple[int, ...] | None = None

    @property
    def path(self) -> tuple[str, ...]:
        """Section and key."""
        return (*self.section, self.key)

    @property
    def full_key(self) -> str:
        """Section and key joined by dots: for display only, not unique in every file."""
        return ".".join(self.path) if self.section else self.key

    @property
    def stored_nbytes(self) -> int:
        """Bytes of the tensor where what strides of 0 repeat counts once."""
        repeats = math.prod(size for size, stride in zip(self.shape, self.strides or (), strict=False) if stride == 0)
        return self.nbytes // max(repeats, 1)

    @property
    def is_endless(self) -> bool:
        """True for a few stored numbers that strides of 0 repeat without end: never to be read or written whole."""
        return self.strides is not None and self.nbytes > max(ENDLESS, 64 * self.stored_nbytes)

    def refuse_endless(self) -> None:
        """Raise if the tensor is not to be read whole.

        Raises:
            CheckpointError: `limit-exceeded`.
        """
        if self.is_endless:
            raise CheckpointError(
                "limit-exceeded",
                f"`{safe_text(self.full_key, 120)}` is not read whole: {self.endless_text()}.",
                key=self.full_key,
            )

    def endless_text(self) -> str:
        """Say what an endless view is."""
        stored = self.stored_nbytes * self.numel // max(self.nbytes, 1)
        return f"it is an expanded view of {max(stored, 1):,} stored elements, which would take {self.nbytes:,} bytes"

    @property
    def place(self) -> tuple[object, ...]:
        """Equal for two refs exactly when they are the same elements of the same storage."""
        return (self.file, self.storage, self.offset, self.dtype, self.shape, self.strides)


def all_bytes(refs: Iterable[TensorRef]) -> int:
    """Return the bytes of all refs, each counted."""
    return _bytes_of_forms(tally(map(_FORM, refs)))


def unique_bytes(refs: Iterable[TensorRef]) -> int:
    """Return the bytes of all refs, tensors at the same place counted once."""
    return _bytes_of_forms(count_places(refs))


def _bytes_of_forms(counted: Counter[tuple[str, tuple[int, ...]]]) -> int:
    return sum(_bytes_of(dtype, shape) * n for (dtype, shape), n in counted.items())


def count_places(refs: Iterable[TensorRef]) -> Counter[tuple[str, tuple[int, ...]]]:
    """Return how many refs have each type and shape, tensors at the same place counted once.

    Even a model of 100,000 tensors has few types and shapes, so that sums over them are quick.
    """
    listed = list(refs)
    if shares_storage(listed):
        listed = list({r.place: r for r in listed}.values())
    return tally(map(_FORM, listed))


def full_keys(refs: Sequence[TensorRef]) -> list[str]:
    """Return section and key of each ref, joined by dots."""
    return [ref.full_key for ref in refs] if any(column(_SECTION, refs)) else column(_KEY, refs)


def shares_storage(refs: Iterable[TensorRef]) -> bool:
    """Return True if two tensors may lie in one storage."""
    seen: dict[str, set[str]] = {}
    for ref in refs:
        if ref.storage is ref.key:  # in files in which each tensor has its own
            continue
        storages = seen.setdefault(ref.file, set())
        if ref.storage in storages:
            return True
        storages.add(ref.storage)
    return False


def check_window(ref: TensorRef, start: int, length: int) -> None:
    """Raise if a byte range lies outside a tensor: a mistake of the caller, told plainly."""
    if start < 0 or start + length > ref.nbytes:
        raise CheckpointError(
            "damaged", f"Bytes {start} to {start + length} lie outside a tensor of {ref.nbytes} bytes.", key=ref.key
        )
