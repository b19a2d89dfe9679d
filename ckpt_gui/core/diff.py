"""The key-tree diff: what is in the file beside what is expected in a layout, row by row.

Rows are read off an export, so the diff that is shown and the fix that is made agree by construction.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import repeat
from typing import Literal

from ckpt_gui.core.bulk import build
from ckpt_gui.core.entry import Entry
from ckpt_gui.core.export import Export
from ckpt_gui.core.exprs import Made
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.passes.expectation import expected_slots, stored_name
from ckpt_gui.core.plan import Dropped, Plan
from ckpt_gui.core.tensors import TensorRef
from ckpt_gui.dataclasses import dataclass, replace

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

    rows: tuple[Row, ...]
    counts: Mapping[str, int]

    def summary(self) -> str:
        """Return one line for the status bar: what the export will match."""
        bad = {name: self.counts.get(name, 0) for name in ("missing", "extra", "shape")}
        good = sum(1 for r in self.rows if r.expected and r.state in _MATCHED)
        return f"{good} match · {bad['missing']} missing · {bad['extra']} extra" + (
            f" · {bad['shape']} wrong shape" if bad["shape"] else ""
        )


def diff_expected(export: Export) -> Diff:
    """Compare a checkpoint with the layout of an export."""
    plan = export.plan
    shapes = {key: shape for _, keys, shape in expected_slots(plan) for key in keys}
    hub = {id(ref): e for e in plan.entries for ref in e.inputs}
    pair = _Pair(plan.tie.head, plan.tie.state, bool(plan.tie.flag))
    loose = {id(e.ref) for e in plan.unmapped}
    clashing = {key for f in export.findings if f.code == "key-collision" for key in f.keys}
    plain: list[tuple[TensorRef, Entry, tuple[int | None, ...] | None]] = []
    rows = []
    for ref, uses in _uses(export):
        wanted = _wanted(ref, hub.get(id(ref)), shapes)
        if ref.key in clashing:
            rows.append(_clash(ref))
        elif len(uses) > 1 or isinstance(uses[0].expr, Made) or ref is pair.head or id(ref) in loose:
            rows.append(_entry(ref, uses, wanted, pair, id(ref) in loose))
        else:
            plain.append((ref, uses[0], wanted))
    rows += _plain_rows(plain)
    rows += [_dropped(d) for d in (*export.dropped, *export.beside)]
    rows += _missing(plan, export, shapes)
    order = {id(r): n for n, r in enumerate(plan.source.refs)}
    rows.sort(key=lambda r: order[id(r.ref)] if r.ref is not None else len(order))
    if packed := plan.source.blocks:
        rows = [replace(r, blocks=packed[r.ref.key].kind.lower()) if r.ref and r.ref.key in packed else r for r in rows]
    return Diff(tuple(rows), Counter(r.state for r in rows))


def _uses(export: Export) -> Iterator[tuple[TensorRef, Sequence[Entry]]]:
    """Yield what each stored tensor is used for: once as a rule, several times if it is fused or tied."""
    counts = Counter(id(ref) for entry in export.entries for ref in entry.inputs)
    several: dict[int, tuple[TensorRef, list[Entry]]] = {}
    for entry in export.entries:
        for ref in entry.inputs:
            if counts[id(ref)] == 1:
                yield ref, (entry,)
            else:
                several.setdefault(id(ref), (ref, []))[1].append(entry)
    yield from several.values()


def _plain_rows(plain: Sequence[tuple[TensorRef, Entry, tuple[int | None, ...] | None]]) -> list[Row]:
    """Return the rows of stored tensors that are written as they are, once each: almost all of a large model's."""
    refs = [ref for ref, _, _ in plain]
    told = [_plain_state(*one) for one in plain]
    return build(
        Row, len(plain), state=[state for state, _ in told], key=[ref.key for ref in refs],
        expected=[entry.key for _, entry, _ in plain], shape=[ref.shape for ref in refs],
        expected_shape=[wanted for _, _, wanted in plain], dtype=[ref.dtype for ref in refs],
        nbytes=[ref.nbytes for ref in refs], ref=refs, note=[note for _, note in told], blocks=repeat(""),
        shard=repeat(""),
    )  # fmt: skip


def _plain_state(ref: TensorRef, entry: Entry, wanted: tuple[int | None, ...] | None) -> tuple[State, str]:
    if wanted and wanted != ref.shape and _misfits(ref.shape, wanted):
        return "shape", "the shape is not the expected one"
    if entry.key != ref.key:
        return "renamed", entry.why or "wrapper names go"
    return "same", ""


def _wanted(
    ref: TensorRef, entry: Entry | None, shapes: Mapping[str, tuple[int | None, ...]]
) -> tuple[int | None, ...] | None:
    """Return the shape expected of a stored tensor; None where it is a part of another, which has been checked."""
    if entry is None or (isinstance(entry.expr, Made) and entry.output.shape != ref.shape):
        return None
    return shapes.get(entry.key)


def _misfits(shape: tuple[int, ...], wanted: tuple[int | None, ...]) -> bool:
    return len(wanted) != len(shape) or any(w not in (None, s) for w, s in zip(wanted, shape, strict=False))


def _clash(ref: TensorRef) -> Row:
    note = "another tensor would have the same name; leave one of them out"
    return Row("error", ref.key, "", ref.shape, None, ref.dtype, ref.nbytes, ref, note)


@dataclass(frozen=True, slots=True)
class _Pair:
    """What the rows need to know of the tied pair: the head, how it compares, and whether a flag calls it tied."""

    head: TensorRef | None
    state: str
    flag: bool

    def row_state(self, ref: TensorRef) -> tuple[State, str] | None:
        """Return the state of the head's row; None where it is one like any other."""
        if ref is not self.head:
            return None
        if self.state in ("equal", "same-storage"):
            return "tied", "equals the embedding"
        if self.state == "different" and self.flag:
            return "differs", "differs from the embedding, though the config says that the two are tied; both are kept"
        return None


def _entry(
    ref: TensorRef, uses: Sequence[Entry], wanted: tuple[int | None, ...] | None, pair: _Pair, loose: bool
) -> Row:
    state, note = _state(ref, uses[0], wanted, pair, loose)
    if len(uses) > 1 and any(isinstance(e.expr, Made) for e in uses):
        state, note = "transform", f"holds {len(uses)} tensors: {', '.join(safe_text(e.key, 60) for e in uses[:4])}"
    return Row(state, ref.key, "" if loose else uses[0].key, ref.shape, wanted, ref.dtype, ref.nbytes, ref, note)


def _state(
    ref: TensorRef, entry: Entry, wanted: tuple[int | None, ...] | None, pair: _Pair, loose: bool
) -> tuple[State, str]:
    if loose:
        return "extra", "fits no part of the expected layout; an export carries it along"
    if wanted and _misfits(ref.shape, wanted):
        return "shape", "the shape is not the expected one"
    if any(op.name == "permute" for op in entry.ops):
        return "transform", "rows change places between the rotary conventions"
    changes = {op.name for op in entry.ops} - {"cast"}
    if changes:
        return "transform", "; ".join(dict.fromkeys(op.describe({}) for op in entry.ops if op.name in changes))
    if (told := pair.row_state(ref)) is not None:
        return told
    if entry.output.dtype != ref.dtype:
        return "dtype", f"cast to {entry.output.dtype}"
    return _plain_state(ref, entry, None)


def _dropped(dropped: Dropped) -> Row:
    beside: dict[str, State] = dict.fromkeys(("not-weights", "replica", "other-section"), "aside")
    states: dict[str, State] = {"redundant": "tied", **beside}
    ref = dropped.ref
    state = states.get(dropped.kind, "extra")
    key = ref.full_key if state == "aside" else ref.key
    return Row(state, key, "", ref.shape, None, ref.dtype, ref.nbytes, ref, dropped.reason)


def _missing(plan: Plan, export: Export, shapes: Mapping[str, tuple[int | None, ...]]) -> list[Row]:
    layout = export.layout or plan.layout
    written = {e.key for e in export.entries}
    rows = []
    for spec in plan.missing:
        name = stored_name(layout, spec.key) if layout else spec.key
        if name not in written:
            note = "is expected and not in the file"
            rows.append(Row("missing", "", name, None, shapes.get(spec.key), spec.dtype, 0, None, note))
    return rows
