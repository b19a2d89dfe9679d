"""Whether a tensor of a torch file lies inside its storage.

Torch checks this when it loads into memory, says it in words nobody understands, and does not check it at all when a
file is mapped: a storage that claims a hundred times its record reads whatever comes after it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

from ckpt_gui.core.dtypes import BY_NAME, BY_TORCH, DType
from ckpt_gui.core.formats.torch_values import StorageInfo, TensorStub, TorchSize
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.strides import normal_strides

MAX_NUMEL = 1 << 62
MAX_DIMS = 64
_CACHED = 4096
Placed = tuple[str, tuple[int, ...], "tuple[int, ...] | None", int]
_Shape = tuple[tuple[int, ...], "tuple[int, ...] | None", int, int]


class Geometry:
    """Checks tensors against the records of one file.

    Args:
        sizes: Bytes of each record by the storage's name.
    """

    def __init__(self, sizes: Mapping[str, int]) -> None:
        """Keep the sizes."""
        self._sizes = sizes
        self._shapes: dict[tuple[Any, Any], _Shape] = {}

    def check(self, stub: TensorStub) -> Placed | str:
        """Return type, shape, strides and byte offset of a tensor, or the reason why it cannot be read."""
        storage, offset, shape, strides, dtype_name, _, _ = stub
        if type(storage) is not StorageInfo:
            return "it has no storage"
        dtype = self._dtype(dtype_name, storage)
        if isinstance(dtype, str):
            return dtype
        if not _are_sizes(shape) or not _are_sizes(strides) or len(shape) != len(strides) or len(shape) > MAX_DIMS:
            return "its shape or strides are not whole numbers"
        if type(offset) is not int or offset < 0:
            return "its offset is not a whole number"
        itemsize = dtype.itemsize or 1
        problem = self._check_storage(storage, itemsize)
        if problem:
            return problem
        sizes, plain, reach, numel = self._measure(shape, strides)
        have = self._sizes[storage.key] // itemsize
        if storage.view is not None:  # a part of the storage, in elements of its type
            first, have = storage.view
            offset += first
            have += first
        if (numel and offset + reach > have) or numel >= MAX_NUMEL:
            return f"it reaches element {offset + reach:,} of a storage of {have:,}"
        if dtype.bits >= 8:
            return dtype.name, sizes, plain, offset * itemsize
        return _place_small(dtype, sizes, plain, offset)

    def check_all(self, stubs: Sequence[TensorStub]) -> list[Placed | str]:
        """Return what `check` does for each of many tensors: of those alike in all that it looks at, one is checked."""
        storages, offsets, shapes, strides, dtypes, _, _ = zip(*stubs, strict=True)
        numbers = chain(offsets, chain.from_iterable(shapes), chain.from_iterable(strides))
        plain = set(map(type, storages)) == {StorageInfo} and {*map(type, shapes), *map(type, strides)} == {tuple}
        if not plain or not set(map(type, numbers)) <= {int}:  # what is equal may be of another type: True is not 1
            return list(map(self.check, stubs))
        kept, keys, _, claimed, views = zip(*storages, strict=True)
        kinds = zip(kept, claimed, views, map(self._sizes.get, keys), offsets, shapes, strides, dtypes, strict=True)
        known: dict[object, Placed | str] = {}
        found = []
        for kind, stub in zip(kinds, stubs, strict=True):
            placed = known.get(kind)
            if type(placed) is not tuple:  # a reason names the storage
                placed = known[kind] = self.check(stub)
            found.append(placed)
        return found

    def _check_storage(self, storage: StorageInfo, itemsize: int) -> str | None:
        have = self._sizes.get(storage.key)
        if have is None:
            return f"its storage {safe_text(storage.key, 40)} is missing from the file"
        claimed = storage.numel if storage.dtype is None else storage.numel * BY_NAME[storage.dtype].itemsize
        unit = 1 if storage.dtype is None else BY_NAME[storage.dtype].itemsize
        if storage.view is not None and (sum(storage.view) * unit > have or itemsize != unit):
            return "it is a part of a storage that is not as large"
        if claimed != have or (storage.dtype is not None and have % itemsize):
            return f"its storage claims {claimed:,} bytes but its record has {have:,}"
        return None

    def _dtype(self, name: str | None, storage: StorageInfo) -> DType | str:
        if name is not None:
            return BY_TORCH.get(name) or f"its type torch.{safe_text(name, 40)} cannot be read here"
        return BY_NAME[storage.dtype or "u8"]

    def _measure(self, shape: Any, strides: Any) -> _Shape:
        """Return shape, strides (None if plain), elements up to the last one, and the number of elements."""
        found = self._shapes.get((shape, strides)) if type(shape) is type(strides) is tuple else None
        if found is not None:
            return found
        numel, reach = 1, 1
        for size, stride in zip(shape, strides, strict=True):
            numel *= size
            reach += (size - 1) * stride
        sizes = tuple(shape)
        found = (sizes, normal_strides(sizes, strides), reach if numel else 0, numel)
        if len(self._shapes) < _CACHED and type(shape) is type(strides) is tuple:
            self._shapes[shape, strides] = found
        return found


def _place_small(dtype: DType, shape: tuple[int, ...], plain: tuple[int, ...] | None, offset: int) -> Placed | str:
    """Torch counts pairs of 4-bit numbers as one element; everywhere else each of them counts."""
    if plain is not None or not shape:
        return "it is a strided tensor of a type smaller than a byte"
    return dtype.name, (*shape[:-1], shape[-1] * 8 // dtype.bits), None, offset


def _are_sizes(values: Any) -> bool:
    """True for a sequence of whole numbers from 0 to 2^63; exact types, since True is an int too."""
    if type(values) is not tuple and type(values) not in (list, TorchSize):
        return False
    for value in values:  # noqa: SIM110 - a generator takes three times as long, and this runs for every tensor
        if type(value) is not int or value < 0 or value >> 63:
            return False
    return True
