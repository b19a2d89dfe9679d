"""One source of a base and its adapter, so that one plan can have tensors of both."""

from __future__ import annotations

from collections.abc import Mapping

from ckpt_gui import dataclasses
from ckpt_gui.core.adapters import Adapter
from ckpt_gui.core.source import Reader, Source
from ckpt_gui.core.tensors import TensorRef

FOLDER = "adapter/"  # before the names of the adapter's files
_BLOCK = 1 << 20


class _Moved:
    """Reads the adapter's tensors under their new files' names."""

    def __init__(self, reader: Reader, file: str) -> None:
        self.reader, self.file = reader, file

    def read_into(self, ref: TensorRef, start: int, out: memoryview) -> None:
        self.reader.read_into(dataclasses.replace(ref, file=self.file), start, out)

    def close(self) -> None:
        self.reader.close()


def joined_source(base: Source, adapter: Source) -> tuple[Source, dict[int, TensorRef]]:
    """Return one source of both, and the adapter's tensors in it by the identity of the old ones."""
    moved = {id(ref): dataclasses.replace(ref, file=FOLDER + ref.file) for ref in adapter.refs}
    files = tuple(dataclasses.replace(file, name=FOLDER + file.name) for file in adapter.files)
    readers: dict[str, Reader] = {FOLDER + name: _Moved(reader, name) for name, reader in adapter.readers.items()}
    checksums = {(FOLDER + file, storage): crc for (file, storage), crc in adapter.checksums.items()}
    return base.replace(
        refs=(*base.refs, *moved.values()),
        files=(*base.files, *files),
        readers={**base.readers, **readers},
        checksums={**base.checksums, **checksums},
    ), moved


def with_refs(adapter: Adapter, moved: Mapping[int, TensorRef]) -> Adapter:
    """Return an adapter with its tensors as they are in the common source."""

    def of(ref: TensorRef | None) -> TensorRef | None:
        return None if ref is None else moved[id(ref)]

    loras = tuple(
        dataclasses.replace(x, a=moved[id(x.a)], b=moved[id(x.b)], lengths=of(x.lengths), bias=of(x.bias))
        for x in adapter.loras
    )
    return dataclasses.replace(
        adapter,
        loras=loras,
        tokens=tuple(dataclasses.replace(t, rows=moved[id(t.rows)]) for t in adapter.tokens),
        whole={name: moved[id(ref)] for name, ref in adapter.whole.items()},
        replaced=tuple(moved[id(ref)] for ref in adapter.replaced),
        odd=tuple(moved[id(ref)] for ref in adapter.odd),
    )


def same_bytes(source: Source, left: TensorRef, right: TensorRef) -> bool:
    """Compare two stored tensors block by block, up to the first difference."""
    if (left.dtype, left.shape) != (right.dtype, right.shape):
        return False
    for start in range(0, left.nbytes, _BLOCK):
        stop = min(start + _BLOCK, left.nbytes)
        if source.read(left, start, stop) != source.read(right, start, stop):
            return False
    return True
