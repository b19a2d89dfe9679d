"""Parts of a distributed checkpoint as safetensors files (torch's `HuggingFaceStorageWriter`), a set a rank.

`shard-RRRRR-model-NNNNN-of-NNNNN.safetensors` look like shards and are none: each holds a box of nearly every tensor
under the tensor's own name, and its metadata says where the box begins. There is no list of the ranks; that the boxes
cover every tensor is all that can be checked.
Source: torch 2.13 `distributed/checkpoint/hf_storage.py`, `_hf_utils.py`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from ckpt_gui.core.errors import CheckpointError, Finding
from ckpt_gui.core.formats.assembled import AssembledReader, Box, RefPiece, check_boxes
from ckpt_gui.core.formats.file_errors import show_path
from ckpt_gui.core.formats.folder_names import hf_part_rank
from ckpt_gui.core.formats.parts import Part
from ckpt_gui.core.formats.pickle_global import are_counts
from ckpt_gui.core.formats.registry import open_part
from ckpt_gui.core.formats.strict_json import BadJsonError, loads
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.tensors import TensorRef

NAME = "model"
OFFSETS = "DCP_SHARDING_INFO"  # the key of the file's metadata under which the boxes are described


def alone(part: Part) -> list[Finding]:
    """Return a finding about a file that was opened by itself and is one rank's part."""
    if OFFSETS not in part.metadata:
        return []
    message = f"{show_path(part.name)} holds one rank's part of each tensor, not whole ones."
    keys = tuple(ref.key for ref in part.refs)
    fix = "Open the folder that holds the files of all ranks."
    return [Finding("partitioned-state", "error", message, keys, fix, blocking=True)]


def open_hf_parts(folder: str, names: frozenset[str]) -> Part:
    """Open the parts of all ranks as one model.

    Raises:
        CheckpointError: A rank is missing, or the boxes do not cover the tensors.
    """
    ranks = {rank for name in names if (rank := hf_part_rank(name)) is not None}
    missing = [str(rank) for rank in range(1, max(ranks) + 1) if rank not in ranks]
    if missing:
        text = f"{show_path(folder)} holds a set of files a rank; those of {', '.join(missing[:12])} are missing."
        raise CheckpointError("shard-missing", text, fix="Copy the files of all ranks into the folder.", path=folder)
    parts: list[Part] = []
    try:
        found = (name for name in sorted(names) if hf_part_rank(name) is not None)
        parts += (open_part(os.path.join(folder, name), name) for name in found)
        return _merge(folder, parts)
    except BaseException:
        for part in parts:
            part.reader.close()
        raise


def _merge(folder: str, parts: Sequence[Part]) -> Part:
    boxes: dict[str, list[Box]] = {}
    firsts: dict[str, TensorRef] = {}
    for part in parts:
        begins = _begins(folder, part)
        for ref in part.refs:
            offsets = begins.get(ref.key)
            first = firsts.setdefault(ref.key, ref)
            if offsets is None or len(offsets) != len(ref.shape) or first.dtype != ref.dtype:
                raise _damaged(folder, f"{show_path(part.name)} does not say where its part of {_key(ref.key)} lies")
            boxes.setdefault(ref.key, []).append(Box(offsets, ref.shape, RefPiece(part.reader, ref)))
    refs = [_whole(folder, firsts[key], found) for key, found in boxes.items()]
    files = tuple(file for part in parts for file in part.files)
    problems = tuple(problem for part in parts for problem in part.problems)
    return Part(
        "dcp-safetensors", NAME, tuple(refs), AssembledReader([p.reader for p in parts], boxes), files, problems
    )


def _begins(folder: str, part: Part) -> dict[str, tuple[int, ...]]:
    """Return where the boxes of a file begin, by key."""
    try:
        value = loads(part.metadata.get(OFFSETS, ""))
    except BadJsonError as error:
        raise _damaged(folder, f"{show_path(part.name)} does not say what it is a part of ({error})") from error
    found = {key: _offsets(place) for key, place in value.items()} if isinstance(value, dict) else {}
    return {key: offsets for key, offsets in found.items() if offsets is not None}


def _offsets(place: Any) -> tuple[int, ...] | None:
    value = place.get("saved_offsets") if isinstance(place, dict) else None
    return tuple(value) if isinstance(value, list) and are_counts(tuple(value)) else None


def _whole(folder: str, first: TensorRef, boxes: list[Box]) -> TensorRef:
    """Return the tensor that boxes make up; its shape is the end of those that reach farthest."""
    ends = [tuple(map(sum, zip(box.offsets, box.sizes, strict=True))) for box in boxes]
    if len({len(end) for end in ends}) > 1:
        raise _damaged(folder, f"the parts of {_key(first.key)} have different numbers of dimensions")
    shape = tuple(map(max, zip(*ends, strict=True))) if ends[0] else ()
    check_boxes(first.key, shape, [(box.offsets, box.sizes) for box in boxes])
    return TensorRef(first.key, first.dtype, shape, (), NAME, first.key)


def _key(key: str) -> str:
    return f"`{safe_text(key, 120)}`"


def _damaged(folder: str, what: str) -> CheckpointError:
    return CheckpointError("damaged", f"{show_path(folder)} cannot be put together: {what}.", path=folder)
