"""Merge an adapter into a base: one plan of two sources.

Each weight that the adapter changes is brought into the layout whose names the adapter has, takes its pair in there,
and is brought back: so the rows of B lie as those of the weight, whatever the base's own order, and where nothing has
to be reordered in the end nothing is. An embedding and a head that were one are two once only one of them is trained.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field

from ckpt_gui.core.adapters import Adapter, Lora
from ckpt_gui.core.dtypes import CASTABLE
from ckpt_gui.core.errors import CheckpointError, Finding
from ckpt_gui.core.exprs import Expr, make, shape_of
from ckpt_gui.core.families.rules import joined, to_hub
from ckpt_gui.core.families.schema import Layout, Rule
from ckpt_gui.core.keys import anonymous, bind, safe_text, template
from ckpt_gui.core.layouting import to_layout
from ckpt_gui.core.merge_ops import Replace
from ckpt_gui.core.ops import Cast
from ckpt_gui.core.passes.adapter import BASE_LAYOUT, is_swapped, merged, scaled_biases, scales, unmatched
from ckpt_gui.core.passes.check import check, stored_name
from ckpt_gui.core.passes.dims import find_dims
from ckpt_gui.core.plan import Dropped, Entry, Plan, Tie, account, carried
from ckpt_gui.core.tensors import Reader, Source, TensorRef, TensorSpec

FOLDER = "adapter/"  # before the names of the adapter's files in the common source
BLOCK = 1 << 20
# Prefixes that one module has had in several versions: in the adapter, in the base.
_MOVES: tuple[tuple[str, str], ...] = (
    ("", ""),
    ("", "model."),
    ("model.", ""),
    ("model.language_model.", "model."),
    ("model.language_model.", "language_model.model."),
    ("language_model.model.", "model.language_model."),
    ("language_model.model.", "model."),
    ("model.", "model.language_model."),
    ("model.", "language_model.model."),
)


def merge_adapter(plan: Plan, adapter_plan: Plan) -> Plan:
    """Return the plan of a base with an adapter merged into it.

    Args:
        plan: The base's; its tied pair compared, its config known if it ever will be.
        adapter_plan: The adapter's.

    Raises:
        CheckpointError: The second is no adapter, or nothing of it is in the base.
    """
    if adapter_plan.adapter is None:
        raise CheckpointError(
            "adapter-unmatched",
            f"{safe_text(adapter_plan.source.path)} is no adapter of a kind that is known here.",
            fix="Name the folder or file with lora_A and lora_B (PEFT) or lora_a and lora_b (torchtune).",
        )
    source, moved = _joined(plan.source, adapter_plan.source)
    adapter = _with_refs(adapter_plan.adapter, moved)
    work = _Work(plan, adapter, source, _layout(plan, adapter))
    work.fit_names()
    work.keep_the_pair()
    work.replace()
    work.merge()
    if not work.touched and not work.added:
        raise CheckpointError(
            "adapter-empty",
            f"0 of {len(adapter.loras):,} modules of the adapter are in the base: nothing would change. The adapter "
            f"has `{safe_text(_first(adapter))}`, the base `{safe_text(next(iter(work.stored), 'nothing'))}`.",
            fix="Take the base that the adapter was trained on.",
        )
    return work.finished(adapter_plan, moved)


def _layout(plan: Plan, adapter: Adapter) -> Layout | None:
    """Return the layout of the base's family whose names the adapter has; None where names are taken as they are."""
    name = BASE_LAYOUT[adapter.style]
    if plan.family is None:
        return None
    layout = plan.family.layout(name)
    if layout is None:
        raise CheckpointError(
            "adapter-unmatched", f"{plan.family.title} has no layout {name}, whose names the adapter has."
        )
    return layout


def _first(adapter: Adapter) -> str:
    return next((f"{lora.module}.weight" for lora in adapter.loras), next(iter(adapter.whole), ""))


@dataclass(slots=True)
class _Work:
    """The base's tensors in the adapter's layout, while the adapter goes into them.

    Attributes:
        plan: The base's.
        adapter: With refs of the common source.
        source: The common source.
        layout: Whose names the adapter has.
        stored: Tensors by their names in that layout.
        touched: Names of those that change.
        added: Tensors of the adapter that the base has no place for.
        stuck: Modules without a weight that fits.
        apart: True if the embedding and the head were one and are no longer.
        gone: Tensors of the adapter that are left out, with reasons.
        findings: What the user should know.
    """

    plan: Plan
    adapter: Adapter
    source: Source
    layout: Layout | None
    stored: dict[str, Entry] = field(init=False)
    touched: dict[str, None] = field(default_factory=dict)
    added: list[Entry] = field(default_factory=list)
    stuck: list[Lora] = field(default_factory=list)
    apart: bool = False
    gone: list[Dropped] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)

    def __post_init__(self) -> None:
        made = to_layout(self.plan.entries, self.layout, self.plan)[0] if self.layout else self.plan.entries
        self.stored = {e.key: e for e in (*self.plan.unmapped, *made)}

    # ------------------------------------------------------------------------------------------------------- names

    def fit_names(self) -> None:
        """Give the adapter's modules the prefix that the base has."""
        names = [f"{lora.module}.weight" for lora in self.adapter.loras] or list(self.adapter.whole)
        counts = [sum(_move(name, move) in self.stored for name in names) for move in _MOVES]
        best = _MOVES[counts.index(max(counts, default=0))]
        if best == ("", "") or not max(counts):
            return
        loras = tuple(dataclasses.replace(x, module=_move(x.module, best)) for x in self.adapter.loras)
        whole = {_move(name, best): ref for name, ref in self.adapter.whole.items()}
        trained = frozenset(_move(name, best) for name in self.adapter.trained)
        self.adapter = dataclasses.replace(self.adapter, loras=loras, whole=whole, trained=trained)
        text = (
            f"With its own names {counts[0]:,} of {len(names):,} modules of the adapter are in the base; with "
            f"`{best[1]}` for `{best[0]}` before them {max(counts):,} are."
        )
        self.findings.append(Finding("renamed", "warning", text, fix="fix takes these names; look whether they fit."))

    def _role(self, role: str) -> str | None:
        hub = self.plan.family.role(role) if self.plan.family else None
        return stored_name(self.layout, hub) if hub and self.layout else None

    # ---------------------------------------------------------------------------------------------------- the pair

    def keep_the_pair(self) -> None:
        """Let a tied head be a tensor of its own where the adapter trains it or the embedding."""
        embedding, head = self._role("embedding"), self._role("head")
        if not embedding or not head or self.plan.tie.tied is not True or embedding not in self.stored:
            return
        ends = (embedding, head)
        self._resize(ends)
        whole = [name for name in ends if self._trained(name)]
        pairs = [lora for lora in self.adapter.loras if f"{lora.module}.weight" in ends]
        if not whole and not pairs:
            return
        if len(whole) == 2 and not pairs and self._equal(embedding, head):
            ref = self.adapter.whole[head]
            self.gone.append(Dropped(ref, "equals the embedding byte for byte", "redundant", head))
            self.adapter = dataclasses.replace(self.adapter, whole=_without(self.adapter.whole, head))
            if head in self.stored:
                self._put(head, self.adapter.whole[embedding])
            return
        self.apart = True
        if head not in self.stored:
            self.stored[head] = self.stored[embedding].renamed(head, why="the head was the embedding before training")
            self.touched[head] = None

    def _resize(self, ends: tuple[str, str]) -> None:
        """Take the base's own embedding out of the adapter: PEFT stores it where the vocabulary has grown."""
        held = [name for name in ends if name in self.adapter.whole and not self._trained(name)]
        if not held:
            return
        for name in ends:
            if name in self.stored:
                self._put(name, self.adapter.whole[held[0]])
        for name in held:
            ref = self.adapter.whole[name]
            if name != held[0]:
                self.gone.append(Dropped(ref, "is the tied embedding once more", "redundant", name))
            self.adapter = dataclasses.replace(self.adapter, whole=_without(self.adapter.whole, name))

    def _trained(self, name: str) -> bool:
        """Return True if the adapter has a whole tensor that was trained apart from the base's."""
        module = name.rpartition(".")[0]
        stated = self.adapter.config.get("modules_to_save")
        saved = [str(m) for m in stated] if isinstance(stated, list) else [stated] if isinstance(stated, str) else []
        listed = any(module == m or module.endswith(f".{m}") for m in saved)
        return name in self.adapter.whole and (name in self.adapter.trained or listed)

    def _equal(self, left: str, right: str) -> bool:
        return _same_bytes(self.source, self.adapter.whole[left], self.adapter.whole[right])

    # ------------------------------------------------------------------------------------------------------- values

    def replace(self) -> None:
        """Put whole tensors in the place of the base's."""
        for name, ref in self.adapter.whole.items():
            if name in self.stored:
                self._put(name, ref)
            else:
                self.added.append(carried(ref, name, "the adapter brings it"))

    def _put(self, name: str, ref: TensorRef) -> None:
        entry = self.stored[name]
        dtype = entry.output.dtype
        new: Expr = ref
        if ref.dtype != dtype:
            if not {ref.dtype, dtype} <= set(CASTABLE):
                dtype = ref.dtype
            else:
                new = make(Cast(ref.dtype, dtype), ref)
        self._set(name, make(Replace(), entry.expr, new), dtype, ref.shape)

    def merge(self) -> None:
        """Put every pair into its weight."""
        for lora in self.adapter.loras:
            name = f"{lora.module}.weight"
            entry = self.stored.get(name)
            expr = self._merged(entry, lora) if entry else None
            if entry is None or expr is None:
                self.stuck.append(lora)
            else:
                self._set(name, expr, entry.output.dtype, entry.output.shape)

    def _merged(self, entry: Entry, lora: Lora) -> Expr | None:
        if entry.output.dtype not in CASTABLE:
            return None
        expr = merged(entry.expr, lora, swapped=is_swapped(entry.output.shape, lora, self.adapter))
        try:
            shape_of(expr, self.plan.dims)
        except CheckpointError:
            return None
        return expr

    def _set(self, name: str, expr: Expr, dtype: str, shape: tuple[int, ...]) -> None:
        self.stored[name] = Entry(TensorSpec(name, dtype, shape), expr, self.stored[name].why)
        self.touched[name] = None

    # --------------------------------------------------------------------------------------------------- the result

    def finished(self, adapter_plan: Plan, moved: Mapping[int, TensorRef]) -> Plan:
        """Return the plan of the merged model."""
        plan, changed = self.plan, self._hub_entries()
        entries = [changed.pop(e.key, e) for e in plan.entries]
        unmapped = [self.stored[e.key] if e.key in self.touched else e for e in plan.unmapped]
        entries += [e for e in changed.values() if self.layout is not None or e.key not in {u.key for u in unmapped}]
        left = self._left((*entries, *unmapped, *self.added), adapter_plan, moved)
        resized = _shapes(entries) != _shapes(plan.entries)
        plan = plan.replace(
            source=self.source, entries=tuple(entries), unmapped=(*unmapped, *self.added), merged=self.adapter,
            dropped=(*plan.dropped, *self.gone, *left),
        )  # fmt: skip
        plan = plan.replace(tie=self._tie(plan))
        plan = _checked_again(plan) if resized else plan
        total = len(self.adapter.loras)
        if self.stuck:
            self.findings.append(unmatched(self.stuck, total, "the base"))
        told = (f for f in adapter_plan.findings if f.blocking or f.code.startswith("adapter-"))
        biased = [x.module for x in self.adapter.loras if x.lengths is not None and f"{x.module}.bias" in self.stored]
        if (odd := scaled_biases(self.adapter, biased)) is not None:
            self.findings.append(odd)
        hits = total - len(self.stuck)
        text = f"{hits:,} of {total:,} modules of the adapter are in the base: {scales(self.adapter)}."
        plan = plan.found(*told, *self.findings).explained(text)
        account(plan)
        return plan

    def _hub_entries(self) -> dict[str, Entry]:
        """Return the tensors that change, under their hub names."""
        found: dict[str, Entry] = {}
        for name in self.touched:
            entry = self.stored[name]
            rule = self.layout.by_stored.get(template(name)) if self.layout else None
            if rule is None:
                if self.layout is None:
                    found[name] = entry
                continue
            for hub, expr in self._held(rule, entry):
                shape = shape_of(expr, self.plan.dims)
                found[hub] = Entry(TensorSpec(hub, entry.output.dtype, shape), expr, entry.why)
        return found

    def _held(self, rule: Rule, entry: Entry) -> list[tuple[str, Expr]]:
        """Return the hub tensors that a stored tensor holds, or the one that it makes up with others."""
        if not rule.merges:
            count = entry.output.shape[0] if rule.stack else 0
            return to_hub(rule, entry.expr, bind(rule.name, entry.key), count)
        own = next(s for s in rule.storeds if anonymous(s) == template(entry.key))
        numbers = bind(own, entry.key)
        parts = [self.stored[s.format(**numbers)].expr for s in rule.storeds]
        return [(rule.hubs[0].format(**rule.to_hub_numbers(numbers)), joined(rule, parts))]

    def _left(
        self, entries: tuple[Entry, ...], adapter_plan: Plan, moved: Mapping[int, TensorRef]
    ) -> tuple[Dropped, ...]:
        """Return what of the adapter is not used, with reasons."""
        used = {id(r) for e in entries for r in e.inputs} | {id(d.ref) for d in self.gone}
        reasons = {id(moved[id(d.ref)]): d for d in adapter_plan.dropped}
        left = []
        for ref in moved.values():
            if id(ref) in used:
                continue
            known = reasons.get(id(ref))
            reason, kind = (known.reason, known.kind) if known else ("fits nothing in the base", "unmatched")
            left.append(Dropped(ref, reason, kind, ref.key))
        return tuple(left)

    def _tie(self, plan: Plan) -> Tie:
        tie = plan.tie
        if not self.apart or plan.family is None:
            return tie
        ends = {
            e.key: e.ref for e in plan.entries if e.key in (plan.family.role("embedding"), plan.family.role("head"))
        }
        embedding, head = (ends.get(plan.family.role(role) or "") for role in ("embedding", "head"))
        return Tie(tie.flag, tie.flag_from, embedding, head, "different", False)


def _move(name: str, move: tuple[str, str]) -> str:
    old, new = move
    return new + name[len(old) :] if name.startswith(old) else name


def _without(whole: Mapping[str, TensorRef], name: str) -> dict[str, TensorRef]:
    return {key: ref for key, ref in whole.items() if key != name}


def _shapes(entries: list[Entry] | tuple[Entry, ...]) -> dict[str, tuple[int, ...]]:
    return {e.key: e.output.shape for e in entries}


def _checked_again(plan: Plan) -> Plan:
    """Find sizes and compare shapes anew: the adapter has brought tensors of another size, or one more."""
    again = check(find_dims(plan.replace(findings=())))
    codes = {
        "missing-tensor",
        "shape-mismatch",
        "unexpected-tensor",
        "dtype-mixed",
        "config-mismatch",
        "config-missing",
    }
    kept = tuple(f for f in plan.findings if f.code not in codes)
    return again.replace(findings=(*kept, *again.findings))


# --------------------------------------------------------------------------------------------------- the common source


class _Moved:
    """Reads the adapter's tensors under their new files' names."""

    def __init__(self, reader: Reader, file: str) -> None:
        self.reader, self.file = reader, file

    def read_into(self, ref: TensorRef, start: int, out: memoryview) -> None:
        self.reader.read_into(dataclasses.replace(ref, file=self.file), start, out)

    def close(self) -> None:
        self.reader.close()


def _joined(base: Source, adapter: Source) -> tuple[Source, dict[int, TensorRef]]:
    """Return one source of both, and the adapter's tensors in it by the identity of the old ones."""
    moved = {id(ref): dataclasses.replace(ref, file=FOLDER + ref.file) for ref in adapter.refs}
    files = tuple(dataclasses.replace(file, name=FOLDER + file.name) for file in adapter.files)
    readers: dict[str, Reader] = {FOLDER + name: _Moved(reader, name) for name, reader in adapter.readers.items()}
    checksums = {(FOLDER + file, storage): crc for (file, storage), crc in adapter.checksums.items()}
    return base.replace(
        refs=(*base.refs, *moved.values()),
        files=(*base.files, *files),
        readers={**base.readers, **readers},
        checksums={**base.checksums, **checksums},
    ), moved


def _with_refs(adapter: Adapter, moved: Mapping[int, TensorRef]) -> Adapter:
    loras = tuple(
        dataclasses.replace(
            x, a=moved[id(x.a)], b=moved[id(x.b)], lengths=None if x.lengths is None else moved[id(x.lengths)]
        )
        for x in adapter.loras
    )
    return dataclasses.replace(
        adapter,
        loras=loras,
        whole={name: moved[id(ref)] for name, ref in adapter.whole.items()},
        replaced=tuple(moved[id(ref)] for ref in adapter.replaced),
        odd=tuple(moved[id(ref)] for ref in adapter.odd),
    )


def _same_bytes(source: Source, left: TensorRef, right: TensorRef) -> bool:
    if (left.dtype, left.shape) != (right.dtype, right.shape):
        return False
    for start in range(0, left.nbytes, BLOCK):
        stop = min(start + BLOCK, left.nbytes)
        if source.read(left, start, stop) != source.read(right, start, stop):
            return False
    return True
