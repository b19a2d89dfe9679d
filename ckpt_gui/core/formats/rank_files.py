"""One file a rank (FSDP, verl): each holds its part of every tensor, and together they are the model.

A part says of which whole it is one (`DTensor`); parts of one dimension that add up to it are put together in the order
of the ranks. Files that hold flattened rows instead say nothing of how they fit, and are only named.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.formats.assembled import AssembledReader, Box, RefPiece, check_boxes
from ckpt_gui.core.formats.files import show_path
from ckpt_gui.core.formats.parts import Part
from ckpt_gui.core.formats.registry import open_part
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.tensors import TensorRef

NAME = "model"
_WORLD = re.compile(r"(?P<stem>.+?)_world_size_(?P<world>\d{1,5})_rank_(?P<rank>\d{1,5})\.(pt|pth|bin)\Z")
_RANK = re.compile(r"(?P<stem>|model_|pytorch_model_|shard_|fsdp_|checkpoint_)rank_?(?P<rank>\d{1,5})\.(pt|pth|bin)\Z")
Path = tuple[str, ...]


class RankFiles(NamedTuple):
    """The files of all ranks.

    Attributes:
        names: Their names by rank.
        world: How many there ought to be.
    """

    names: dict[int, str]
    world: int


def find_rank_files(names: Iterable[str]) -> RankFiles | None:
    """Return the files of the ranks in a folder, those called `model` first; None if there are none."""
    sets: dict[tuple[bool, str, int], dict[int, str]] = {}
    for name in sorted(names):
        match = _WORLD.match(name) or _RANK.match(name)
        if match and match["stem"] not in ("optim", "extra_state", "optimizer"):
            world = int(match["world"]) if match.re is _WORLD else 0
            sets.setdefault((match["stem"] != "model", match["stem"], world), {})[int(match["rank"])] = name
    if not sets:
        return None
    key = min(sets)
    found = sets[key]
    world = key[2] or max(found) + 1
    return RankFiles(found, world) if world > 1 else None


def has_rank_files(names: frozenset[str]) -> bool:
    """True if a folder holds one file a rank, and no model beside them."""
    plain = any(n.endswith((".safetensors", ".index.json")) or n.startswith("pytorch_model.bin") for n in names)
    return not plain and find_rank_files(names) is not None


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
    wholes: dict[Path, tuple[int, ...]] = {}
    for part in parts:
        wholes.update(part.shards)
    if not wholes:
        raise CheckpointError(
            "partitioned-state",
            f"{show_path(folder)} holds the local parts of {len(parts)} ranks; they do not say of which tensors they "
            "are parts (flattened rows of FSDP), so they cannot be put together without the program that saved them.",
            fix="Save it again with a full state dict (FSDP.state_dict_type FULL_STATE_DICT, or get_model_state_dict).",
            path=folder,
        )
    local = [{ref.path: ref for ref in part.refs} for part in parts]
    refs, boxes = [], {}
    for number, (path, first) in enumerate(local[0].items()):
        shape = wholes.get(path, first.shape)
        boxes[str(number)] = _boxes(path, shape, [refs.get(path) for refs in local], parts)
        refs.append(TensorRef(first.key, first.dtype, shape, first.section, NAME, str(number)))
    problems = tuple(p for p in parts[0].problems if p.code != "partitioned-state")
    files = tuple(file for part in parts for file in part.files)
    reader = AssembledReader([part.reader for part in parts], boxes)
    return Part("fsdp-ranks", NAME, tuple(refs), reader, files, problems, extras=parts[0].extras)


def _boxes(path: Path, shape: tuple[int, ...], refs: Sequence[TensorRef | None], parts: Sequence[Part]) -> list[Box]:
    """Return the boxes of a tensor, one a rank, along the one dimension in which the parts differ from the whole."""
    key = ".".join(path)
    held = [ref for ref in refs if ref is not None]
    if len(held) != len(refs) or any(len(r.shape) != len(shape) or r.dtype != held[0].dtype for r in held):
        raise _misfit(key, "is not of one type and number of dimensions in the files of all ranks")
    cut = [d for d in range(len(shape)) if any(ref.shape[d] != shape[d] for ref in held)]
    if not cut:  # the same on every rank
        return [Box((0,) * len(shape), shape, RefPiece(parts[0].reader, held[0]))]
    if len(cut) > 1 or sum(ref.shape[cut[0]] for ref in held) != shape[cut[0]]:
        shapes = ", ".join(str(list(ref.shape)) for ref in held[:4])
        raise _misfit(key, f"has parts ({shapes}{', …' if len(held) > 4 else ''}) that do not add up to {list(shape)}")
    boxes, at = [], 0
    for ref, part in zip(held, parts, strict=True):
        offsets = tuple(at if d == cut[0] else 0 for d in range(len(shape)))
        boxes.append(Box(offsets, ref.shape, RefPiece(part.reader, ref)))
        at += ref.shape[cut[0]]
    check_boxes(key, shape, [(box.offsets, box.sizes) for box in boxes])
    return boxes


def _misfit(key: str, what: str) -> CheckpointError:
    fix = "Merge the ranks with the tool that belongs to the trainer, or save a full state dict."
    return CheckpointError("partitioned-state", f"Tensor {safe_text(key)!r} {what}.", fix=fix, key=key)
