"""What the names in a folder say of it: names alone, so that a reader is imported only for what is there.

Patterns are compiled when they are first looked for.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

Names = frozenset[str]
METADATA = ".metadata"  # of a distributed torch checkpoint
_OPTIM = r"(?:bf16_|fp16_)?zero_pp_rank_(\d{1,5})_mp_rank_(\d{1,5})_optim_states\.pt\Z"
_MODEL = r"(?:zero_pp_rank_(\d{1,5})_)?mp_rank_(\d{1,5})_model_states\.pt\Z"
_STEP = r"global_step\d{1,12}(_universal)?\Z"
_HF_PART = r"shard-(\d{5,6})-model-\d{5,6}-of-\d{5,6}\.safetensors\Z"
_WORLD = r"(?P<stem>.+?)_world_size_(?P<world>\d{1,5})_rank_(?P<rank>\d{1,5})\.(pt|pth|bin)\Z"
_RANK = r"(?P<stem>|model_|pytorch_model_|shard_|fsdp_|checkpoint_)rank_?(?P<rank>\d{1,5})\.(pt|pth|bin)\Z"
_SLICE = r"consolidated\.(?P<rank>\d\d)\.(?P<suffix>pth|pt)\Z"


class RankFiles(NamedTuple):
    """The files of all ranks.

    Attributes:
        names: Their names by rank.
        world: How many there ought to be.
    """

    names: dict[int, str]
    world: int


def is_dcp(names: Names) -> bool:
    """True if a folder holds a distributed checkpoint."""
    return METADATA in names


def optimizer_rank(name: str) -> re.Match[str] | None:
    """Match the optimizer state of one rank of ZeRO; the groups are its ranks of data and of the model."""
    return re.match(_OPTIM, name)


def model_rank(name: str) -> re.Match[str] | None:
    """Match the model state of one rank of DeepSpeed; the groups are its ranks of data and of the model."""
    return re.match(_MODEL, name)


def is_step(name: str) -> bool:
    """True for the folder of one step of a DeepSpeed run."""
    return re.match(_STEP, name) is not None


def is_deepspeed(names: Names) -> bool:
    """True if a folder is a ZeRO checkpoint, or holds some and no model beside them."""
    steps = any(map(is_step, names)) and not _has_model(names)
    return steps or any(optimizer_rank(name) or model_rank(name) for name in names)


def hf_part_rank(name: str) -> int | None:
    """Return the rank whose part of each tensor a safetensors file holds; None for any other file."""
    match = re.match(_HF_PART, name) if name.startswith("shard-") else None
    return int(match[1]) if match else None


def has_hf_parts(names: Names) -> bool:
    """True if a folder holds parts of several ranks as safetensors files."""
    return any(hf_part_rank(name) is not None for name in names)


def find_rank_files(names: Iterable[str]) -> RankFiles | None:
    """Return the files of the ranks in a folder, those called `model` first; None if there are none."""
    sets: dict[tuple[bool, str, int], dict[int, str]] = {}
    for name in sorted(names):
        in_world = re.match(_WORLD, name)
        match = in_world or re.match(_RANK, name)
        if match and match["stem"] not in ("optim", "extra_state", "optimizer"):
            world = int(match["world"]) if in_world else 0
            sets.setdefault((match["stem"] != "model", match["stem"], world), {})[int(match["rank"])] = name
    if not sets:
        return None
    key = min(sets)
    found = sets[key]
    world = key[2] or max(found) + 1
    return RankFiles(found, world) if world > 1 else None


def has_rank_files(names: Names) -> bool:
    """True if a folder holds one file a rank, and no model beside them."""
    return not _has_model(names) and find_rank_files(names) is not None


def is_slice(name: str) -> bool:
    """True for the file of one tensor-parallel rank, as Meta writes it."""
    return name.startswith("consolidated.") and re.match(_SLICE, name) is not None


def find_slices(names: Iterable[str]) -> dict[int, str]:
    """Return the files of tensor-parallel ranks in a folder, by rank."""
    matches = [match for name in filter(is_slice, names) if (match := re.match(_SLICE, name))]
    return {int(match["rank"]): match[0] for match in matches if match["suffix"] == matches[0]["suffix"]}


def slices_up_to(last: int, name: str) -> tuple[str, ...]:
    """Return what the files of all ranks up to one are called, if one of them has that name."""
    return tuple(f"consolidated.{rank:02}{name[name.rfind('.') :]}" for rank in range(last + 1))


def _has_model(names: Names) -> bool:
    return any(n.endswith((".safetensors", ".index.json")) or n.startswith("pytorch_model.bin") for n in names)
