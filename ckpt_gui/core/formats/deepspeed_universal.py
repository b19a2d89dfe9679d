"""DeepSpeed's universal checkpoints: a folder `zero` with a folder for each parameter, whose `fp32.pt` is the whole.

`ds_to_universal.py` writes them of ZeRO checkpoints of any stage and of tensor-parallel ones. Of stage 3 it writes flat
rows, whose shapes stand in the model states that it copies beside, with buffers and parameters that are not trained.
Source: DeepSpeed `checkpoint/ds_to_universal.py` (0.19).
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence

from ckpt_gui.core.errors import CheckpointError, Finding
from ckpt_gui.core.formats.assembled import AssembledReader, RefPiece, Run
from ckpt_gui.core.formats.deepspeed_rows import NAME, Shapes, aliases, read_shapes, untrained
from ckpt_gui.core.formats.file_errors import show_path
from ckpt_gui.core.formats.parts import Part
from ckpt_gui.core.formats.places import list_all
from ckpt_gui.core.formats.registry import open_part
from ckpt_gui.core.formats.shard_index import check_link
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.tensors import TensorRef

ZERO, FP32 = "zero", "fp32.pt"


def is_universal(folder: str) -> bool:
    """True if a folder is a universal checkpoint."""
    zero = os.path.join(folder, ZERO)
    return any(os.path.isfile(os.path.join(zero, name, FP32)) for name in list_all(zero)[:64])


def open_universal(folder: str, models: Sequence[Part], cut: bool) -> Part:
    """Open a universal checkpoint.

    Args:
        folder: The folder.
        models: The model states beside it, opened; they are closed with what is returned.
        cut: True if the model was cut for tensor parallelism: then they hold parts, and the shapes of parts.

    Raises:
        CheckpointError: A parameter is not as it should be.
    """
    zero = os.path.join(folder, ZERO)
    check_link(folder, ZERO, folder)
    shapes = read_shapes(folder, [part.tree for part in models]) if models else Shapes((), {}, {}, (), {})
    if cut and shapes.frozen:
        text = f"{show_path(folder)} was cut for tensor parallelism, and its frozen parameters are only there in parts."
        raise CheckpointError("partitioned-state", text, path=folder)
    parts: list[Part] = []
    refs: list[TensorRef] = []
    runs: dict[str, list[Run]] = {}
    try:
        for key in list_all(zero):
            if os.path.isfile(os.path.join(zero, key, FP32)):
                check_link(zero, key, zero)
                parts.append(open_part(os.path.join(zero, key, FP32), f"{ZERO}/{key}/{FP32}"))
                refs.append(_whole(folder, key, parts[-1], {} if cut else shapes.trained))
                runs[key] = [Run(refs[-1].nbytes, RefPiece(parts[-1].reader, parts[-1].refs[0]))]
        more, others = untrained(folder, shapes, models)
    except BaseException:
        for part in parts:
            part.reader.close()
        raise
    refs += more
    refs += aliases(refs, shapes)
    every = [*models, *parts]
    reader = AssembledReader([part.reader for part in every], {}, {**runs, **others})
    found = (*_lost(folder, shapes, runs), *_unsafe(every))
    files = tuple(file for part in every for file in part.files)
    extras = tuple(e for e in models[0].extras if len(e.path) == 1) if models else ()
    return Part("deepspeed", NAME, tuple(refs), reader, files, found, extras=extras)


def _whole(folder: str, key: str, part: Part, shapes: Mapping[str, tuple[int, ...]]) -> TensorRef:
    """Return a parameter; a flat row gets the shape that the model states say."""
    if len(part.refs) != 1:
        text = f"{show_path(part.files[0].path)} holds {len(part.refs)} tensors where one parameter belongs."
        raise CheckpointError("damaged", text, path=folder)
    ref = part.refs[0]
    shape = shapes.get(key, ref.shape)
    if math.prod(shape) != ref.numel:
        text = f"`{safe_text(key)}` has {ref.numel:,} numbers in {show_path(folder)} for the shape {list(shape)}."
        raise CheckpointError("damaged", text, path=folder, key=key)
    flat = len(ref.shape) == 1
    return TensorRef(key, ref.dtype, shape if flat else ref.shape, (), NAME, key)


def _lost(folder: str, shapes: Shapes, there: dict[str, list[Run]]) -> list[Finding]:
    lost = tuple(key for key in shapes.trained if key not in there)
    if not lost:
        return []
    message = f"{len(lost):,} parameters such as `{safe_text(lost[0])}` have no {FP32} in {show_path(folder)}."
    fix = "Copy the folder whole, or convert the checkpoint again with ds_to_universal.py."
    return [Finding("shard-missing", "error", message, lost, fix, blocking=True)]


def _unsafe(parts: Sequence[Part]) -> tuple[Finding, ...]:
    return tuple(p for part in parts for p in part.problems if p.code == "unsafe-pickle")[:1]
