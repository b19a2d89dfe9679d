"""Tensors of a distributed model in a pickle: one rank's part, and where it lies in the whole.

A `DTensor` carries its mesh, this rank's place in it and how each dimension of the mesh cuts the tensor; a
`ShardedTensor` (FSDP 1) carries offsets and sizes. Both are read as descriptions. The order of the ranks alone does not
tell: with two dimensions of a mesh, FSDP's cut lies inside that of tensor parallelism (`_StridedShard`).
Sources: torch 2.13 `distributed/tensor/placement_types.py`, `_utils.py`, `device_mesh.py` (and 2.4 to 2.9 for the older
spelling of a mesh); `distributed/_shard/sharded_tensor/api.py`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from ckpt_gui.core.beside import ForeignObject
from ckpt_gui.core.formats.pickle_global import are_counts
from ckpt_gui.core.formats.torch_values import TensorStub

DISTRIBUTED = frozenset(
    {
        "torch.distributed.tensor.DTensor",
        "torch.distributed._tensor.api.DTensor",
        "torch.distributed._tensor.DTensor",
        "torch.distributed._shard.sharded_tensor.api.ShardedTensor",
    }
)
MAX_BOXES = 256
MAX_MESH = 8
Shape = tuple[int, ...]
Run = tuple[int, int]  # where some neighbouring rows begin in the whole, and how many they are


class LocalBox(NamedTuple):
    """A box of a whole tensor that a rank holds.

    Attributes:
        offsets: Where it begins in the whole, by dimension.
        starts: Where it begins in the rank's part.
        sizes: Its shape.
    """

    offsets: Shape
    starts: Shape
    sizes: Shape


class LocalPart(NamedTuple):
    """What a rank's part says of the whole.

    Attributes:
        whole: The shape of the whole.
        boxes: The boxes that it is made of; None if it does not say how the tensor is cut, empty if it is no part that
            can be put beside others (a sum that is not yet done).
    """

    whole: Shape
    boxes: tuple[LocalBox, ...] | None


def distributed(kind: str, inner: Any, state: Any) -> Any:
    """Return one rank's part of a distributed tensor, or `NotImplemented` where the pickle does not hold one.

    Args:
        kind: The class.
        inner: Arguments from which torch makes the wrapper: class, type, shape, ….
        state: What it was pickled with.
    """
    whole = _counts(inner[2]) if type(inner) is tuple and len(inner) > 2 else None
    if whole is None:
        return NotImplemented
    if kind.endswith("ShardedTensor"):
        return _sharded(whole, state)
    local = _find((state,), "_local_tensor")
    if type(local) is not TensorStub:
        return NotImplemented
    return local._replace(part=LocalPart(whole, _boxes(whole, _find((state,), "_spec"))))


def _sharded(whole: Shape, state: Any) -> Any:
    """A `ShardedTensor`: its state begins with the shards of this rank, of which there is one as a rule."""
    shards = state[0] if type(state) is tuple and state else None
    if type(shards) is not list or len(shards) != 1:
        return NotImplemented
    local, place = _member(shards[0], "tensor"), _member(shards[0], "metadata")
    offsets, sizes = _counts(_member(place, "shard_offsets")), _counts(_member(place, "shard_sizes"))
    if type(local) is not TensorStub or offsets is None or sizes is None or len(offsets) != len(sizes):
        return NotImplemented
    return local._replace(part=LocalPart(whole, (LocalBox(offsets, (0,) * len(sizes), sizes),)))


def _boxes(whole: Shape, spec: Any) -> tuple[LocalBox, ...] | None:
    placements, mesh = _member(spec, "placements"), _member(spec, "mesh")
    sizes, place = _mesh_shape(mesh), _counts(_member(mesh, "_coordinate_on_dim"))
    if type(placements) is not tuple or sizes is None or place is None:
        return None
    if not len(placements) == len(sizes) == len(place) <= MAX_MESH or any(
        a >= b for a, b in zip(place, sizes, strict=True)
    ):
        return None
    runs: list[list[Run]] = [[(0, size)] for size in whole]
    for placement, count, index in zip(placements, sizes, place, strict=True):
        name = placement.name.rpartition(".")[2] if isinstance(placement, ForeignObject) else ""
        if name == "Replicate":
            continue
        dim, pieces = _member(placement, "dim"), _member(placement, "split_factor")
        pieces = 1 if pieces is None else pieces
        if name not in ("Shard", "_StridedShard") or type(dim) is not int or not 0 <= dim < len(whole):
            return ()
        if type(pieces) is not int or not 0 < pieces * len(runs[dim]) <= MAX_BOXES:
            return ()
        runs[dim] = _cut(runs[dim], count, index, pieces)
    if math.prod(map(len, runs)) > MAX_BOXES:
        return ()
    return tuple(_box(chosen) for chosen in itertools.product(*map(_with_starts, runs)))


def _box(chosen: Sequence[tuple[int, int, int]]) -> LocalBox:
    offsets, starts, sizes = zip(*chosen, strict=True) if chosen else ((), (), ())
    return LocalBox(offsets, starts, sizes)


def _with_starts(runs: Sequence[Run]) -> list[tuple[int, int, int]]:
    """Return the runs with where each begins among the rank's own rows: (in the whole, here, how many)."""
    made, at = [], 0
    for start, count in runs:
        made.append((start, at, count))
        at += count
    return made


def _cut(runs: Sequence[Run], count: int, index: int, pieces: int) -> list[Run]:
    """Return the share of one of `count` ranks, by torch's rule: equal chunks rounded up, the last ones shorter.

    With several pieces each of them is cut so, and the shares lie one behind the other.

    >>> _cut([(0, 9)], 4, 0, 1), _cut([(0, 9)], 4, 1, 2)
    ([(0, 3)], [(2, 2), (6, 1)])
    """
    total = sum(n for _, n in runs)
    kept: list[Run] = []
    for piece in range(pieces):
        low, high = _chunk(0, total, pieces, piece)
        kept += _between(runs, *_chunk(low, high, count, index))
    return kept or [(0, 0)]


def _chunk(low: int, high: int, count: int, index: int) -> Run:
    share = -(-(high - low) // count)
    first = min(low + index * share, high)
    return first, min(first + share, high)


def _between(runs: Sequence[Run], low: int, high: int) -> list[Run]:
    """Return the rows from `low` to `high`, counted over the runs."""
    kept, at = [], 0
    for start, count in runs:
        first, last = max(low - at, 0), min(high - at, count)
        if first < last:
            kept.append((start + first, last - first))
        at += count
    return kept


def _mesh_shape(mesh: Any) -> Shape | None:
    """Return the sizes of a mesh: torch 2.13 describes each axis, 2.9 all in one, older ones by the tensor of ranks."""
    layout = _member(mesh, "_layout")
    axes, flat = _member(layout, "axes"), _member(layout, "shape")
    if type(axes) is tuple and len(axes) <= MAX_MESH:
        shapes = [_counts(_member(axis, "shape")) for axis in axes]
        return None if None in shapes else tuple(math.prod(shape or ()) for shape in shapes)
    if flat is not None:
        return _counts(flat if type(flat) is tuple else (flat,))
    ranks = _member(mesh, "mesh")
    return _counts(ranks.shape) if type(ranks) is TensorStub else None


def _counts(value: Any) -> Shape | None:
    good = isinstance(value, (tuple, list)) and len(value) <= 64 and are_counts(tuple(value))
    return tuple(value) if good else None


def _member(value: Any, name: str) -> Any:
    """Return a member of an object that the pickle describes; None if it has none of that name."""
    return _find(value.children[-2:], name) if isinstance(value, ForeignObject) else None


def _find(states: Sequence[Any], name: str) -> Any:
    """Return a value of the dicts that make up a state, without copying what a million tensors may share."""
    for state in states:
        for part in state if type(state) is tuple and len(state) == 2 else (state,):  # attributes that lie in slots
            if isinstance(part, dict) and name in part:
                return part[name]
    return None
