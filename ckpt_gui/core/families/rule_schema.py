"""The notation of one rule: which stored tensor is which hub tensor, and through what it goes on the way.

`schema` puts rules into layouts and layouts into families; `rules` goes the ways that a rule names.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from ckpt_gui.core.ops import Op
from ckpt_gui.core.symbols import Symbol
from ckpt_gui.dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Split:
    """How one stored tensor is several hub tensors.

    Attributes:
        sizes: What each part measures, in symbols (`heads*head_dim`), or `EQUAL` for each.
        dim: Along which dimension they lie.
    """

    sizes: tuple[Symbol, ...]
    dim: int = 0


@dataclass(frozen=True)
class Numbers:
    """How layers of one kind are counted.

    Attributes:
        pairs: The stored number of each and the hub's; empty where they are the same.
    """

    pairs: tuple[tuple[int, int], ...] = ()

    @cached_property
    def to_hub(self) -> Mapping[int, int]:
        """The hub's numbers by the stored ones."""
        return dict(self.pairs)

    @cached_property
    def to_stored(self) -> Mapping[int, int]:
        """The stored numbers by the hub's."""
        return {hub: stored for stored, hub in self.pairs}


@dataclass(frozen=True, slots=True)
class Rule:
    """One stored key ⇄ one hub key, or several that the stored tensor holds, or several that make up one hub tensor.

    On the way to the hub the stored tensor goes through `ops`, is picked apart along `stack`, then along `split`, and
    each part goes through its own chain in `each`. On the way back the inverses run in the opposite order.
    Where several stored tensors make up one hub tensor, `split` says how they lie in that one, and `each` comes before.

    Attributes:
        stored: Name in the layout, or the names in the order in which the parts lie in the hub tensor.
        hub: Name of the slot, or of the slots in the order in which the parts lie.
        ops: Value changes of the stored tensor as a whole.
        split: How it is taken apart; None for one slot.
        each: Value changes of each part.
        stack: Name of the hub's index that the stored tensor's first dimension counts (`expert`); empty without.
        kind: Kind of layers (`self`, `cross`) that it is for, where the layout counts the layers of each kind by
            themselves; empty where a layer has one number everywhere.
        numbers: For such a kind, those of a model; empty in a table (see `numbering`).
        also: True if it is another spelling, which is read and never written.
    """

    stored: str | tuple[str, ...]
    hub: str | tuple[str, ...]
    ops: tuple[Op, ...] = ()
    split: Split | None = None
    each: tuple[tuple[Op, ...], ...] = ()
    stack: str = ""
    kind: str = ""
    numbers: Numbers = Numbers()
    also: bool = False

    @property
    def hubs(self) -> tuple[str, ...]:
        """The slots, as a tuple."""
        return (self.hub,) if isinstance(self.hub, str) else self.hub

    @property
    def storeds(self) -> tuple[str, ...]:
        """The stored names, as a tuple."""
        return (self.stored,) if isinstance(self.stored, str) else self.stored

    @property
    def merges(self) -> bool:
        """True if several stored tensors make up one hub tensor."""
        return not isinstance(self.stored, str)

    @property
    def name(self) -> str:
        """The stored name, or the first of them."""
        return self.storeds[0]

    @property
    def plain(self) -> bool:
        """True if the stored tensor is the hub tensor with its layer's number, under the same name or another."""
        whole = isinstance(self.stored, str) and isinstance(self.hub, str) and self.split is None and not self.stack
        return whole and not self.ops and not any(self.each) and not self.kind

    @property
    def reshapes(self) -> bool:
        """True if the hub tensor has another shape than the stored one."""
        return any(op.name in ("transpose", "reshape", "patches", "tiles") for op in self.ops)

    def to_hub_numbers(self, indices: Mapping[str, int]) -> dict[str, int]:
        """Return the indices of a stored key as the hub counts them."""
        return _renumbered(indices, self.numbers.to_hub) if self.kind else dict(indices)

    def to_stored_numbers(self, indices: Mapping[str, int]) -> dict[str, int]:
        """Return the indices of a hub key as the layout counts them."""
        return _renumbered(indices, self.numbers.to_stored) if self.kind else dict(indices)


def _renumbered(indices: Mapping[str, int], numbers: Mapping[int, int]) -> dict[str, int]:
    return {name: numbers.get(n, n) if name == "layer" else n for name, n in indices.items()}
