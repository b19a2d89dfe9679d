"""One output tensor of a plan: what it will be, and the stored tensors and ops that make it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ckpt_gui.core.exprs import Expr, leaves, ops_of
from ckpt_gui.core.ops import Op
from ckpt_gui.core.tensors import TensorRef, TensorSpec

if TYPE_CHECKING:
    pass


@dataclass(frozen=True, slots=True)
class Entry:
    """One output tensor: what it will be, and what makes it.

    Attributes:
        output: Name, type and shape of the result. The name is the stored one until the rename pass, then the hub name.
        expr: The stored tensors that it is made of, through their ops.
        why: What gave it its name, in words.
    """

    output: TensorSpec
    expr: Expr
    why: str = ""

    @property
    def key(self) -> str:
        """The output's name."""
        return self.output.key

    @property
    def inputs(self) -> tuple[TensorRef, ...]:
        """The stored tensors that it is made of."""
        return (self.expr,) if isinstance(self.expr, TensorRef) else tuple(leaves(self.expr))

    @property
    def ops(self) -> tuple[Op, ...]:
        """The value changes, in the order in which they are done."""
        return () if isinstance(self.expr, TensorRef) else ops_of(self.expr)

    @property
    def ref(self) -> TensorRef:
        """The first input."""
        return self.expr if isinstance(self.expr, TensorRef) else next(leaves(self.expr))

    @property
    def identity(self) -> object:
        """Equal for two entries exactly when they are the same bytes made in the same way."""
        return _identity(self.expr)

    def renamed(self, key: str, *, why: str | None = None) -> Entry:
        """Return a copy under another name."""
        spec = TensorSpec(key, self.output.dtype, self.output.shape)
        return Entry(spec, self.expr, self.why if why is None else why)


def _identity(expr: Expr) -> object:
    return expr.place if isinstance(expr, TensorRef) else (expr.op, *map(_identity, expr.parts))


def carried(ref: TensorRef, key: str | None = None, why: str = "") -> Entry:
    """Return an entry that is a stored tensor as it is, under its own or another name."""
    return Entry(TensorSpec(ref.key if key is None else key, ref.dtype, ref.shape), ref, why)
