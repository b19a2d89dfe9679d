"""One output tensor of a plan: what it will be, and the stored tensors and ops that make it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import repeat

from ckpt_gui.core.bulk import build
from ckpt_gui.core.exprs import Expr, Made, leaves, ops_of
from ckpt_gui.core.key_groups import KeyGroups, group_keys
from ckpt_gui.core.keys import template
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


class Entries(tuple[Entry, ...]):
    """Entries that know their keys' groups: every pass asks for them, and most passes leave them as they are."""

    @cached_property
    def groups(self) -> KeyGroups:
        """The keys, group by group; found on the first call."""
        return group_keys([entry.output.key for entry in self])

    def under(self, groups: KeyGroups) -> Entries:
        """Take groups that are known already, and return self."""
        self.__dict__["groups"] = groups
        return self

    @cached_property
    def changing(self) -> tuple[Entry, ...]:
        """Those that are more than a stored tensor as it is."""
        return tuple(entry for entry in self if isinstance(entry.expr, Made))

    def find(self, key: str) -> Entry | None:
        """Return the first entry of a key; None if there is none."""
        group = self.groups.get(template(key))
        return next((self[at] for at in group.places if self[at].key == key), None) if group else None


def as_entries(entries: tuple[Entry, ...]) -> Entries:
    """Return entries that know their keys' groups; themselves if they do already."""
    return entries if isinstance(entries, Entries) else Entries(entries)


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
    return iter(entries.changing if isinstance(entries, Entries) else Entries(entries).changing)


def walk(entries: Iterable[Entry], refs: Sequence[TensorRef]) -> Iterator[tuple[int, int]]:
    """Yield the numbers of entries, and the place among tensors of each that they are made of.

    It is quick where the entries stand in the order of the tensors, as they do in most models.

    Raises:
        KeyError: A tensor is none of the others.
    """
    at, count = 0, len(refs)
    places: dict[int, int] = {}
    for number, entry in enumerate(entries):
        if at < count and entry.expr is refs[at]:
            yield number, at
            at += 1
            continue
        places = places or places_of(refs)
        for ref in entry.inputs:
            at = places[id(ref)]
            yield number, at
            at += 1


def places_of(refs: Iterable[TensorRef]) -> dict[int, int]:
    """Return where tensors stand, by their identity."""
    return {id(ref): place for place, ref in enumerate(refs)}
