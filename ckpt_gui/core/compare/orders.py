"""The same values in another order: what converters do wrong, and what neither names nor shapes show.

Rows of q and k in the other rotary order (in any family: a Qwen may have gone through a Llama's converter), a square
matrix that is transposed, gate and up in each other's place or between each other, q, k and v head by head instead of
one behind the other. Each is tried on a tensor whose values differ, and holds only if all its bytes then agree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from ckpt_gui.core.compare.result import Order as Kind
from ckpt_gui.core.dtypes import BY_NAME
from ckpt_gui.core.exprs import Expr, make
from ckpt_gui.core.ops import RopePermute, Stream, read_any
from ckpt_gui.core.part_ops import Concat, Take
from ckpt_gui.core.shape_ops import Regroup, Transpose
from ckpt_gui.core.symbols import EQUAL
from ckpt_gui.dataclasses import dataclass

_HEADS = {"q_proj": "heads", "k_proj": "kv_heads"}
_QKV = ("heads*head_dim", "kv_heads*head_dim", "kv_heads*head_dim")
_FUSED = "heads*head_dim+2*kv_heads*head_dim"
_HEADWISE = "3*hidden"  # q, k and v of each head together (GPT-NeoX)
_HALVES = (EQUAL, EQUAL)
_CORNER = 8  # rows and columns
_ROTARY = (("halves", "neighbouring pairs", "halves"), ("pairs", "halves", "neighbouring pairs"))


@dataclass(frozen=True, slots=True)
class Order:
    """One way in which a tensor's values may lie otherwise.

    Attributes:
        kind: What is in another order.
        note: How it lies in A and in B, in words.
        made: Makes of A's tensor what B's would be.
    """

    kind: Kind
    note: str
    made: Callable[[Expr], Expr]


def orders(key: str, shape: Sequence[int | None], symbols: Sequence[str], heads: str | None) -> Iterator[Order]:
    """Yield the orders in which a tensor may lie otherwise.

    Args:
        key: Its hub name.
        shape: Its shape.
        symbols: Its sizes in the family's words; empty for a tensor that fits no slot.
        heads: The dim that counts its heads, where a layout of the family has its rows in another rotary order.
    """
    heads = heads or _HEADS.get(key.split(".")[-2] if "." in key else "")
    for to, here, there in _ROTARY:
        note = f"the rows of a head lie as {here} in A and as {there} in B"
        if heads:
            yield Order("rotary", note, _turned(heads, to))
        elif symbols[:1] == (_FUSED,):
            yield Order("rotary", note, _turned_parts(to))
    if symbols[:1] == (_HEADWISE,):
        yield Order("qkv", "q, k and v lie one behind the other in A, head by head in B", _regrouped(3, "heads"))
        yield Order("qkv", "q, k and v lie head by head in A, one behind the other in B", _regrouped("heads", 3))
    for dim, symbol in enumerate(symbols):
        count, _, size = symbol.partition("*")
        if count != "2" or "+" in size or not size:
            continue
        yield Order("gate-up", "the two halves, gate and up, have changed places", _exchanged(dim))
        if dim == 0:
            yield Order("gate-up", "the rows of gate and up alternate in A, and are halves in B", _regrouped(size, 2))
            yield Order("gate-up", "the rows of gate and up are halves in A, and alternate in B", _regrouped(2, size))
    if len(shape) == 2 and shape[0] == shape[1]:
        yield Order("transposed", "rows are columns: it is transposed", lambda expr: make(Transpose(), expr))


def corners_agree(left: Stream, right: Stream) -> bool:
    """Return True if the first few rows and columns of two square matrices may be each other's transpose.

    Transposing reads a whole matrix before anything can be said; this reads a few numbers.
    """
    count = min(_CORNER, left.shape[0])
    one, two = (_corner(stream, count) for stream in (left, right))
    return left.dtype == right.dtype and np.array_equal(one.transpose(1, 0, 2), two)


def _corner(stream: Stream, count: int) -> NDArray[np.uint8]:
    """Return the bytes of the first elements of the first rows: row × column × byte."""
    width = BY_NAME[stream.dtype].itemsize
    found = np.zeros((count, count, width), np.uint8)
    for row in range(count):
        read_any(stream, row * stream.shape[1] * width, found[row].reshape(-1))
    return found


def _turned(heads: str, to: str) -> Callable[[Expr], Expr]:
    return lambda expr: make(RopePermute(heads, "halves" if to == "halves" else "pairs"), expr)


def _turned_parts(to: str) -> Callable[[Expr], Expr]:
    """Return what reorders the rows of q and of k in a tensor that has v behind them."""

    def made(expr: Expr) -> Expr:
        q, k, v = (make(Take(0, i, _QKV), expr) for i in range(3))
        return make(Concat(0, _QKV), _turned("heads", to)(q), _turned("kv_heads", to)(k), v)

    return made


def _regrouped(groups: str | int, parts: str | int) -> Callable[[Expr], Expr]:
    return lambda expr: make(Regroup(groups, parts), expr)


def _exchanged(dim: int) -> Callable[[Expr], Expr]:
    return lambda expr: make(Concat(dim, _HALVES), *(make(Take(dim, i, _HALVES), expr) for i in (1, 0)))
