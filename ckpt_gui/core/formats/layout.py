"""Where every byte of a file to be written will lie, before a byte of data is written.

Writers lay out the whole file first, fill in the tensors in any order and from several workers, and write headers and
trailers last, when the checksums are known. A file that was interrupted therefore never looks complete.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from ckpt_gui.core.tensors import TensorSpec
from ckpt_gui.dataclasses import dataclass

Patches = Callable[[Mapping[str, int]], Iterator[tuple[int, bytes]]]


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """A tensor leaf of a tree to be written to a torch file; it lies row by row from the start of its record.

    Attributes:
        spec: What it is.
        record: Names the record that holds its bytes; two leaves with one record share a storage.
        requires_grad: As torch shall load it.
    """

    spec: TensorSpec
    record: str
    requires_grad: bool = False


@dataclass(frozen=True, slots=True)
class FileLayout:
    """The plan of a file.

    Attributes:
        nbytes: Size of the whole file.
        offsets: Where data begins in the file, by tensor key (safetensors) or record name (torch).
        sizes: Bytes of the data, by the same names.
        make_patches: Makes headers and trailers from CRC-32 by the same names.
    """

    nbytes: int
    offsets: Mapping[str, int]
    sizes: Mapping[str, int]
    make_patches: Patches

    def patches(self, crcs: Mapping[str, int]) -> Iterator[tuple[int, bytes]]:
        """Yield (offset, bytes) of everything that is not tensor data; to be written last.

        Args:
            crcs: CRC-32 of the data by the names in `offsets`; containers without checksums ignore them.
        """
        return self.make_patches(crcs)
