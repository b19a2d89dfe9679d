"""One output tensor of a plan: what it will be, and the stored tensors and ops that make it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat

from ckpt_gui.core.bulk import build
from ckpt_gui.core.exprs import Expr, Made, leaves, ops_of
from ckpt_gui.core.ops import Op
from ckpt_gui.core.tensors import TensorRef, TensorSpec
from ckpt_gui.dataclasses import dataclass


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


def carried_all(refs: Sequence[TensorRef], keys: Sequence[str]) -> list[Entry]:
    """Return `carried` of many stored tensors."""
    count = len(refs)
    dtypes, shapes = [ref.dtype for ref in refs], [ref.shape for ref in refs]
    specs = build(TensorSpec, count, key=keys, dtype=dtypes, shape=shapes)
    return build(Entry, count, output=specs, expr=refs, why=repeat(""))


def renamed_all(entries: Sequence[Entry], keys: Sequence[str], why: str | None = None) -> list[Entry]:
    """Return copies of many entries, each under another name, and all for another reason if one is given."""
    dtypes, shapes = [e.output.dtype for e in entries], [e.output.shape for e in entries]
    specs = build(TensorSpec, len(entries), key=keys, dtype=dtypes, shape=shapes)
    return _with(entries, specs, why)


def explained_all(entries: Sequence[Entry], why: str) -> list[Entry]:
    """Return copies of many entries for another reason."""
    return _with(entries, [e.output for e in entries], why)


def _with(entries: Sequence[Entry], outputs: Sequence[TensorSpec], why: str | None) -> list[Entry]:
    whys = repeat(why) if why is not None else [e.why for e in entries]
    return build(Entry, len(entries), output=outputs, expr=[e.expr for e in entries], why=whys)


def changing(entries: Iterable[Entry]) -> Iterator[Entry]:
    """Yield the entries that are more than a stored tensor as it is: in most models few, or none."""
    return (entry for entry in entries if isinstance(entry.expr, Made))
