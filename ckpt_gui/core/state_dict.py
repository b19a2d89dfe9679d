"""For training scripts: a clean state dict from the one in memory, before it is saved.

Keys lose their wrapper names, and another layout's names and row order can be asked for. Tensors that do not change
come back as the very same objects, whatever their class or device; only permuted ones are new.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from ckpt_gui.core.beside import Sidecars
from ckpt_gui.core.dtypes import BY_NAME
from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.export import Target
from ckpt_gui.core.exprs import Expr, leaves
from ckpt_gui.core.formats.memory import from_state_dict
from ckpt_gui.core.formats.sidecars import read_json
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.merge_ops import MergeBias, MergeLora
from ckpt_gui.core.normalise import normalise
from ckpt_gui.core.ops import Cast, Op, RopePermute
from ckpt_gui.core.part_ops import Concat, Pick, Stack, Take
from ckpt_gui.core.passes.ties import pair_key
from ckpt_gui.core.passes.unwrap import unwrap_keys
from ckpt_gui.core.plan import Evidence, Plan
from ckpt_gui.core.policy import Policy
from ckpt_gui.core.replace_ops import PutRows, Replace
from ckpt_gui.core.retarget import retarget
from ckpt_gui.core.shape_ops import Regroup, Transpose
from ckpt_gui.core.symbols import size_of
from ckpt_gui.core.tensors import TensorRef

_REFUSED = (
    *("key-collision", "heads-unknown", "unknown-layout", "several-sections"),
    *("adapter-empty", "adapter-unmatched"),
)


def normalise_state_dict(
    state_dict: Mapping[str, Any],
    layout: str = "same",
    config: Mapping[str, Any] | str | os.PathLike[str] | Any | None = None,
    heads: int | None = None,
    kv_heads: int | None = None,
) -> dict[str, Any]:
    """Return a state dict without wrapper names, in a layout's own names and row order.

    Args:
        state_dict: What `model.state_dict()` returned; it may lie under `model` beside other values.
        layout: `same` (only wrappers go), `hf`, `meta` or `torchtune`.
        config: A parsed config.json, its path, or a transformers config; needed where rows must be reordered.
        heads: Number of query heads, where no config is given.
        kv_heads: Number of key/value heads.

    Returns:
        A new dict in the same order. Unchanged tensors are the same objects; tied tensors stay tied. An output head
        that equals its embedding is left out for `hf` and `torchtune` if the config or the shared storage says that
        it is tied.

    Raises:
        CheckpointError: Keys collide, head counts are missing, or a tensor that must be permuted is of a class that can
            not be.
    """
    source = from_state_dict(state_dict)
    source = source.replace(sidecars=_sidecars(config))
    plan = normalise(source, Policy(heads=heads, kv_heads=kv_heads))
    tensors = _tensors(state_dict)
    plan = _compared(plan, tensors)
    export = retarget(plan, Target(layout))
    blocking = [f for f in export.blocked if f.code in _REFUSED]
    if blocking:
        first = blocking[0]
        raise CheckpointError(first.code, first.message, fix=first.fix, key=first.keys[0] if first.keys else None)
    if layout == "same":
        return _unwrapped(plan, tensors)
    return {e.key: _made(e.expr, tensors, export.plan.dims) for e in export.entries}


def _unwrapped(plan: Plan, tensors: Mapping[tuple[str, ...], Any]) -> dict[str, Any]:
    """Return the tensors of the plan's section without wrapper names; nothing else changes, and nothing goes."""
    beside = {id(d.ref) for d in plan.dropped if d.kind in ("not-weights", "other-section")}
    kept = {".".join(r.path[len(plan.section) :]): r for r in plan.source.refs if id(r) not in beside}
    names = unwrap_keys(list(kept)).names
    return {names[key]: tensors[ref.path] for key, ref in kept.items()}


def _sidecars(config: Any) -> Sidecars:
    if config is None:
        return Sidecars()
    if hasattr(config, "to_dict"):
        config = config.to_dict()
    if not isinstance(config, Mapping):
        config = read_json(os.fspath(config))
    return Sidecars(params=config) if "n_heads" in config else Sidecars(config=config)


def _tensors(state_dict: Mapping[Any, Any], path: tuple[str, ...] = ()) -> dict[tuple[str, ...], Any]:
    found: dict[tuple[str, ...], Any] = {}
    for key, value in state_dict.items():
        where = (*path, str(key))
        if isinstance(value, Mapping):
            found |= _tensors(value, where)
        else:
            found[where] = value
    return found


def _compared(plan: Plan, tensors: Mapping[tuple[str, ...], Any]) -> Plan:
    """Compare the tied pair in memory, on the device where it is."""
    tie = plan.tie
    if tie.state != "unchecked" or tie.embedding is None or tie.head is None:
        return plan
    same = _same_bytes(tensors[tie.embedding.path], tensors[tie.head.path])
    if same is None:
        return plan
    pairs = {pair_key(tie.embedding, tie.head): "equal" if same else "different"}
    return normalise(plan.source, plan.policy, Evidence(pairs))  # type: ignore[arg-type]


def _same_bytes(left: Any, right: Any) -> bool | None:
    """Return whether two tensors are equal bit for bit; None if they can not be compared."""
    import torch

    if getattr(left, "is_meta", False) or getattr(right, "is_meta", False):
        return None
    if not {type(left), type(right)} <= {torch.Tensor, torch.nn.Parameter}:
        return None
    if left.shape != right.shape or left.dtype != right.dtype:
        return None
    bits = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}.get(left.element_size())
    if bits is None or left.device != right.device:
        return None
    return bool(torch.equal(left.detach().contiguous().view(bits), right.detach().contiguous().view(bits)))


def _made(expr: Expr, tensors: Mapping[tuple[str, ...], Any], dims: Mapping[str, int]) -> Any:
    """Return the tensor that an expression makes: the very object where nothing is done to it."""
    if isinstance(expr, TensorRef):
        return tensors[expr.path]
    parts = [_made(part, tensors, dims) for part in expr.parts]
    ref = next(leaves(expr))
    for part in parts:
        _check_plain(part, ref)
    if isinstance(expr.op, RopePermute):
        return _permuted(parts[0], expr.op, dims, ref)
    return _joined(expr.op, parts, dims)


def _joined(op: Op, parts: list[Any], dims: Mapping[str, int]) -> Any:
    """Do with tensors what the ops that take apart and put together do with streams."""
    import torch

    if op.name == "dequantise":
        fix = "Load it as its tool does and dequantise it, or convert the saved file with ckpt-gui fix."
        raise CheckpointError("quantised", "Codes and scales in memory are not decoded here.", fix=fix)
    parts = [p.detach() for p in parts]
    shape = op.shape([tuple(p.shape) for p in parts], dims)
    if isinstance(op, Concat):
        return torch.cat(parts, op.dim)
    if isinstance(op, Stack):
        return torch.stack(parts)
    if isinstance(op, Regroup):
        groups, count = size_of(op.groups, dims), size_of(op.parts, dims)
        return parts[0].unflatten(0, (groups, count, -1)).transpose(0, 1).reshape(shape)
    if isinstance(op, Take):
        lengths = op.lengths(parts[0].shape[op.dim], dims)
        return parts[0].narrow(op.dim, sum(lengths[: op.index]), lengths[op.index]).contiguous().clone()
    if isinstance(op, Pick):
        return parts[0][op.index].clone()
    if isinstance(op, Transpose):
        return parts[0].transpose(-1, -2).contiguous()
    if isinstance(op, MergeLora):
        return _merged(op, parts)
    if isinstance(op, Replace):
        return parts[1]
    if isinstance(op, MergeBias):
        kind = torch.promote_types(parts[0].dtype, torch.float32)
        return (parts[0].to(kind) + parts[1].to(kind) * op.scale).to(parts[0].dtype)
    if isinstance(op, PutRows):
        return parts[0].index_copy(0, torch.tensor(op.indices, device=parts[0].device), parts[1])
    if isinstance(op, Cast):
        return parts[0].to(getattr(torch, BY_NAME[op.target].torch or op.target))
    return parts[0].reshape(shape)


def _merged(op: MergeLora, parts: list[Any]) -> Any:
    """Return a weight with its adapter in it, added up in fp32."""
    import torch

    kind = torch.promote_types(parts[0].dtype, torch.float32)
    weight, a, b, *lengths = (part.to(kind) for part in parts)
    made = weight + (b @ a) * op.scale
    if lengths:
        made = made * (lengths[0] / torch.linalg.norm(made, dim=1))[:, None]
    return made.to(parts[0].dtype)


def _permuted(tensor: Any, op: RopePermute, dims: Mapping[str, int], ref: TensorRef) -> Any:
    """Return a new tensor with the rows of each head reordered."""
    head_dim = op.check(tuple(tensor.shape), dims, ref.key)
    half = head_dim // 2
    split = (half, 2) if op.to == "halves" else (2, half)
    rows = tensor.detach().reshape(-1, *split, *tensor.shape[1:])
    return rows.transpose(1, 2).reshape(tensor.shape).contiguous()


def _check_plain(tensor: Any, ref: TensorRef) -> None:
    """Refuse a tensor whose class keeps its elements in a way of its own.

    Raises:
        CheckpointError: It names the class.
    """
    import torch

    if type(tensor) not in (torch.Tensor, torch.nn.Parameter):
        raise CheckpointError(
            "quantised",
            f"`{safe_text(ref.key)}` is a {type(tensor).__name__}; it can not be changed without unpacking it.",
            fix="Convert it to a plain tensor first (full_tensor() for a DTensor, dequantise for NF4).",
            key=ref.key,
        )
