"""The diff of a checkpoint with the layout of an export, row by row.

Rows are read off the export, so the diff that is shown and the fix that is made agree by construction.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from ckpt_gui.core.diff import Diff, Row, State
from ckpt_gui.core.entry import Entry, places_of, walk
from ckpt_gui.core.export import Export
from ckpt_gui.core.exprs import Made
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.passes.expectation import Wanted, shape_of_key, shapes_wanted, stored_name
from ckpt_gui.core.plan import Dropped, Plan
from ckpt_gui.core.rows import Rows, Told
from ckpt_gui.core.source import Source
from ckpt_gui.core.tensors import TensorRef
from ckpt_gui.dataclasses import dataclass, replace

_CLASH: tuple[State, str] = ("error", "another tensor would have the same name; leave one of them out")


def diff_expected(export: Export) -> Diff:
    """Compare a checkpoint with the layout of an export."""
    refs = export.plan.source.refs
    stored = _Stored(export.plan.source)
    _tell_entries(stored, export)
    places = places_of(stored.refs) if export.dropped or export.beside else {}
    for dropped in (*export.dropped, *export.beside):
        stored.tell_dropped(places[id(dropped.ref)], dropped)
    there = [at for at, one in enumerate(stored.told) if one is not None]
    refs, expected = stored.refs, stored.expected
    if len(there) < len(refs):
        refs, expected = tuple(refs[at] for at in there), [expected[at] for at in there]
    told, missing = [one for one in stored.told if one is not None], _missing(export.plan, export)
    return Diff(Rows(told, refs, expected, missing), Counter(one.state for one in (*told, *missing)))


class _Stored:
    """What is told of each stored tensor, in file order.

    Attributes:
        refs: The tensors.
        told: What is told of each; None as long as nothing is.
        expected: The name in the layout of each.
    """

    def __init__(self, source: Source) -> None:
        self.refs = source.refs
        self.told: list[Told | Row | None] = [None] * len(source.refs)
        self.expected = [""] * len(source.refs)
        self._blocks = source.blocks
        self._known: dict[tuple[object, ...], Told] = {}

    def tell(self, at: int, state: State, note: str, wanted: Wanted | None, expected: str) -> None:
        """Take note of how a tensor compares."""
        blocks = self._blocks[self.refs[at].key].kind.lower() if self.refs[at].key in self._blocks else ""
        key = (state, note, wanted, blocks)
        told = self._known.get(key)
        if told is None:
            told = self._known[key] = Told(state, note, wanted, blocks)
        self.told[at] = told
        self.expected[at] = expected

    def tell_dropped(self, at: int, dropped: Dropped) -> None:
        """Take note of a tensor that is left out."""
        state, ref = _LEFT_OUT.get(dropped.kind, "extra"), dropped.ref
        self.tell(at, state, dropped.reason, None, "")
        if state == "aside" and ref.section:  # its row bears the whole name
            [row] = Rows([Told(state, dropped.reason)], [ref])
            self.told[at] = replace(row, key=ref.full_key)


_LEFT_OUT: Mapping[str, State] = {
    "redundant": "tied", "not-weights": "aside", "replica": "aside", "other-section": "aside",
}  # fmt: skip


def _tell_entries(stored: _Stored, export: Export) -> None:
    """Take note of all tensors that are written."""
    plan = export.plan
    pair = _Pair(plan.tie.head, plan.tie.state, bool(plan.tie.flag))
    loose = {id(e.ref) for e in plan.unmapped}
    clashing = {key for f in export.findings if f.code == "key-collision" for key in f.keys}
    first, more = _uses(stored, export)
    for at, (ref, entry, wanted) in enumerate(zip(stored.refs, first, _wanted(stored, plan), strict=True)):
        if entry is None:
            continue
        if ref.key in clashing:
            stored.tell(at, *_CLASH, None, "")
        elif entry.expr is ref and ref is not pair.head and at not in more and id(ref) not in loose:
            stored.tell(at, *_plain_state(ref, entry, wanted), wanted, entry.output.key)
        else:
            uses = more.get(at, (entry,))
            state, note = _state(ref, entry, wanted, pair, id(ref) in loose)
            if len(uses) > 1 and any(isinstance(e.expr, Made) for e in uses):
                names = ", ".join(safe_text(e.key, 60) for e in uses[:4])
                state, note = "transform", f"holds {len(uses)} tensors: {names}"
            stored.tell(at, state, note, wanted, "" if id(ref) in loose else entry.key)


def _uses(stored: _Stored, export: Export) -> tuple[list[Entry | None], dict[int, list[Entry]]]:
    """Return the first entry that each stored tensor is used for, and all of those that have several."""
    first: list[Entry | None] = [None] * len(stored.refs)
    more: dict[int, list[Entry]] = {}
    for number, at in walk(export.entries, stored.refs):
        before, entry = first[at], export.entries[number]
        if before is None:
            first[at] = entry
        else:
            more.setdefault(at, [before]).append(entry)
    return first, more


def _wanted(stored: _Stored, plan: Plan) -> list[Wanted | None]:
    """Return the shape expected of each stored tensor; None for a part of another, which has been checked."""
    shapes = shapes_wanted(plan)
    found: list[Wanted | None] = [None] * len(stored.refs)
    for number, at in walk(plan.entries, stored.refs):
        entry = plan.entries[number]
        is_part = entry.expr is not stored.refs[at] and entry.output.shape != stored.refs[at].shape
        found[at] = None if is_part else shapes[number]
    return found


def _plain_state(ref: TensorRef, entry: Entry, wanted: Wanted | None) -> tuple[State, str]:
    if wanted and wanted != ref.shape and _misfits(ref.shape, wanted):
        return "shape", "the shape is not the expected one"
    if entry.output.key != ref.key:
        return "renamed", entry.why or "wrapper names go"
    return "same", ""


def _misfits(shape: tuple[int, ...], wanted: tuple[int | None, ...]) -> bool:
    return len(wanted) != len(shape) or any(w not in (None, s) for w, s in zip(wanted, shape, strict=False))


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


def _state(ref: TensorRef, entry: Entry, wanted: Wanted | None, pair: _Pair, loose: bool) -> tuple[State, str]:
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


def _missing(plan: Plan, export: Export) -> list[Row]:
    if not plan.missing:
        return []
    layout = export.layout or plan.layout
    written = {e.key for e in export.entries}
    wanted = shape_of_key(plan)
    rows = []
    for spec in plan.missing:
        name = stored_name(layout, spec.key) if layout else spec.key
        if name not in written:
            note = "is expected and not in the file"
            rows.append(Row("missing", "", name, None, wanted(spec.key), spec.dtype, 0, None, note))
    return rows
