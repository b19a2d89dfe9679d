"""Distributed torch checkpoints (DCP): `.metadata` and one or more `__R_N.distcp` files, read without a process group.

`.metadata` is a pickle of plain data classes (`torch.distributed.checkpoint.metadata`): for each tensor its shape and
the boxes it is cut into, for each box a file, an offset and a length. What lies there is a torch archive of one tensor.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Iterator
from typing import Any, NamedTuple

from ckpt_gui.core.beside import Extra, ForeignObject
from ckpt_gui.core.dtypes import BY_TORCH
from ckpt_gui.core.errors import CheckpointError, Finding
from ckpt_gui.core.formats.assembled import AssembledReader, Box, RefPiece, check_boxes, is_grid
from ckpt_gui.core.formats.checked import Checked, HasChecksums
from ckpt_gui.core.formats.file_errors import show_path
from ckpt_gui.core.formats.file_window import FileWindow
from ckpt_gui.core.formats.files import HeldFile
from ckpt_gui.core.formats.folder_names import METADATA
from ckpt_gui.core.formats.parts import Part
from ckpt_gui.core.formats.pickle_global import are_counts
from ckpt_gui.core.formats.pickle_load import MAX_BYTES, load_pickle
from ckpt_gui.core.formats.places import exists, join, open_file
from ckpt_gui.core.formats.shard_index import check_link, check_shard_name
from ckpt_gui.core.formats.torch_values import OpaqueKey, TorchDType, TorchSize
from ckpt_gui.core.formats.torch_zip import read_torch
from ckpt_gui.core.formats.zip_directory import read_archive
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.remote.address import is_url
from ckpt_gui.core.source import SourceFile
from ckpt_gui.core.tensors import TensorRef

NAME = "model"
MAX_PARTS = 1 << 22
MAX_DIMS = 64
Place = tuple[str, int, int]


class _Tensor(NamedTuple):
    """A tensor as `.metadata` describes it: its boxes as (offsets, sizes)."""

    fqn: str
    dtype: str
    shape: tuple[int, ...]
    boxes: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]


class ChunkPiece:
    """A box of a tensor in a file: a torch archive, opened when it is first read."""

    def __init__(self, file: HeldFile, place: Place, dtype: str, sizes: tuple[int, ...]) -> None:
        """Keep where it lies and what it must be."""
        self._file, self._place, self._dtype, self._sizes = file, place, dtype, sizes
        self._piece: RefPiece | None = None
        self._lock = threading.Lock()

    def read_into(self, start: int, out: memoryview) -> None:
        """Fill `out` with bytes of the box from `start` on."""
        self._get().read_into(start, out)

    def checked(self) -> Iterator[Checked]:
        """Yield the records of the archive."""
        reader = self._get().reader
        if isinstance(reader, HasChecksums):
            yield from reader.checked()

    def _get(self) -> RefPiece:
        with self._lock:
            self._piece = self._piece or self._open()
            return self._piece

    def _open(self) -> RefPiece:
        _, offset, length = self._place
        if self._file.read(offset, min(length, 4)) != b"PK\x03\x04":
            raise _damaged(self._file.path, f"what lies at byte {offset:,} is no torch archive")
        found = read_torch(read_archive(FileWindow(self._file, offset, length)), "")
        if len(found.refs) != 1 or (found.refs[0].dtype, found.refs[0].shape) != (self._dtype, self._sizes):
            what = f"the part at byte {offset:,} is not the {self._dtype} tensor of shape {list(self._sizes)}"
            raise _damaged(self._file.path, f"{what} that {METADATA} says")
        return RefPiece(found.reader, found.refs[0])


def open_dcp(folder: str) -> Part:
    """Open a distributed checkpoint.

    Raises:
        CheckpointError: Its metadata is damaged, or leads out of the folder.
    """
    metadata = open_file(join(folder, METADATA))
    files: dict[str, HeldFile] = {}
    try:
        return _Opening(folder, metadata, files).part()
    except BaseException:
        for file in (metadata, *files.values()):
            file.close()
        raise


class _Opening:
    """The opening of one folder."""

    def __init__(self, folder: str, metadata: HeldFile, files: dict[str, HeldFile]) -> None:
        self.folder, self.metadata, self.files = folder, metadata, files
        if metadata.size > MAX_BYTES:
            raise _damaged(metadata.path, f"it has {metadata.size:,} bytes", "limit-exceeded")
        result = load_pickle(metadata.read(0, metadata.size), where=show_path(metadata.path))
        self.unsafe = result.unsafe
        self.state = self.fields(result.value, "Metadata")
        self.budget = MAX_PARTS
        self.lost: dict[str, list[str]] = {}

    def part(self) -> Part:
        places = self.places()
        paths = self.state.get("planner_data")
        refs, extras, boxes = [], [], {}
        seen: set[tuple[str, ...]] = set()
        described = self.state.get("state_dict_metadata")
        if not isinstance(described, dict):
            raise self.damaged("it lists no tensors")
        for fqn, value in described.items():
            path = _path(paths, fqn)
            path = (str(fqn),) if path in seen else path
            seen.add(path)
            if _last_name(value) == "BytesStorageMetadata":
                extras.append(Extra(path, "value", "a value that is not a tensor, left in its file"))
                continue
            tensor = self.tensor(fqn, value)
            made = self.boxes(tensor, places)
            if made is not None:
                boxes[fqn] = made
                refs.append(TensorRef(path[-1], tensor.dtype, tensor.shape, path[:-1], NAME, fqn))
        held = [self.metadata, *self.files.values()]
        sources = tuple(SourceFile(file.name, file.path, file.size, file.identity) for file in held)
        reader = AssembledReader(held, boxes)
        return Part("dcp", NAME, tuple(refs), reader, sources, tuple(self.problems()), extras=tuple(extras))

    def places(self) -> dict[tuple[str, tuple[int, ...] | None], Place]:
        """Return file, offset and length by tensor and box."""
        stored = self.state.get("storage_data")
        found: dict[tuple[str, tuple[int, ...] | None], Place] = {}
        for key, value in stored.items() if isinstance(stored, dict) else ():
            index = self.fields(key.value if isinstance(key, OpaqueKey) else key, "MetadataIndex")
            info = self.fields(value, "_StorageInfo")
            name, offset, length = info.get("relative_path"), info.get("offset"), info.get("length")
            good = type(offset) is int and type(length) is int and min(offset, length) >= 0
            if type(name) is not str or not good or type(index.get("fqn")) is not str:
                raise self.damaged("a part has no proper place")
            if info.get("transform_descriptors"):
                raise self.packed(info["transform_descriptors"])
            found[index["fqn"], _sizes(index.get("offset"))] = (name, int(offset or 0), int(length or 0))
        return found

    def tensor(self, fqn: Any, value: Any) -> _Tensor:
        fields = self.fields(value, "TensorStorageMetadata")
        shape, chunks = _sizes(fields.get("size")), fields.get("chunks")
        if type(fqn) is not str or shape is None or type(chunks) is not list or math.prod(shape) >= 1 << 62:
            raise self.damaged("a tensor is not described")
        self.spend(len(chunks))
        boxes = []
        for chunk in chunks:
            inner = self.fields(chunk, "ChunkStorageMetadata")
            offsets, sizes = _sizes(inner.get("offsets")), _sizes(inner.get("sizes"))
            if offsets is None or sizes is None:
                raise self.damaged(f"a part of `{safe_text(fqn)}` is not described")
            boxes.append((offsets, sizes))
        if not is_grid(shape, boxes):
            self.spend(len(boxes) ** 2)
        check_boxes(fqn, shape, boxes)
        return _Tensor(fqn, self.dtype(fqn, fields.get("properties")), shape, tuple(boxes))

    def packed(self, names: Any) -> CheckpointError:
        shown = ", ".join(safe_text(str(name), 40) for name in names) if type(names) in (list, tuple) else "?"
        text = f"The parts of {show_path(self.folder)} are packed ({shown}), which is not read here."
        fix = "Load it with torch.distributed.checkpoint and save it again without extensions."
        return CheckpointError("not-a-checkpoint", text, fix=fix, path=self.folder)

    def spend(self, count: int) -> None:
        """Draw from what may be looked at: one list of parts may be shared by a million tensors."""
        self.budget -= count
        if self.budget < 0:
            raise self.damaged("its tensors have more parts than can be checked", "limit-exceeded")

    def dtype(self, fqn: str, properties: Any) -> str:
        children = properties.children if isinstance(properties, ForeignObject) else ()
        state = children[-1] if children else None
        kind = state[0] if type(state) is tuple and state else state.get("dtype") if isinstance(state, dict) else None
        found = BY_TORCH.get(kind.name) if isinstance(kind, TorchDType) else None
        if found is None or found.bits < 8:
            raise self.damaged(f"the type of `{safe_text(fqn)}` cannot be read here")
        return found.name

    def boxes(self, tensor: _Tensor, places: dict[tuple[str, tuple[int, ...] | None], Place]) -> list[Box] | None:
        """Return the boxes of a tensor with their bytes; None if one of them is lost."""
        made = []
        for offsets, sizes in tensor.boxes:
            place = places.get((tensor.fqn, offsets))
            file = self.open_file(place[0]) if place else None
            if place is None or file is None or place[1] + place[2] > file.size:
                self.lost.setdefault(place[0] if place else "no file", []).append(tensor.fqn)
                return None
            made.append(Box(offsets, sizes, ChunkPiece(file, place, tensor.dtype, sizes)))
        return made

    def open_file(self, name: str) -> HeldFile | None:
        if name not in self.files:
            check_shard_name(name, METADATA)
            path = join(self.folder, name)
            if not (exists(path) if is_url(path) else os.path.lexists(path)):
                return None
            check_link(self.folder, name, METADATA)
            self.files[name] = open_file(path)
        return self.files[name]

    def problems(self) -> list[Finding]:
        found = []
        if self.unsafe:
            message = f"{METADATA} {self.would_run()}"
            found.append(Finding("unsafe-pickle", "error", message, self.unsafe, "The export holds tensors only."))
        for name, keys in self.lost.items():
            message = f"{safe_text(name, 80)} is missing or cut short; {len(keys):,} tensors have parts in it."
            fix = "Copy the files of all ranks into the folder."
            found.append(Finding("shard-missing", "error", message, tuple(keys), fix, blocking=True))
        return found

    def fields(self, value: Any, name: str) -> dict[str, Any]:
        """Return the members of a data class that the pickle made."""
        if isinstance(value, ForeignObject) and _last_name(value) == name:
            for child in reversed(value.children):
                if isinstance(child, dict):
                    return child
        raise self.damaged(f"it holds {safe_text(_last_name(value), 40)} where {name} belongs")

    def would_run(self) -> str:
        names = ", ".join(safe_text(n, 80) for n in self.unsafe[:8])
        return f"would run code in a permissive loader: it names {names}. Nothing was run here."

    def damaged(self, what: str, code: str = "damaged") -> CheckpointError:
        """Return the error for metadata that is not what it should be; that it is an attack is said first."""
        if not self.unsafe:
            return _damaged(self.metadata.path, what, code)
        message = f"{show_path(self.metadata.path)} {self.would_run()} It is damaged, too: {what}."
        fix = "Do not load the folder with anything that unpickles it."
        return CheckpointError("unsafe-pickle", message, fix=fix, path=self.metadata.path)


def _path(paths: Any, fqn: str) -> tuple[str, ...]:
    """Return the nested names of a tensor; the planner keeps them beside the joined name."""
    path = paths.get(fqn) if isinstance(paths, dict) else None
    good = type(path) is tuple and path and all(type(p) in (str, int) for p in path)
    return tuple(map(str, path)) if good and isinstance(path, tuple) else (str(fqn),)


def _sizes(value: Any) -> tuple[int, ...] | None:
    good = type(value) in (TorchSize, tuple, list) and len(value) <= MAX_DIMS and are_counts(tuple(value))
    return tuple(value) if good else None


def _last_name(value: Any) -> str:
    return value.name.rpartition(".")[2] if isinstance(value, ForeignObject) else type(value).__name__


def _damaged(path: str, what: str, code: str = "damaged") -> CheckpointError:
    return CheckpointError(code, f"{show_path(path)} is damaged: {what}.", path=path)
