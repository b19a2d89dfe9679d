"""How a tensor is made: an expression over stored tensors, with what undoes itself taken out.

A leaf is a stored tensor, a node an op over expressions. Building goes through `make`, which never leaves a step beside
its inverse: Meta → hub → torchtune asks for no head counts, and a fused tensor that is taken apart and put together
again is the stored tensor, byte for byte.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.ops import Op, RopePermute, Shape, Stream
from ckpt_gui.core.part_ops import Concat, Pick, Stack, Take
from ckpt_gui.core.tensors import TensorRef
from ckpt_gui.dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Made:
    """An op over expressions. Made by `make` only.

    Attributes:
        op: The op.
        parts: What it is applied to.
    """

    op: Op
    parts: tuple[Expr, ...]


Expr: TypeAlias = "TensorRef | Made"


def make(op: Op, *parts: Expr) -> Expr:
    """Apply an op to expressions; if it undoes what was done last, return what was there before.

    >>> from ckpt_gui.core.ops import RopePermute
    >>> ref = TensorRef("wq", "bf16", (8, 4))
    >>> make(RopePermute("heads", "pairs"), make(RopePermute("heads", "halves"), ref)) is ref
    True
    """
    undone = _undone(op, parts)
    return Made(op, parts) if undone is None else undone


def chain(ops: tuple[Op, ...], expr: Expr) -> Expr:
    """Apply ops one after the other."""
    for op in ops:
        expr = make(op, expr)
    return expr


def inverse(ops: tuple[Op, ...]) -> tuple[Op, ...]:
    """Return the ops that undo a chain of ops with inverses."""
    return tuple(op.inverse() for op in reversed(ops))


def _undone(op: Op, parts: tuple[Expr, ...]) -> Expr | None:
    if isinstance(op, Concat):
        return _taken_apart(op, parts)
    if isinstance(op, Stack):
        return _picked_apart(parts)
    part = parts[0]
    if len(parts) > 1 or not isinstance(part, Made):
        return None
    if isinstance(op, Take):
        same = isinstance(part.op, Concat) and (part.op.dim, part.op.sizes) == (op.dim, op.sizes)
        return part.parts[op.index] if same else None
    if isinstance(op, Pick):
        return part.parts[op.index] if isinstance(part.op, Stack) and op.count == len(part.parts) else None
    if op.name == "cast":  # the way back need not give the same bits
        return None
    return part.parts[0] if part.op == op.inverse() else None


def _taken_apart(op: Concat, parts: tuple[Expr, ...]) -> Expr | None:
    """Return the tensor of which the parts are all the parts, in order."""
    wholes = [p.parts[0] for i, p in enumerate(parts) if isinstance(p, Made) and p.op == Take(op.dim, i, op.sizes)]
    complete = len(wholes) == len(parts) == len(op.sizes)
    return wholes[0] if complete and all(w == wholes[0] for w in wholes) else None


def _picked_apart(parts: tuple[Expr, ...]) -> Expr | None:
    """Return the stack of which the parts are all the slices, in order."""
    wholes = [p.parts[0] for i, p in enumerate(parts) if isinstance(p, Made) and p.op == Pick(i, len(parts))]
    return wholes[0] if len(wholes) == len(parts) and all(w == wholes[0] for w in wholes) else None


def leaves(expr: Expr) -> Iterator[TensorRef]:
    """Yield the stored tensors of an expression, in order, each as often as it stands there."""
    if isinstance(expr, Made):
        for part in expr.parts:
            yield from leaves(part)
    else:
        yield expr


def ops_of(expr: Expr) -> tuple[Op, ...]:
    """Return the ops in the order in which they are done, equal ones on sibling parts once.

    >>> ops_of(TensorRef("wq", "bf16", (8, 4)))
    ()
    """
    return tuple(dict.fromkeys(_ops(expr)))


def _ops(expr: Expr) -> Iterator[Op]:
    if isinstance(expr, Made):
        for part in expr.parts:
            yield from _ops(part)
        yield expr.op


def needed_dims(expr: Expr) -> tuple[str, ...]:
    """Return the dims that the ops need, each once, in order."""
    return tuple(dict.fromkeys(name for op in ops_of(expr) for name in op.needs))


def shape_of(expr: Expr, dims: Mapping[str, int]) -> Shape:
    """Return the shape of the result.

    Raises:
        CheckpointError: Something does not fit.
        KeyError: A dim is not known.
    """
    if isinstance(expr, TensorRef):
        return expr.shape
    return expr.op.shape([shape_of(part, dims) for part in expr.parts], dims)


def stream_of(expr: Expr, dims: Mapping[str, int], leaf: Any) -> Stream:
    """Return the result as a stream.

    Args:
        expr: What to read.
        dims: Sizes.
        leaf: Makes a stream of a stored tensor.
    """
    if isinstance(expr, TensorRef):
        return leaf(expr)  # type: ignore[no-any-return]
    return expr.op.apply([stream_of(part, dims, leaf) for part in expr.parts], dims)


def check_heads(expr: Expr, dims: Mapping[str, int]) -> Shape:
    """Return the shape of the result, and raise if rows to be reordered are not whole heads.

    Raises:
        CheckpointError: `heads-unknown`, naming the tensor.
        KeyError: A dim is not known.
    """
    if isinstance(expr, TensorRef):
        return expr.shape
    shapes = [check_heads(part, dims) for part in expr.parts]
    if isinstance(expr.op, RopePermute):
        expr.op.check(shapes[0], dims, safe_text(next(leaves(expr)).key))
    return expr.op.shape(shapes, dims)
