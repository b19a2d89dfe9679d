"""Compare a checkpoint with a reference: a published model's sizes, a config.json, or another checkpoint.

Everything is compared under hub names, so a Meta file can be held against a Hugging Face folder. Sizes and a config
tell names and shapes only. Another checkpoint tells types and values, too, and with them what names can not tell: rows
of q and k in the other rotary order, norms or gate and up that have changed places. Values are streamed, and each
tensor is read up to its first difference.
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from ckpt_gui.core.dtypes import BY_NAME, CASTABLE, num_bytes
from ckpt_gui.core.errors import Cancelled, CheckpointError, Finding
from ckpt_gui.core.exprs import stream_of
from ckpt_gui.core.families import generic
from ckpt_gui.core.families.known import Known, find_known
from ckpt_gui.core.families.registry import BY_NAME as FAMILIES
from ckpt_gui.core.families.registry import for_model_type
from ckpt_gui.core.families.schema import Family
from ckpt_gui.core.formats import open_checkpoint
from ckpt_gui.core.formats.sidecars import read_sidecars
from ckpt_gui.core.keys import anonymous, indices, natural, safe_text, template
from ckpt_gui.core.model_config import ModelConfig, read_config, read_params
from ckpt_gui.core.normalise import understand
from ckpt_gui.core.ops import CastStream, RefStream, RopePermute, Stream, read_any
from ckpt_gui.core.passes.check import expected
from ckpt_gui.core.plan import Entry, Plan, Tie
from ckpt_gui.core.tensors import Source
from ckpt_gui.core.text import plural

State = Literal[
    "equal", "cast", "permuted", "swapped", "differs", "shape", "vocab", "missing", "extra", "unread", "fits"
]
Kind = Literal["known", "config", "checkpoint"]
Progress = Callable[[str, int, int], None]
BLOCK = 1 << 20

WORDS: dict[State, str] = {
    "equal": "equal byte for byte",
    "cast": "equal after a cast",
    "permuted": "equal after reordering the rotary rows",
    "swapped": "equal to another tensor of the reference",
    "differs": "different in values",
    "shape": "of another shape",
    "vocab": "with another number of vocabulary rows",
    "missing": "missing here",
    "extra": "not in the reference",
    "unread": "not compared in values",
    "fits": "of the expected name and shape",
}


@dataclass(frozen=True, slots=True)
class Compared:
    """One tensor, here and in the reference.

    Attributes:
        key: Hub name.
        state: How the two compare.
        ours: Stored name here; empty if missing.
        theirs: Stored name in the reference; empty if it has none.
        shape: Shape here.
        wanted: Shape in the reference; None in it where a size is not known.
        dtype: Element type here.
        wanted_dtype: Element type in the reference; empty if it has none.
        note: More, in words.
    """

    key: str
    state: State
    ours: str = ""
    theirs: str = ""
    shape: tuple[int, ...] | None = None
    wanted: tuple[int | None, ...] | None = None
    dtype: str = ""
    wanted_dtype: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Against:
    """A checkpoint beside a reference.

    Attributes:
        name: What the reference is called.
        kind: What it is.
        rows: Every tensor of either side.
        findings: What the user should know.
    """

    name: str
    kind: Kind
    rows: tuple[Compared, ...]
    findings: tuple[Finding, ...] = ()

    @property
    def counts(self) -> Mapping[str, int]:
        """How many rows have each state."""
        return Counter(row.state for row in self.rows)

    def sentences(self) -> tuple[str, ...]:
        """Say how the two compare."""
        counts = self.counts
        told = [f"{counts[state]:,} {words}" for state, words in WORDS.items() if counts.get(state)]
        first = f"Of {plural(len(self.rows), 'tensor')} {', '.join(told)}." if told else "There is nothing to compare."
        types = Counter((r.dtype, r.wanted_dtype) for r in self.rows if r.dtype and r.wanted_dtype)
        other = [f"{n:,} are {a} where it has {b}" for (a, b), n in types.items() if a != b]
        if self.kind == "checkpoint":
            return (first, *([f"Of the types, {', '.join(other)}."] if other else ()))
        what = "a published size" if self.kind == "known" else "a config"
        return (first, f"Only names and shapes were compared: {what} does not tell values.")


def against(
    plan: Plan,
    reference: str,
    *,
    budget: int | None = None,
    progress: Progress | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> Against:
    """Compare a checkpoint with a reference.

    Args:
        plan: The checkpoint.
        reference: A path (a checkpoint, a config.json or a params.json), or the name of a published model.
        budget: Bytes of values that may be read at most.
        progress: Called with a label, bytes done and bytes in all.
        cancelled: Asked between blocks.

    Raises:
        CheckpointError: There is no such reference, or it can not be read.
        Cancelled: `cancelled` said so.
    """
    if not os.path.exists(reference):
        return against_known(plan, find_known(reference))
    if reference.endswith(".json") and not reference.endswith(".index.json"):
        sidecars = read_sidecars(os.path.dirname(reference) or ".", reference)[0]
        config = read_config(sidecars.config) if sidecars.config else read_params(sidecars.params or {})
        return against_config(plan, config, reference)
    with open_checkpoint(reference) as source:
        other = understand(source, budget=budget, cancelled=cancelled)
        return against_plan(plan, other, reference, budget=budget, progress=progress, cancelled=cancelled)


# --------------------------------------------------------------------------------------------------- sizes and configs


def against_known(plan: Plan, model: Known) -> Against:
    """Compare names and shapes with those of a published model."""
    family = FAMILIES.get(model.family)
    if family is None:
        raise CheckpointError(
            "unknown-layout", f"{model.name} is of the family {model.family}, which has no table here."
        )
    rows = _rows(plan, family, Tie(tied=model.tied), model.dims, None)
    return Against(model.name, "known", rows, (*_findings(rows, model.name), *_rope(plan, model)))


def against_config(plan: Plan, config: ModelConfig, name: str) -> Against:
    """Compare names and shapes with those that a config tells."""
    types = [t for t in (config.whole_type, config.model_type) if t]
    family = for_model_type(types[0]) if types else plan.family or FAMILIES["llama"]
    if family is None and generic.available():
        saved = generic.saved_for(config.raw)
        family = None if saved.problem else generic.family_of(saved)
    family = family or for_model_type(config.model_type)  # of a larger model, the text model alone
    if family is None:
        text = f"{safe_text(name)} says model_type {safe_text(str(config.model_type), 40)}, a family without a table."
        raise CheckpointError("unknown-layout", text, fix="Name a checkpoint of that model instead.")
    tie = Tie(tied=config.tie_flag(family.tie_default)[0])
    rows = _rows(plan, family, tie, config.dims, config)
    return Against(name, "config", rows, _findings(rows, name))


def _rows(
    plan: Plan, family: Family, tie: Tie, dims: Mapping[str, int], config: ModelConfig | None
) -> tuple[Compared, ...]:
    wanted = Plan(Source("", "memory", ()), family=family, tie=tie, dims=dims, config=config)
    ours = {e.key: e for e in plan.weights}
    rows = []
    seen = set()
    for slot, key, shape in expected(wanted):
        seen.add(key)
        entry = ours.get(key)
        if entry is None:
            if not (slot.role == "head" and plan.tie.tied):
                rows.append(Compared(key, "missing", theirs=key, wanted=shape))
        else:
            state = _shape_state(entry.output.shape, shape, slot.shape)
            rows.append(replace(_row(entry, state), theirs=key, wanted=shape))
    head = family.role("head")
    rows += [
        _row(e, "extra") for e in plan.weights if e.key not in seen and not (e.key == head and plan.tie.tied is True)
    ]
    return tuple(rows)


def _shape_state(shape: tuple[int, ...], wanted: Sequence[int | None], symbols: Sequence[str]) -> State:
    if len(shape) != len(wanted):
        return "shape"
    named = symbols if len(symbols) == len(shape) else [""] * len(shape)  # transformers gives sizes without names
    wrong = [s for a, b, s in zip(shape, wanted, named, strict=True) if b is not None and a != b]
    return "fits" if not wrong else "vocab" if wrong == ["vocab"] else "shape"


def _row(entry: Entry, state: State) -> Compared:
    return Compared(entry.key, state, entry.ref.key, shape=entry.output.shape, dtype=entry.output.dtype)


def _rope(plan: Plan, model: Known) -> list[Finding]:
    """Say where the config's rotary frequencies are not those of a published model."""
    config = plan.config
    if config is None or config.rope_theta is None or model.theta is None:
        return []
    stated = float((config.rope_scaling or {}).get("factor", 0) or 0)
    wrong = [f"rope_theta {config.rope_theta:,.0f}, {model.name} has {model.theta:,.0f}"] * (
        config.rope_theta != model.theta
    )
    if model.factor and stated != model.factor:
        wrong.append(f"a rotary scaling of {stated or 'none'}, {model.name} has {model.factor}")
    if not wrong:
        return []
    text = f"{config.origin} has {'; '.join(wrong)}."
    return [Finding("config-mismatch", "warning", text, fix="It may be meant so, for a longer context.")]


# ------------------------------------------------------------------------------------------------- another checkpoint


def against_plan(
    plan: Plan,
    other: Plan,
    name: str,
    *,
    budget: int | None = None,
    progress: Progress | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> Against:
    """Compare names, shapes, types and values with those of another checkpoint."""
    work = _Work(plan, other, budget, progress, cancelled)
    compared = [row for key in sorted(work.keys, key=natural) if (row := work.row(key)) is not None]
    rows = work.find_swaps(compared)
    return Against(name, "checkpoint", tuple(rows), _findings(rows, name))


class _Work:
    """One comparison of values: what is compared, how much was read."""

    def __init__(
        self,
        plan: Plan,
        other: Plan,
        budget: int | None,
        progress: Progress | None,
        cancelled: Callable[[], bool] | None,
    ) -> None:
        self.plan, self.other = plan, other
        self.ours = {e.key: e for e in plan.weights}
        self.theirs = {e.key: e for e in other.weights}
        self.keys = self.ours.keys() | self.theirs.keys()
        self.dims = {**other.dims, **plan.dims}
        self.other_dims = {**plan.dims, **other.dims}
        self.rotary = rotary(plan.family or other.family)
        family = plan.family or other.family
        self.head = family.role("head") if family else None
        self.budget, self.progress, self.cancelled = budget, progress, cancelled
        both = [self.ours[key] for key in self.ours.keys() & self.theirs.keys()]
        self.total, self.done = 2 * sum(e.output.nbytes for e in both), 0

    def row(self, key: str) -> Compared | None:
        """Compare one tensor; None for a tied head that one side leaves out."""
        one, two = self.ours.get(key), self.theirs.get(key)
        if one is None or two is None:
            if key == self.head and self.plan.tie.tied and self.other.tie.tied:
                return None
            if one is not None:
                return _row(one, "extra")
            assert two is not None
            return Compared(key, "missing", "", two.ref.key, None, two.output.shape, "", two.output.dtype)
        made = replace(_row(one, "differs"), theirs=two.ref.key, wanted=two.output.shape, wanted_dtype=two.output.dtype)
        if one.output.shape != two.output.shape:
            return replace(made, state=self._other_shape(key, one.output.shape, two.output.shape))
        return self._values(made, one, two)

    def _other_shape(self, key: str, shape: tuple[int, ...], wanted: tuple[int, ...]) -> State:
        family = self.plan.family
        slot = family.by_slot.get(template(key)) if family else None
        return _shape_state(shape, wanted, slot.shape) if slot and len(slot.shape) == len(shape) else "shape"

    def _values(self, row: Compared, one: Entry, two: Entry) -> Compared:
        size = one.output.nbytes + two.output.nbytes
        self.done += size
        if self.budget is not None and self.done > self.budget:
            return replace(row, state="unread", note="more than the budget allows")
        try:
            left, right, cast = self._streams(one, two)
        except KeyError:
            return replace(row, state="unread", note="the head counts of one of the two are not known")
        if self._same(left, right):
            return replace(row, state="cast" if cast else "equal")
        turned = self._permuted(row.key, left, right)
        if self.progress:
            self.progress("Comparing with the reference", self.done, self.total)
        return replace(row, state="permuted", note=turned) if turned else row

    def _streams(self, one: Entry, two: Entry) -> tuple[Stream, Stream, bool]:
        """Return both tensors in one type: the wider is cast to the narrower."""
        left = stream_of(one.expr, self.dims, lambda ref: RefStream(self.plan.source, ref))
        right = stream_of(two.expr, self.other_dims, lambda ref: RefStream(self.other.source, ref))
        if left.dtype == right.dtype or not {left.dtype, right.dtype} <= set(CASTABLE):
            return left, right, False
        if BY_NAME[left.dtype].bits >= BY_NAME[right.dtype].bits:
            return CastStream(left, right.dtype), right, True
        return left, CastStream(right, left.dtype), True

    def _same(self, left: Stream, right: Stream) -> bool:
        if left.dtype != right.dtype:
            return False
        return all(a == b for a, b in zip(self._blocks(left), self._blocks(right), strict=True))

    def _blocks(self, stream: Stream) -> Iterator[bytes]:
        import numpy as np

        total = num_bytes(stream.dtype, int(np.prod(stream.shape, dtype=np.int64)))
        buffer = np.empty(min(BLOCK, total), dtype=np.uint8)
        for start in range(0, total, BLOCK):
            if self.cancelled and self.cancelled():
                raise Cancelled
            block = buffer[: min(BLOCK, total - start)]
            read_any(stream, start, block)
            yield block.tobytes()

    def _permuted(self, key: str, left: Stream, right: Stream) -> str:
        """Return which order the rows here are in if they are those of the reference in the other order."""
        heads = self.rotary.get(template(key))
        if heads is None or heads not in self.dims:
            return ""
        for to, order in (("halves", "neighbouring pairs"), ("pairs", "halves of a head")):
            try:
                turned = RopePermute(heads, to).apply([left], self.dims)
            except CheckpointError:
                return ""
            if self._same(turned, right):
                return f"rows lie as {order} here, and the other way in the reference"
        return ""

    def find_swaps(self, rows: list[Compared]) -> list[Compared]:
        """Tell tensors that have changed places with others of the same layer and shape."""
        groups: dict[tuple[Any, ...], list[int]] = {}
        for i, row in enumerate(rows):
            if row.state == "differs":
                groups.setdefault((indices(row.key), row.shape), []).append(i)
        for group in groups.values():
            if len(group) < 2:
                continue
            pairs = {i: self._streams(self.ours[rows[i].key], self.theirs[rows[i].key])[:2] for i in group}
            theirs = {self._digest(right): rows[i].key for i, (_, right) in pairs.items()}
            for i, (left, _) in pairs.items():
                found = theirs.get(self._digest(left))
                if found:
                    rows[i] = replace(rows[i], state="swapped", note=f"equals {found} of the reference")
        return rows

    def _digest(self, stream: Stream) -> bytes:
        made = hashlib.blake2b(stream.dtype.encode())
        for block in self._blocks(stream):
            made.update(block)
        return made.digest()


def rotary(family: Family | None) -> dict[str, str]:
    """Return the hub tensors whose rows some layout has in another rotary order, and the dim that counts heads."""
    found = {}
    for rule in (rule for layout in (family.layouts if family else ()) for rule in layout.rules):
        for i, hub in enumerate(rule.hubs):
            for op in (*rule.ops, *(rule.each[i] if rule.each else ())):
                if isinstance(op, RopePermute):
                    found[anonymous(hub)] = op.heads
    return found


# ------------------------------------------------------------------------------------------------------------ findings


def _findings(rows: Sequence[Compared], name: str) -> tuple[Finding, ...]:
    shown = safe_text(name, 120)
    made = (
        _permuted(_of(rows, "permuted"), shown),
        _swapped(_of(rows, "swapped"), shown),
        _missing(_of(rows, "missing"), shown),
        _wrong_shape(_of(rows, "shape"), shown),
        _vocabulary(_of(rows, "vocab"), shown),
        _extra(_of(rows, "extra"), shown),
        _unread(_of(rows, "unread")),
    )
    return tuple(finding for finding in made if finding is not None)


def _of(rows: Sequence[Compared], state: State) -> list[Compared]:
    return [row for row in rows if row.state == state]


def _keys(rows: Sequence[Compared]) -> tuple[str, ...]:
    return tuple(row.ours or row.theirs for row in rows)


def _permuted(rows: Sequence[Compared], name: str) -> Finding | None:
    if not rows:
        return None
    text = (
        f"The rows of {len(rows)} q and k tensors such as `{safe_text(rows[0].ours)}` are those of {name} in the other "
        "rotary order: under these names the model would load and write gibberish."
    )
    fix = "Convert it again from its original, which has the rows as its names say; one of the two is mislabelled."
    return Finding("rope-permuted", "warning", text, _keys(rows), fix)


def _swapped(rows: Sequence[Compared], name: str) -> Finding | None:
    if not rows:
        return None
    first = rows[0]
    text = (
        f"{len(rows)} tensors have the values of another of the same shape in {name}: `{safe_text(first.ours)}` "
        f"{safe_text(first.note, 120)}."
    )
    fix = "Look at the converter that made it: it has mixed these names up."
    return Finding("tensors-swapped", "warning", text, _keys(rows), fix)


def _missing(rows: Sequence[Compared], name: str) -> Finding | None:
    if not rows:
        return None
    text = f"{plural(len(rows), 'tensor')} of {name} {'is' if len(rows) == 1 else 'are'} not here, "
    text += f"such as `{safe_text(rows[0].theirs)}`."
    return Finding("missing-tensor", "error", text, _keys(rows), "Is it the same model? Compare layers and sizes.")


def _wrong_shape(rows: Sequence[Compared], name: str) -> Finding | None:
    if not rows:
        return None
    have, want = (" × ".join("?" if s is None else f"{s:,}" for s in x or ()) for x in (rows[0].shape, rows[0].wanted))
    text = (
        f"{plural(len(rows), 'tensor')} of another shape than in {name}: `{safe_text(rows[0].ours)}` is {have or '1'}"
    )
    text += f", there {want or '1'}."
    return Finding("shape-mismatch", "error", text, _keys(rows), "It is a model of another size.")


def _vocabulary(rows: Sequence[Compared], name: str) -> Finding | None:
    if not rows:
        return None
    have, want = ((x or (0,))[0] for x in (rows[0].shape, rows[0].wanted))
    text = f"The vocabulary has {have:,} rows, that of {name} {want:,}: tokens were added, or rows padded."
    return Finding("vocab-padding", "info", text, _keys(rows))


def _extra(rows: Sequence[Compared], name: str) -> Finding | None:
    if not rows:
        return None
    text = f"{plural(len(rows), 'tensor')} such as `{safe_text(rows[0].ours)}` {'is' if len(rows) == 1 else 'are'} not "
    return Finding("unexpected-tensor", "warning", f"{text}in {name}.", _keys(rows))


def _unread(rows: Sequence[Compared]) -> Finding | None:
    if not rows:
        return None
    text = f"The values of {plural(len(rows), 'tensor')} were not compared: {rows[0].note}."
    fix = "Raise --budget, or give head counts with --config or --heads."
    return Finding("values-unchecked", "info", text, _keys(rows), fix)
