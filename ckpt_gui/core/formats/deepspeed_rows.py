"""Where each parameter of a ZeRO checkpoint lies in the flat rows of the ranks."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.formats.assembled import RefPiece, Run
from ckpt_gui.core.formats.file_errors import show_path
from ckpt_gui.core.formats.parts import Part
from ckpt_gui.core.formats.pickle_global import are_counts
from ckpt_gui.core.formats.torch_values import TorchSize
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.source import Reader
from ckpt_gui.core.tensors import TensorRef

Shape = tuple[int, ...]
MAX_DIMS = 64
NAME = "model"


class Row(NamedTuple):
    """A flat row of fp32 parameters in a file.

    Attributes:
        reader: Reads it.
        ref: The row.
    """

    reader: Reader
    ref: TensorRef


Rows = Sequence[Row]


class Shapes(NamedTuple):
    """What the model states say of the parameters.

    Attributes:
        groups: Names and shapes in order, one mapping a group.
        frozen_shapes: Shapes of parameters that are not trained.
        frozen: Their parts, one a rank.
        buffers: Tensors that are no parameters, whole in the first file.
        shared: Names that stand for another parameter.
    """

    groups: tuple[Mapping[str, Shape], ...]
    frozen_shapes: Mapping[str, Shape]
    frozen: Mapping[str, tuple[TensorRef, ...]]
    buffers: tuple[TensorRef, ...]
    shared: Mapping[str, str]

    @property
    def trained(self) -> dict[str, Shape]:
        """All trained parameters."""
        return {key: shape for group in self.groups for key, shape in group.items()}


def read_shapes(folder: str, trees: Sequence[Any]) -> Shapes:
    """Read the model states.

    Raises:
        CheckpointError: `partitioned-state`: they do not name the parameters.
    """
    tree = trees[0] if isinstance(trees[0], dict) else {}
    groups = tree.get("param_shapes")
    groups = groups if isinstance(groups, list) else [groups]
    made = tuple(_shapes(folder, group) for group in groups)
    frozen_shapes = _shapes(folder, tree.get("frozen_param_shapes") or {})
    fragments = [t.get("frozen_param_fragments") or {} if isinstance(t, dict) else {} for t in trees]
    frozen = {key: tuple(ref for f in fragments if isinstance(ref := f.get(key), TensorRef)) for key in frozen_shapes}
    if not all(frozen.values()):
        raise _error(folder, "frozen parameters have no values")
    names, module = tree.get("buffer_names"), tree.get("module")
    named = [n for n in names if type(n) is str] if isinstance(names, list) else []
    buffers = tuple(ref for n in named if isinstance(module, dict) and isinstance(ref := module.get(n), TensorRef))
    return Shapes(made, frozen_shapes, frozen, buffers, dict(_pairs(tree.get("shared_params"))))


def _pairs(shared: Any) -> Iterator[tuple[str, str]]:
    items = shared.items() if isinstance(shared, dict) else shared if isinstance(shared, list) else ()
    for item in items:
        if isinstance(item, (list, tuple)) and len(item) == 2 and all(type(name) is str for name in item):
            yield item[0], item[1]


def _shapes(folder: str, group: Any) -> dict[str, Shape]:
    if not isinstance(group, dict):
        raise _error(folder, "the model states do not list the shapes of the parameters")
    for key, shape in group.items():
        sizes = type(shape) in (TorchSize, tuple, list) and len(shape) <= MAX_DIMS and are_counts(tuple(shape))
        if type(key) is not str or not sizes or math.prod(shape) >= 1 << 62:
            raise _error(folder, "the model states do not list the shapes of the parameters")
    return {key: tuple(shape) for key, shape in group.items()}


def untrained(folder: str, shapes: Shapes, models: Sequence[Part]) -> tuple[list[TensorRef], dict[str, list[Run]]]:
    """Return the frozen parameters and the buffers, and where they lie in the model states.

    Raises:
        CheckpointError: A frozen parameter is not whole.
    """
    refs: list[TensorRef] = []
    runs: dict[str, list[Run]] = {}
    for key, pieces in shapes.frozen.items():
        refs.append(TensorRef(key, pieces[0].dtype, shapes.frozen_shapes[key], (), NAME, key))
        left = refs[-1].nbytes
        runs[key] = []
        for part, ref in zip(models, pieces, strict=False):
            runs[key].append(Run(min(ref.nbytes, left), RefPiece(part.reader, ref)))
            left -= runs[key][-1].nbytes
        if left:
            raise _error(folder, f"the frozen parameter `{safe_text(key)}` is not whole")
    for ref in shapes.buffers:
        refs.append(TensorRef(ref.key, ref.dtype, ref.shape, (), NAME, ref.key))
        runs[ref.key] = [Run(ref.nbytes, RefPiece(models[0].reader, ref))]
    return refs, runs


def aliases(refs: Sequence[TensorRef], shapes: Shapes) -> list[TensorRef]:
    """Return the names that stand for parameters that are there under another."""
    known = {ref.key: ref for ref in refs}
    pairs = [(alias, known[name]) for alias, name in shapes.shared.items() if name in known and alias not in known]
    return [TensorRef(alias, whole.dtype, whole.shape, (), NAME, whole.storage) for alias, whole in pairs]


def place_stage2(folder: str, shapes: Shapes, ranks: Sequence[Rows]) -> dict[str, list[Run]]:
    """Place parameters of stages 1 and 2: each group is one row, cut into a slice for each rank.

    Raises:
        CheckpointError: The rows are shorter than the parameters.
    """
    placed: dict[str, list[Run]] = {}
    if any(len(rows) != len(shapes.groups) for rows in ranks):
        raise _error(folder, "the optimizer states have another number of parameter groups than the model states")
    for number, group in enumerate(shapes.groups):
        slices = [rows[number] for rows in ranks]
        at = 0
        for key, shape in group.items():
            placed[key] = _slice(folder, key, slices, at, math.prod(shape))
            at += math.prod(shape)
        _check_used(folder, at, sum(row.ref.numel for row in slices), 2 * len(ranks))
    return placed


def place_stage3(folder: str, shapes: Shapes, ranks: Sequence[Rows]) -> dict[str, list[Run]]:
    """Place parameters of stage 3: each is cut into a slice for each rank, padded to equal length.

    Raises:
        CheckpointError: The rows are shorter than the parameters.
    """
    placed: dict[str, list[Run]] = {}
    at = 0
    for key, shape in shapes.trained.items():
        left = math.prod(shape)
        share = -(-left // len(ranks))
        placed[key] = []
        for rows in ranks:
            placed[key] += _slice(folder, key, rows, at, min(share, left))
            left -= min(share, left)
        at += share
    for rows in ranks:
        _check_used(folder, at, sum(row.ref.numel for row in rows), 1)
    return placed


def _check_used(folder: str, used: int, there: int, padding: int) -> None:
    """Raise if rows are longer than their parameters need, but for the padding: names and rows belong to two saves."""
    if -(-used // padding) != -(-there // padding):
        what = f"its parameters take {used:,} numbers, and there are {there:,}"
        raise _error(folder, f"{what}; files of two different saves may lie in it")


def _slice(folder: str, key: str, rows: Rows, start: int, count: int) -> list[Run]:
    """Return the runs of a slice of rows that lie one after another; `start` and `count` are in elements."""
    runs = []
    for row in rows:
        part = min(row.ref.numel - start, count) if start < row.ref.numel else 0
        if part > 0:
            runs.append(Run(4 * part, RefPiece(row.reader, row.ref, 4 * start)))
            count -= part
        start = max(start - row.ref.numel, 0)
        if not count:
            return runs
    if count:
        raise _error(folder, f"the parameter `{safe_text(key)}` reaches beyond the rows of the ranks")
    return runs


def _error(folder: str, what: str) -> CheckpointError:
    text = f"{show_path(folder)} is a DeepSpeed ZeRO checkpoint that cannot be put together: {what}."
    return CheckpointError("partitioned-state", text, fix="Run its own zero_to_fp32.py where it was made.", path=folder)
