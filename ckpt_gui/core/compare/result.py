"""What a comparison of two checkpoints says: values only, for the command line, the reports and the window.

A is the older side or the base, B the newer one: Δ is B − A, and changes are measured against the length of A's
tensors. States are symmetrical: those of (B, A) are those of (A, B) with `only-a` and `only-b` exchanged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Literal

from ckpt_gui import dataclasses
from ckpt_gui.core.entry import Entry
from ckpt_gui.core.families.schema import Family
from ckpt_gui.core.model_config import ModelConfig
from ckpt_gui.core.plan import Plan
from ckpt_gui.dataclasses import dataclass, field

State = Literal[
    "only-a", "only-b", "shape", "vocab", "untied", "differs", "swapped", "permuted", "renamed", "cast", "dtype",
    "unread", "tied", "fits", "equal",
]  # fmt: skip
Kind = Literal["checkpoint", "known", "config"]
How = Literal["name", "shape", "bytes"]
Order = Literal["", "rotary", "transposed", "gate-up", "qkv"]

# In the order of attention: a group shows the first that one of its rows has.
STATES: tuple[State, ...] = (
    "only-a", "only-b", "shape", "vocab", "untied", "differs", "swapped", "permuted", "renamed", "cast", "dtype",
    "unread", "tied", "fits", "equal",
)  # fmt: skip
SAME: frozenset[State] = frozenset({"equal", "fits", "tied"})  # no difference was found
WORDS: dict[State, str] = {
    "only-a": "only in A",
    "only-b": "only in B",
    "shape": "of another shape",
    "vocab": "with another number of vocabulary rows",
    "untied": "tied on one side, trained on its own on the other",
    "differs": "different in values",
    "swapped": "equal to another tensor of the other side",
    "permuted": "equal after putting rows or columns in order",
    "renamed": "under another name",
    "cast": "equal after a cast",
    "dtype": "of another type",
    "unread": "not compared in values",
    "tied": "left out on one side, as a tied head",
    "fits": "of the same name, shape and type",
    "equal": "equal byte for byte",
}
# Why values were not compared, where no error says it, and what helps.
STOPPED = "the comparison was stopped"
BUDGET = "more than the budget allows"
HEADS = "the head counts of one of the two are not known"
HELP: Mapping[str, str] = {
    STOPPED: "Run it again to its end.",
    BUDGET: "Raise --budget.",
    HEADS: "Give head counts with --config or --heads.",
}


@dataclass(frozen=True, slots=True)
class Stored:
    """A tensor as one side has it.

    Attributes:
        key: Its stored name, of the first of several that make it up.
        shape: Sizes under the hub name; None for a size that a config does not tell.
        dtype: Element type; empty where a config stands for the checkpoint.
        entry: What makes it; None where a config stands for the checkpoint.
        symbols: The sizes in the family's words (`vocab`, `hidden`); empty for a tensor that fits no slot.
    """

    key: str
    shape: tuple[int | None, ...]
    dtype: str = ""
    entry: Entry | None = field(default=None, compare=False, repr=False)
    symbols: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two: a checkpoint, a published model's sizes, or a config.

    Attributes:
        name: The path, or what the published model is called.
        kind: What it is.
        tensors: Every tensor under its hub name, or its own where no layout is known.
        family: The architecture; None where it is not known.
        layout: How it is stored; empty for a config and for names that fit no layout.
        head: Hub name of the output head; None where there is none.
        embedding: Hub name of the embedding.
        tied: Whether the head is the embedding; None where it can not be known.
        plan: The checkpoint understood; None for a config.
        config: What its config says; None if nothing does.
    """

    name: str
    kind: Kind
    tensors: Mapping[str, Stored]
    family: Family | None = None
    layout: str = ""
    head: str | None = None
    embedding: str | None = None
    tied: bool | None = None
    plan: Plan | None = field(default=None, repr=False)
    config: ModelConfig | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Delta:
    """How far two tensors are apart, after the wider type was cast to the narrower one.

    Sums run in fp64 over the elements that are finite on both sides.

    Attributes:
        count: Elements compared.
        changed: Elements whose bits differ.
        skipped: Elements that are not finite on a side.
        max_diff: Largest |Δ|; None for types that have no figures.
        where: Row and column of the first such element; all dims but the first count as columns.
        norm: Euclidean length of Δ.
        norm_a: Euclidean length of A's tensor.
        norm_b: Euclidean length of B's tensor.
    """

    count: int
    changed: int
    skipped: int = 0
    max_diff: float | None = None
    where: tuple[int, int] | None = None
    norm: float | None = None
    norm_a: float | None = None
    norm_b: float | None = None

    @property
    def relative(self) -> float | None:
        """‖Δ‖/‖W‖, W being A's tensor; None where that is zero or nothing has figures."""
        return self.norm / self.norm_a if self.norm is not None and self.norm_a else None

    @property
    def share(self) -> float:
        """Share of the elements that have changed."""
        return self.changed / self.count if self.count else 0.0


@dataclass(frozen=True, slots=True)
class Row:
    """One tensor on both sides.

    Attributes:
        key: Hub name (A's stored name where no layout is known).
        state: How the two compare.
        a: The tensor of A; None if it has none.
        b: The tensor of B; None if it has none.
        how: What told that the two belong together: their names, a shape that no other has, or their bytes.
        delta: How far apart they are; None where that was not measured.
        note: More, in words.
        order: What is in another order, of a `permuted` one.
    """

    key: str
    state: State
    a: Stored | None = None
    b: Stored | None = None
    how: How = "name"
    delta: Delta | None = None
    note: str = ""
    order: Order = ""

    @property
    def is_same(self) -> bool:
        """True if no difference was found."""
        return self.state in SAME

    def replace(self, **changes: Any) -> Row:
        """Return a copy with some fields changed."""
        return dataclasses.replace(self, **changes)


@dataclass(frozen=True, slots=True)
class ConfigDifference:
    """A fact of the two configs that is not the same.

    Attributes:
        name: What it is, by our name, such as `rope_theta`.
        a: What A's says, in words.
        b: What B's says.
    """

    name: str
    a: str
    b: str


@dataclass(frozen=True, slots=True)
class RankEstimate:
    """How many directions a change ΔW = B − A has: the rank of a merged adapter.

    Attributes:
        key: Hub name.
        shape: Sizes of ΔW.
        rank: Singular values above the tolerance.
        at_least: True if all that were computed are above it, so that the rank may be larger.
        tolerance: What a singular value must exceed to count: the noise of rounding to the stored type.
        singular: The largest singular values, falling.
        energy: Share of ‖ΔW‖² in the `rank` largest.
        method: How it was found, in words.
    """

    key: str
    shape: tuple[int, int]
    rank: int
    at_least: bool
    tolerance: float
    singular: tuple[float, ...]
    energy: float
    method: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two checkpoints beside each other.

    Attributes:
        a: The first: older, or the base.
        b: The second.
        rows: Every tensor of either side, in natural order of hub names.
        values: True if values were compared, and not only names, shapes and types.
        stopped: True if the comparison of values was stopped before its end.
        config: Where the configs differ: for information, a difference in tensors or not.
        ranks: Estimates that were asked for.
    """

    a: Side
    b: Side
    rows: tuple[Row, ...]
    values: bool = False
    stopped: bool = False
    config: tuple[ConfigDifference, ...] = ()
    ranks: tuple[RankEstimate, ...] = ()

    @property
    def counts(self) -> Mapping[State, int]:
        """How many rows have each state."""
        return Counter(row.state for row in self.rows)

    @property
    def same(self) -> bool | None:
        """True if no difference was found, None if there may be one in what was not read."""
        states = set(self.counts)
        if states - SAME - {"unread"}:
            return False
        return None if "unread" in states or self.stopped else True

    def replace(self, **changes: Any) -> Comparison:
        """Return a copy with some fields changed."""
        return dataclasses.replace(self, **changes)
