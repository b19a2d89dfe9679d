"""DeepSpeed ZeRO checkpoints: fp32 weights put together from the optimizer states of all ranks.

The rule is that of DeepSpeed's own `zero_to_fp32.py`: stages 1 and 2 cut one row of all parameters into equal slices,
stage 3 cuts each parameter; the model states list names and shapes in order. Frozen parameters and buffers lie in the
model states themselves.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ckpt_gui.core.beside import ForeignObject
from ckpt_gui.core.errors import CheckpointError, Finding
from ckpt_gui.core.formats.assembled import AssembledReader, Run
from ckpt_gui.core.formats.deepspeed_rows import (
    NAME,
    Row,
    Rows,
    Shapes,
    aliases,
    place_stage2,
    place_stage3,
    read_shapes,
    untrained,
)
from ckpt_gui.core.formats.deepspeed_universal import is_universal, open_universal
from ckpt_gui.core.formats.file_errors import show_path
from ckpt_gui.core.formats.files import HeldFile
from ckpt_gui.core.formats.folder_names import is_step, model_rank, optimizer_rank
from ckpt_gui.core.formats.parts import Part
from ckpt_gui.core.formats.places import list_all
from ckpt_gui.core.formats.registry import open_part
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.tensors import TensorRef
from ckpt_gui.dataclasses import replace

_KEYS = {2: "single_partition_of_fp32_groups", 3: "fp32_flat_groups"}


def open_deepspeed(folder: str, names: frozenset[str]) -> Part:
    """Open a ZeRO checkpoint, or the latest one in a folder of some.

    Raises:
        CheckpointError: Files of ranks are missing, or they do not fit together.
    """
    if not any(optimizer_rank(name) or model_rank(name) for name in names):
        step = _latest(folder, names)
        folder = os.path.join(folder, step)
        names = frozenset(list_all(folder))
    models = [m.string for m in sorted(filter(None, map(model_rank, names)), key=lambda m: int(m[1] or 0))]
    states = {int(m[1]): m.string for m in map(optimizer_rank, sorted(names)) if m}
    cut = len({int(m[2]) for m in map(model_rank, models) if m})
    universal = is_universal(folder)
    if not universal:
        _check_names(folder, names, models, cut)
    opened: list[Part] = []
    try:
        opened += [_open(folder, name) for name in models]
        if universal:
            return open_universal(folder, opened, cut > 1)
        if not states:
            return opened[0]
        ranks = {rank: _open(folder, name) for rank, name in sorted(states.items())}
        opened += ranks.values()
        return _consolidate(folder, opened[: len(models)], ranks)
    except BaseException:
        for part in opened:
            part.reader.close()
        raise


def _open(folder: str, name: str) -> Part:
    return open_part(os.path.join(folder, name), name)


def _latest(folder: str, names: frozenset[str]) -> str:
    """Return the checkpoint that `latest` or `latest_universal` names, else the one of the highest step."""
    steps = sorted((name for name in names if is_step(name)), key=_step)
    for note in ("latest", "latest_universal"):
        text = _read_note(os.path.join(folder, note)) if note in names else ""
        if text in steps:
            return text
    return steps[-1]


def _step(name: str) -> tuple[int, bool]:
    """Return the number of a step; of two forms of one step the universal one is less."""
    return int(re.sub(r"\D", "", name)), not name.endswith("_universal")


def _read_note(path: str) -> str:
    file = HeldFile(path)
    try:
        return file.read(0, min(file.size, 100)).decode("utf-8", "replace").strip()
    finally:
        file.close()


def _check_names(folder: str, names: frozenset[str], models: Sequence[str], cut: int) -> None:
    if cut > 1:
        text = f"{show_path(folder)} is a ZeRO checkpoint of a model that is cut into {cut} tensor-parallel parts."
        fix = "Run DeepSpeed's ds_to_universal.py on it: the universal checkpoint that it writes opens here."
        raise CheckpointError("partitioned-state", text, fix=fix, path=folder)
    if not models:
        count = sum(1 for name in names if optimizer_rank(name))
        raise _error(folder, f"it has {count} optimizer states, but no …_model_states.pt that names the parameters")


def _consolidate(folder: str, models: list[Part], ranks: Mapping[int, Part]) -> Part:
    first = next(iter(ranks.values()))
    state = _optimizer(folder, first)
    stage, world = _number(state.get("zero_stage")), _world(state.get("partition_count"))
    if stage not in (1, 2, 3) or not world:
        raise _error(folder, "its optimizer states do not say how they are cut")
    if len(ranks) > world:
        what = f"it has the optimizer states of {len(ranks)} ranks, and was saved by {world}"
        raise _error(folder, f"{what}; files of an older save lie in it")
    missing = [rank for rank in range(world) if rank not in ranks]
    if missing and stage < 3:
        return _module_only(folder, models, ranks, missing)
    needed = models if stage < 3 else models[:world]
    if missing or (stage == 3 and len(models) < world):
        raise _missing(folder, missing or list(range(len(models), world)), world)
    rows = [_rows(folder, ranks[rank], max(stage, 2)) for rank in range(world)]
    shapes = read_shapes(folder, [part.tree for part in needed])
    placed = place_stage3(folder, shapes, rows) if stage == 3 else place_stage2(folder, shapes, rows)
    return _assemble(folder, shapes, placed, needed, [*models, *ranks.values()])


def _assemble(
    folder: str, shapes: Shapes, placed: dict[str, list[Run]], models: list[Part], parts: Sequence[Part]
) -> Part:
    refs = [TensorRef(key, "fp32", shapes.trained[key], (), NAME, key) for key in placed]
    more, runs = untrained(folder, shapes, models)
    refs += more
    refs += aliases(refs, shapes)
    runs |= placed
    files = tuple(file for part in parts for file in part.files)
    extras = tuple(e for e in models[0].extras if len(e.path) == 1)
    reader = AssembledReader([part.reader for part in parts], {}, runs)
    unsafe = tuple(p for part in parts for p in part.problems if p.code == "unsafe-pickle")[:1]
    return Part("deepspeed", NAME, tuple(refs), reader, files, unsafe, extras=extras)


def _module_only(folder: str, models: list[Part], ranks: Mapping[int, Part], missing: list[int]) -> Part:
    """Stages 1 and 2 keep the whole model, in the type it was trained in, beside the cut fp32 one."""
    for part in ranks.values():
        part.reader.close()
    message = (
        f"The optimizer states of ranks {', '.join(map(str, missing[:12]))} are missing in {show_path(folder)}: "
        "the fp32 weights cannot be put together. The weights of the model states are whole and shown instead."
    )
    finding = Finding("shard-missing", "error", message, fix="Copy the files of all ranks to get fp32 weights.")
    return replace(models[0], problems=(finding, *models[0].problems))


def _optimizer(folder: str, part: Part) -> Mapping[str, Any]:
    state = part.tree.get("optimizer_state_dict") if isinstance(part.tree, dict) else None
    if not isinstance(state, dict):
        raise _error(folder, f"{safe_text(part.name, 80)} holds no optimizer state")
    return state


def _rows(folder: str, part: Part, stage: int) -> Rows:
    """Return the fp32 rows of one rank, one a group of parameters."""
    groups = _optimizer(folder, part).get(_KEYS[stage])
    groups = [groups] if isinstance(groups, TensorRef) else groups
    if not isinstance(groups, list) or not all(isinstance(g, TensorRef) and g.dtype == "fp32" for g in groups):
        raise _error(folder, f"{safe_text(part.name, 80)} holds no fp32 parameters")
    return [Row(part.reader, ref) for ref in groups]


def _number(value: Any) -> int:
    """Return a number, or that of an enum's member, which stays a foreign object."""
    if isinstance(value, ForeignObject) and value.children:
        value = value.children[0][0] if isinstance(value.children[0], tuple) else value.children[0]
    return value if type(value) is int else 0


def _world(value: Any) -> int:
    """Return how many ranks share the parameters; 0 where that differs from group to group (experts)."""
    counts = value if isinstance(value, list) and len(value) < 1024 else [value]
    return _number(counts[0]) if len(set(map(_number, counts))) == 1 else 0


def _missing(folder: str, missing: Sequence[int], world: int) -> CheckpointError:
    ranks = ", ".join(map(str, missing[:12])) + (", …" if len(missing) > 12 else "")
    text = (
        f"{show_path(folder)} is a ZeRO checkpoint of {world} ranks; the files of {len(missing)} are missing: {ranks}."
    )
    return CheckpointError("shard-missing", text, fix="Copy the files of all ranks into the folder.", path=folder)


def _error(folder: str, what: str) -> CheckpointError:
    text = f"{show_path(folder)} is a DeepSpeed ZeRO checkpoint that cannot be put together: {what}."
    return CheckpointError("partitioned-state", text, fix="Run its own zero_to_fp32.py where it was made.", path=folder)
