"""Reading the tensors of a torch file, whatever holds the bytes of its storages: views and foreign byte orders."""

from __future__ import annotations

from abc import ABC, abstractmethod

from ckpt_gui.core.dtypes import BY_NAME
from ckpt_gui.core.formats.files import HeldFile
from ckpt_gui.core.formats.strided import read_strided
from ckpt_gui.core.tensors import TensorRef, check_window


class StorageReader(ABC):
    """Reads tensors that are views of storages.

    Attributes:
        file: The open file.
        swapped: True if every number in it has its bytes the other way round.
    """

    def __init__(self, file: HeldFile, *, swapped: bool = False) -> None:
        """Keep the open file."""
        self.file = file
        self.swapped = swapped

    @abstractmethod
    def fill(self, storage: str, offset: int, out: memoryview) -> None:
        """Fill `out` with the bytes of a storage from `offset` on, as they are stored."""

    def read_into(self, ref: TensorRef, start: int, out: memoryview) -> None:
        """Fill `out` with bytes of a tensor; see `tensors.Reader`."""
        check_window(ref, start, len(out))
        width = number_bytes(ref.dtype) if self.is_swapped(ref) else 1
        if width == 1:
            self._read(ref, start, out)
            return
        first = start - start % width
        last = start + len(out) + -(start + len(out)) % width
        buffer = bytearray(last - first)
        self._read(ref, first, memoryview(buffer))
        out[:] = swap(buffer, width)[start - first : start - first + len(out)]

    def is_swapped(self, ref: TensorRef) -> bool:
        """True if the numbers of a tensor have to be turned round."""
        return self.swapped

    def check_unchanged(self) -> None:
        """Raise if the file is not as it was when it was opened."""
        self.file.check_unchanged()

    def close(self) -> None:
        """Close the file."""
        self.file.close()

    def _read(self, ref: TensorRef, start: int, out: memoryview) -> None:
        if not len(out):
            return
        if ref.strides is None:
            self.fill(ref.storage, ref.offset + start, out)
            return

        def read(offset: int, buffer: memoryview) -> None:
            self.fill(ref.storage, ref.offset + offset, buffer)

        read_strided(read, ref.shape, ref.strides, BY_NAME[ref.dtype].itemsize, start, out)


def number_bytes(dtype: str) -> int:
    """Return the bytes of one number of a type: a complex element is two.

    >>> number_bytes("bf16"), number_bytes("c64"), number_bytes("fp4")
    (2, 4, 1)
    """
    kind = BY_NAME[dtype]
    return max(kind.itemsize // 2 if kind.kind == "complex" else kind.itemsize, 1)


def swap(data: bytearray, width: int) -> memoryview:
    """Turn round every `width` bytes in place."""
    import numpy as np

    view = memoryview(data)
    np.frombuffer(view, dtype=f"u{width}").byteswap(inplace=True)
    return view
