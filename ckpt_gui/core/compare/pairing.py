"""Both tensors of a row as streams: in one order of rows, and in one type where they are compared."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ckpt_gui.core.compare.blocks import in_one_type, stream
from ckpt_gui.core.compare.result import Row, Side, Stored
from ckpt_gui.core.exprs import Expr, Made
from ckpt_gui.core.families.schema import Family
from ckpt_gui.core.keys import anonymous
from ckpt_gui.core.ops import RopePermute, Stream


class Sides:
    """Streams of the tensors of both sides; head counts of one serve the other."""

    def __init__(self, a: Side, b: Side) -> None:
        """Read from the plans of two checkpoints."""
        assert a.plan is not None
        assert b.plan is not None
        self.sources = (a.plan.source, b.plan.source)
        self.dims: tuple[Mapping[str, int], Mapping[str, int]] = (
            {**b.plan.dims, **a.plan.dims},
            {**a.plan.dims, **b.plan.dims},
        )

    def one(self, which: int, stored: Stored | None) -> Stream:
        """Return a tensor of A (0) or B (1)."""
        assert stored is not None
        assert stored.entry is not None
        return stream(self.sources[which], stored.entry.expr, self.dims[which])

    def made(self, which: int, stored: Stored, change: Callable[[Expr], Expr]) -> Stream:
        """Return a tensor of A (0) or B (1) with a change of its values."""
        assert stored.entry is not None
        return stream(self.sources[which], change(stored.entry.expr), self.dims[which])

    def both(self, row: Row) -> tuple[Stream, Stream]:
        """Return both tensors of a row, in one type and in one order of rows."""
        return in_one_type(*self.pair(row))

    def pair(self, row: Row) -> tuple[Stream, Stream]:
        """Return both tensors of a row in one order of rows, which is that of the files if both have the same."""
        assert row.a is not None
        assert row.b is not None
        assert row.a.entry is not None
        assert row.b.entry is not None
        one, two = row.a.entry.expr, row.b.entry.expr
        while isinstance(one, Made) and isinstance(two, Made) and one.op == two.op and one.op.name == "permute":
            one, two = one.parts[0], two.parts[0]  # both files have the other order: no head counts are needed
        return stream(self.sources[0], one, self.dims[0]), stream(self.sources[1], two, self.dims[1])


def rotary(family: Family | None) -> dict[str, str]:
    """Return the hub tensors whose rows some layout has in another rotary order, and the dim that counts heads."""
    found = {}
    for rule in (rule for layout in (family.layouts if family else ()) for rule in layout.rules):
        for i, hub in enumerate(rule.hubs):
            for op in (*rule.ops, *(rule.each[i] if rule.each else ())):
                if isinstance(op, RopePermute):
                    found[anonymous(hub)] = op.heads
    return found
