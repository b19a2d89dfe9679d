"""The key-tree diff: what is in the file beside what is expected, a row each, and how the two compare."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from ckpt_gui.core.tensors import TensorRef
from ckpt_gui.dataclasses import dataclass

State = Literal[
    "same", "renamed", "transform", "tied", "dtype", "differs", "shape", "missing", "extra", "aside", "error",
    "listed",
]  # fmt: skip
# In the order of attention: a folded group shows the first that one of its rows has.
STATES: tuple[State, ...] = (
    "error", "missing", "shape", "extra", "differs", "transform", "renamed", "tied", "dtype", "same", "aside",
    "listed",
)  # fmt: skip

_MATCHED = frozenset({"same", "renamed", "transform", "tied", "dtype", "differs"})


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the diff.

    Attributes:
        state: How the two sides compare.
        key: Name in the file, without the section; empty if missing.
        expected: Name in the expected layout; empty if nothing is expected there.
        shape: Shape in the file; None if missing.
        expected_shape: Shape expected; None if not known or nothing is expected.
        dtype: Element type in the file, or expected for a missing tensor.
        nbytes: Bytes in the file; 0 if missing.
        ref: The stored tensor; None if missing.
        note: Why it is so, in a sentence; may be empty.
        blocks: Name of the blocks of a quantised tensor whose numbers can be read, such as `q4_k`.
        shard: The file that an index names for it, as long as no file was looked into; empty once that is done.
    """

    state: State
    key: str
    expected: str
    shape: tuple[int, ...] | None
    expected_shape: tuple[int | None, ...] | None
    dtype: str
    nbytes: int
    ref: TensorRef | None
    note: str = ""
    blocks: str = ""
    shard: str = ""

    @property
    def is_stored(self) -> bool:
        """Whether it stands for something in the file, as far as that is known."""
        return self.ref is not None or self.shard != ""

    @property
    def file(self) -> str:
        """The file that holds it, or is said to; empty if missing."""
        return self.ref.file if self.ref is not None else self.shard

    @property
    def type_name(self) -> str:
        """The element type, or what the elements are packed into: bytes are no type for people."""
        return self.blocks or self.dtype

    @property
    def path(self) -> str:
        """The name under which the row stands in the tree."""
        return self.key or self.expected


@dataclass(frozen=True, slots=True)
class Diff:
    """All rows, in file order with missing ones last, and how many there are of each state."""

    rows: Sequence[Row]
    counts: Mapping[str, int]

    def summary(self) -> str:
        """Return one line for the status bar: what the export will match."""
        bad = {name: self.counts.get(name, 0) for name in ("missing", "extra", "shape")}
        good = sum(1 for r in self.rows if r.expected and r.state in _MATCHED)
        return f"{good:,} match · {bad['missing']:,} missing · {bad['extra']:,} extra" + (
            f" · {bad['shape']:,} wrong shape" if bad["shape"] else ""
        )
