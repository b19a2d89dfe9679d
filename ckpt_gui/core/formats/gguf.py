"""GGUF files (llama.cpp): tensors of plain types are read, quantised ones listed as rows of bytes with their blocks.

Format: `docs/gguf.md` of ggml, versions 2 and 3; sizes of the block types from `ggml-common.h`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from ckpt_gui.core.beside import Extra
from ckpt_gui.core.dtypes import BY_NAME
from ckpt_gui.core.errors import CheckpointError, Finding
from ckpt_gui.core.formats.file_errors import SALVAGE_FIX, show_path
from ckpt_gui.core.formats.files import HeldFile
from ckpt_gui.core.formats.gguf_config import gguf_config
from ckpt_gui.core.formats.gguf_cursor import GgufCursor
from ckpt_gui.core.formats.torch_reader import StorageReader
from ckpt_gui.core.formats.trailing import find_trailing
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.source import Blocks
from ckpt_gui.core.tensors import TensorRef
from ckpt_gui.dataclasses import dataclass

MAX_PADDING = 4096
_PLAIN = {0: "fp32", 1: "fp16", 24: "i8", 25: "i16", 26: "i32", 27: "i64", 28: "fp64", 30: "bf16"}
# Name, elements and bytes of a block by type number.
_BLOCKS: dict[int, tuple[str, int, int]] = {
    2: ("Q4_0", 32, 18), 3: ("Q4_1", 32, 20), 6: ("Q5_0", 32, 22), 7: ("Q5_1", 32, 24), 8: ("Q8_0", 32, 34),
    9: ("Q8_1", 32, 36), 10: ("Q2_K", 256, 84), 11: ("Q3_K", 256, 110), 12: ("Q4_K", 256, 144), 13: ("Q5_K", 256, 176),
    14: ("Q6_K", 256, 210), 15: ("Q8_K", 256, 292), 16: ("IQ2_XXS", 256, 66), 17: ("IQ2_XS", 256, 74),
    18: ("IQ3_XXS", 256, 98), 19: ("IQ1_S", 256, 50), 20: ("IQ4_NL", 32, 18), 21: ("IQ3_S", 256, 110),
    22: ("IQ2_S", 256, 82), 23: ("IQ4_XS", 256, 136), 29: ("IQ1_M", 256, 56), 34: ("TQ1_0", 256, 54),
    35: ("TQ2_0", 256, 66), 39: ("MXFP4", 32, 17), 40: ("NVFP4", 64, 36), 41: ("Q1_0", 128, 18),
}  # fmt: skip
_SIZES = {kind[0]: kind for kind in _BLOCKS.values()}
# Those whose numbers `ggml_blocks` can give.
DECODED = frozenset(("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K"))


@dataclass(frozen=True, slots=True)
class _Info:
    """A tensor as the header describes it; `block` names its type if it is quantised."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    block: str
    offset: int

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * BY_NAME[self.dtype].itemsize


class GgufFile(NamedTuple):
    """What a GGUF file holds.

    Attributes:
        reader: Reads the tensors.
        refs: The tensors; quantised ones as rows of bytes.
        extras: The metadata, for display.
        problems: What the user should know.
        config: What the metadata say of the model, in the terms of config.json.
        blocks: How quantised tensors that can be decoded are packed, by key.
    """

    reader: GgufReader
    refs: tuple[TensorRef, ...]
    extras: tuple[Extra, ...]
    problems: tuple[Finding, ...]
    config: Mapping[str, Any] | None
    blocks: Mapping[str, Blocks]


class GgufReader(StorageReader):
    """Reads tensors of one GGUF file."""

    def __init__(self, file: HeldFile, begins: Mapping[str, int]) -> None:
        """Keep where each tensor begins."""
        super().__init__(file)
        self._begins = begins

    def fill(self, storage: str, offset: int, out: memoryview) -> None:
        """Fill `out` with bytes of a tensor."""
        self.file.pread_into(self._begins[storage] + offset, out)


def read_gguf(file: HeldFile, name: str, *, salvage: bool = False) -> GgufFile:
    """List the tensors and the metadata of a GGUF file.

    Args:
        file: The open file.
        name: What the refs shall call it.
        salvage: List the whole tensors of a file that is cut short.

    Raises:
        CheckpointError: It is damaged, cut short, or of a version that is not known.
    """
    cursor = GgufCursor(file)
    version = cursor.number("<I")
    if version not in (2, 3):
        what = "big-endian" if version.to_bytes(4, "big")[:1] in (b"\2", b"\3") else f"version {version:,}"
        text = f"{show_path(file.path)} is a GGUF file of a form that is not read here ({what})."
        raise CheckpointError("not-a-checkpoint", text, path=file.path)
    tensors, values = cursor.count(), cursor.count()
    metadata: dict[str, Any] = {}
    for _ in range(values):
        key = cursor.text()
        metadata[key] = cursor.value(cursor.number("<I"))
    infos = [_read_info(cursor) for _ in range(tensors)]
    begins = _begins(cursor, infos, metadata.get("general.alignment", 32))
    whole = [i for i in infos if begins[i.name] + i.nbytes <= file.size]
    if len(whole) < len(infos) and not salvage:
        raise _cut(cursor, infos, begins, len(whole))
    problems = [*_lost(file, infos, whole), *_trailing(cursor, infos, begins), *_problems(whole), *_split(metadata)]
    refs = tuple(TensorRef(i.name, i.dtype, i.shape, (), name, i.name) for i in whole)
    extras = tuple(Extra((key,), type(value).__name__, safe_text(str(value), 120)) for key, value in metadata.items())
    blocks = {i.name: Blocks(*_SIZES[i.block]) for i in whole if i.block in DECODED}
    config = gguf_config(metadata, begins)
    return GgufFile(GgufReader(file, begins), refs, extras, tuple(problems), config, blocks)


def _read_info(cursor: GgufCursor) -> _Info:
    name = cursor.text()
    ndim = cursor.number("<I")
    if ndim > 8:
        raise cursor.damaged(f"tensor `{safe_text(name)}` claims {ndim:,} dimensions")
    shape = tuple(reversed([cursor.number("<Q") for _ in range(ndim)]))  # the innermost size comes first
    kind, offset = cursor.number("<I"), cursor.number("<Q")
    if math.prod(shape) >= 1 << 62:
        raise cursor.damaged(f"tensor `{safe_text(name)}` has a shape whose size overflows")
    if kind in _PLAIN:
        return _Info(name, shape, _PLAIN[kind], "", offset)
    if kind not in _BLOCKS:
        raise cursor.damaged(f"tensor `{safe_text(name)}` has the unknown type {kind:,}")
    title, elements, size = _BLOCKS[kind]
    if not shape or shape[-1] % elements:
        raise cursor.damaged(f"tensor `{safe_text(name)}` has rows that are not whole blocks of {title}")
    return _Info(name, (*shape[:-1], shape[-1] // elements * size), "u8", title, offset)


def _begins(cursor: GgufCursor, infos: list[_Info], alignment: Any) -> dict[str, int]:
    """Return where each tensor begins in the file; they must lie apart from each other."""
    if type(alignment) is not int or not 0 < alignment <= 1 << 20:
        raise cursor.damaged("its alignment is not a number")
    start = cursor.at + -cursor.at % alignment
    begins = {info.name: start + info.offset for info in infos}
    if len(begins) != len(infos):
        raise cursor.damaged("two tensors have the same name")
    end, before = 0, ""
    for info in sorted(infos, key=lambda i: i.offset):
        if info.offset < end:
            raise cursor.damaged(f"tensors `{safe_text(before)}` and `{safe_text(info.name)}` overlap")
        end, before = info.offset + info.nbytes, info.name
    return begins


def _cut(cursor: GgufCursor, infos: list[_Info], begins: Mapping[str, int], whole: int) -> CheckpointError:
    last = max(infos, key=lambda i: begins[i.name])
    end = begins[last.name] + last.nbytes
    what = (
        f"tensor `{safe_text(last.name)}` ends at byte {end:,}, the file has {cursor.file.size:,}; "
        f"{whole:,} of {len(infos):,} tensors are whole"
    )
    error = cursor.damaged(what, "truncated")
    error.fix = SALVAGE_FIX if whole else error.fix
    return error


def _lost(file: HeldFile, infos: list[_Info], whole: list[_Info]) -> list[Finding]:
    kept = {info.name for info in whole}
    lost = tuple(info.name for info in infos if info.name not in kept)
    if not lost:
        return []
    message = (
        f"{show_path(file.path)} is cut short at {file.size:,} bytes: {len(whole):,} of {len(infos):,} tensors "
        f"are whole, {len(lost):,} are lost."
    )
    return [Finding("truncated", "error", message, lost, "Download or copy it again.", blocking=True)]


def _trailing(cursor: GgufCursor, infos: list[_Info], begins: Mapping[str, int]) -> list[Finding]:
    """Find bytes after the last tensor, other than those that fill it up to the alignment."""
    end = max((begins[info.name] + info.nbytes for info in infos), default=cursor.at)
    more = cursor.file.size - end
    return find_trailing(cursor.file, more, "its last tensor") if more >= MAX_PADDING else []


def _problems(infos: list[_Info]) -> list[Finding]:
    known = {info.name: info.block for info in infos if info.block in DECODED}
    others = {info.name: info.block for info in infos if info.block and info.block not in DECODED}
    found = []
    if known:
        message = f"{len(known):,} of {len(infos):,} tensors are quantised ({_kinds(known)})."
        fix = "fix writes the numbers that they stand for, as fp32; what quantising took away it can not put back."
        found.append(Finding("quantised", "warning", message, tuple(known), fix))
    if others:
        what = f"{len(others):,} of {len(infos):,} tensors are quantised in a way that is not read here"
        message = f"{what} ({_kinds(others)}); they are listed as the bytes that they are."
        fix = "Take the model's original weights, or let llama.cpp's quantize write it as F16 or Q8_0 first."
        found.append(Finding("quantised", "error", message, tuple(others), fix, blocking=True))
    return found


def _split(metadata: Mapping[str, Any]) -> list[Finding]:
    count = metadata.get("split.count")
    if type(count) is not int or count < 2:
        return []
    message = f"This is one of {count:,} files of a split GGUF model; the others hold the rest of its tensors."
    fix = "Put them together with llama.cpp's llama-gguf-split --merge, and open the result."
    return [Finding("shard-missing", "error", message, fix=fix, blocking=True)]


def _kinds(blocks: Mapping[str, str]) -> str:
    kinds = list(blocks.values())
    return ", ".join(f"{kinds.count(kind):,} {kind}" for kind in sorted(set(kinds)))
