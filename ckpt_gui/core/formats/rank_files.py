"""One file a rank (FSDP, verl): each holds its part of every tensor, and together they are the model.

A part says of which whole it is one, and where it lies in it (`DTensor`, `ShardedTensor`; replicas of HSDP lie at the
same place). Where it does not say the place, parts of one dimension that add up to the whole are put together in the
order of the ranks. Files that hold flattened rows instead say nothing of how they fit, and are only named.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from ckpt_gui.core.dtypes import BY_NAME
from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.formats.assembled import AssembledReader, Box, RefPiece, check_boxes
from ckpt_gui.core.formats.file_errors import show_path
from ckpt_gui.core.formats.folder_names import RankFiles, find_rank_files
from ckpt_gui.core.formats.parts import Part
from ckpt_gui.core.formats.pickle_distributed import LocalBox, LocalPart
from ckpt_gui.core.formats.registry import open_part
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.strides import contiguous_strides, normal_strides
from ckpt_gui.core.tensors import TensorRef
from ckpt_gui.dataclasses import replace

NAME = "model"
Path = tuple[str, ...]
Held = tuple[Part, TensorRef]


def open_ranks(folder: str, names: frozenset[str]) -> Part:
    """Open the files of all ranks as one model.

    Raises:
        CheckpointError: Files of ranks are missing, or the parts do not say how they fit.
    """
    found = find_rank_files(names)
    assert found is not None
    missing = [rank for rank in range(found.world) if rank not in found.names]
    if missing:
        raise _missing(folder, found, missing)
    parts: list[Part] = []
    try:
        for rank in range(found.world):
            name = found.names[rank]
            parts.append(open_part(os.path.join(folder, name), name))
        return _merge(folder, parts)
    except BaseException:
        for part in parts:
            part.reader.close()
        raise


def _missing(folder: str, found: RankFiles, missing: Sequence[int]) -> CheckpointError:
    ranks = ", ".join(map(str, missing[:12])) + (", …" if len(missing) > 12 else "")
    first = next(iter(found.names.values()))
    return CheckpointError(
        "shard-missing",
        f"{show_path(folder)} holds one file a rank ({safe_text(first, 80)}), but of {found.world} ranks "
        f"{len(missing)} are missing: {ranks}.",
        fix="Copy the files of all ranks into the folder; each holds a part of every tensor.",
        path=folder,
    )


def _merge(folder: str, parts: Sequence[Part]) -> Part:
    said: dict[Path, LocalPart] = {}
    for part in parts:
        said.update(part.shards)
    if not said or any("_flat_param" in path[-1].split(".") for path in said):
        raise CheckpointError(
            "partitioned-state",
            f"{show_path(folder)} holds the local parts of {len(parts)} ranks; they do not say of which tensors they "
            "are parts (flattened rows of FSDP), so they cannot be put together without the program that saved them.",
            fix="Save it again with a full state dict (FSDP.state_dict_type FULL_STATE_DICT, or get_model_state_dict).",
            path=folder,
        )
    local = [{ref.path: ref for ref in part.refs} for part in parts]
    refs, boxes = [], {}
    for number, path in enumerate(dict.fromkeys(path for held in local for path in held)):
        held = [(part, refs_of[path]) for part, refs_of in zip(parts, local, strict=True) if path in refs_of]
        first = held[0][1]
        whole = said[path].whole if path in said else first.shape
        boxes[str(number)] = _boxes(path, whole, held, len(parts))
        refs.append(TensorRef(first.key, first.dtype, whole, first.section, NAME, str(number)))
    problems = tuple(p for p in parts[0].problems if p.code != "partitioned-state")
    files = tuple(file for part in parts for file in part.files)
    reader = AssembledReader([part.reader for part in parts], boxes)
    return Part("fsdp-ranks", NAME, tuple(refs), reader, files, problems, extras=parts[0].extras)


def _boxes(path: Path, whole: tuple[int, ...], held: Sequence[Held], world: int) -> list[Box]:
    """Return the boxes of a tensor."""
    key = ".".join(path)
    dtypes = {ref.dtype for _, ref in held}
    if len(dtypes) > 1 or any(len(ref.shape) != len(whole) for _, ref in held):
        raise _misfit(key, "is not of one type and number of dimensions in the files of all ranks")
    parts = [part.shards.get(path) for part, _ in held]
    if any(part is None or part.boxes is None for part in parts):
        boxes = _along_one(key, whole, held, world)
    else:
        boxes = _as_said(key, whole, held)
    check_boxes(key, whole, [(box.offsets, box.sizes) for box in boxes])
    return boxes


def _as_said(key: str, whole: tuple[int, ...], held: Sequence[Held]) -> list[Box]:
    """Return the boxes that the parts say they are; of those that several ranks hold alike, the first."""
    found: dict[tuple[tuple[int, ...], tuple[int, ...]], Box] = {}
    for part, ref in held:
        said = part.shards[ref.path]
        places = said.boxes or ()
        ends = zip(*(map(sum, zip(p.starts, p.sizes, strict=True)) for p in places), strict=True)
        if said.whole != whole or not places or tuple(map(max, ends)) != ref.shape:
            raise _misfit(key, f"has a part of shape {list(ref.shape)} that is not the part it says it is")
        for place in places:
            piece = RefPiece(part.reader, _view(ref, place))
            found.setdefault((place.offsets, place.sizes), Box(place.offsets, place.sizes, piece))
    return list(found.values())


def _view(ref: TensorRef, place: LocalBox) -> TensorRef:
    """Return a box of a rank's part as a tensor of its own."""
    strides = ref.strides or contiguous_strides(ref.shape)
    first = sum(start * stride for start, stride in zip(place.starts, strides, strict=True))
    offset = ref.offset + first * BY_NAME[ref.dtype].itemsize
    return replace(ref, shape=place.sizes, offset=offset, strides=normal_strides(place.sizes, strides))


def _along_one(key: str, shape: tuple[int, ...], held: Sequence[Held], world: int) -> list[Box]:
    """Return the boxes, one a rank in order, along the one dimension in which the parts differ from the whole."""
    refs = [ref for _, ref in held]
    if len(refs) != world:
        raise _misfit(key, "is not in the files of all ranks")
    cut = [d for d in range(len(shape)) if any(ref.shape[d] != shape[d] for ref in refs)]
    if not cut:  # the same on every rank
        return [Box((0,) * len(shape), shape, RefPiece(held[0][0].reader, refs[0]))]
    if len(cut) > 1 or sum(ref.shape[cut[0]] for ref in refs) != shape[cut[0]]:
        shapes = ", ".join(str(list(ref.shape)) for ref in refs[:4])
        raise _misfit(key, f"has parts ({shapes}{', …' if len(refs) > 4 else ''}) that do not add up to {list(shape)}")
    boxes, at = [], 0
    for part, ref in held:
        offsets = tuple(at if d == cut[0] else 0 for d in range(len(shape)))
        boxes.append(Box(offsets, ref.shape, RefPiece(part.reader, ref)))
        at += ref.shape[cut[0]]
    return boxes


def _misfit(key: str, what: str) -> CheckpointError:
    fix = "Merge the ranks with the tool that belongs to the trainer, or save a full state dict."
    return CheckpointError("partitioned-state", f"Tensor `{safe_text(key)}` {what}.", fix=fix, key=key)
