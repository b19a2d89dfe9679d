"""Merge an adapter into a base: one plan of two sources.

Each weight that the adapter changes is brought into the layout whose names the adapter has, takes its pair in there,
and is brought back: so the rows of B lie as those of the weight, whatever the base's own order, and where nothing has
to be reordered in the end nothing is. An embedding and a head that were one are two once only one of them is trained.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field

from ckpt_gui.core.adapters import Adapter, Lora, Tokens
from ckpt_gui.core.dtypes import CASTABLE
from ckpt_gui.core.errors import CheckpointError, Finding
from ckpt_gui.core.exprs import Expr, make, shape_of
from ckpt_gui.core.families.numbering import numbered_by_hub
from ckpt_gui.core.families.rules import joined, to_hub
from ckpt_gui.core.families.schema import Layout, Rule
from ckpt_gui.core.joined import joined_source, same_bytes, with_refs
from ckpt_gui.core.keys import anonymous, bind, safe_text, template
from ckpt_gui.core.layouting import to_layout
from ckpt_gui.core.merge_ops import MergeBias
from ckpt_gui.core.ops import Cast
from ckpt_gui.core.passes.adapter import is_swapped, merged, with_rows
from ckpt_gui.core.passes.adapter_findings import (
    BASE_LAYOUT,
    scaled_biases,
    scales,
    strange_rows,
    unbiased,
    unmatched,
)
from ckpt_gui.core.passes.check import check, stored_name
from ckpt_gui.core.passes.dims import find_dims
from ckpt_gui.core.plan import Dropped, Entry, Plan, Tie, account, carried
from ckpt_gui.core.replace_ops import Replace
from ckpt_gui.core.tensors import Source, TensorRef, TensorSpec

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
    if adapter_plan.adapter.others:
        found = next(f for f in adapter_plan.findings if f.code == "adapter-unmatched")
        raise CheckpointError(found.code, found.message, fix=found.fix)
    source, moved = joined_source(plan.source, adapter_plan.source)
    adapter = with_refs(adapter_plan.adapter, moved)
    work = _Work(plan, adapter, source, _layout(plan, adapter))
    work.fit_names()
    work.keep_the_pair()
    work.replace()
    work.merge()
    work.put_rows()
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
    return numbered_by_hub(layout, plan.family, (e.key for e in plan.entries))[0]


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
        unbiased: Modules with a trained bias, and without one in the base.
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
    unbiased: list[Lora] = field(default_factory=list)
    apart: bool = False
    gone: list[Dropped] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)

    def __post_init__(self) -> None:
        made = to_layout(self.plan.entries, self.layout, self.plan)[0] if self.layout else self.plan.entries
        self.stored = {e.key: e for e in (*self.plan.unmapped, *made)}

    # ------------------------------------------------------------------------------------------------------- names

    def fit_names(self) -> None:
        """Give the adapter's modules the prefix that the base has."""
        modules = [x.module for x in self.adapter.loras] + [x.module for x in self.adapter.tokens]
        names = [f"{module}.weight" for module in modules] or list(self.adapter.whole)
        counts = [sum(_move(name, move) in self.stored for name in names) for move in _MOVES]
        best = _MOVES[counts.index(max(counts, default=0))]
        if best == ("", "") or not max(counts):
            return
        loras = tuple(dataclasses.replace(x, module=_move(x.module, best)) for x in self.adapter.loras)
        tokens = tuple(dataclasses.replace(t, module=_move(t.module, best)) for t in self.adapter.tokens)
        whole = {_move(name, best): ref for name, ref in self.adapter.whole.items()}
        trained = frozenset(_move(name, best) for name in self.adapter.trained)
        self.adapter = dataclasses.replace(self.adapter, loras=loras, whole=whole, trained=trained, tokens=tokens)
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
        return same_bytes(self.source, self.adapter.whole[left], self.adapter.whole[right])

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
            if lora.bias is not None:
                self._add_bias(lora, lora.bias)

    def _add_bias(self, lora: Lora, bias: TensorRef) -> None:
        entry = self.stored.get(f"{lora.module}.bias")
        if entry is None or entry.output.shape != bias.shape or entry.output.dtype not in CASTABLE:
            self.unbiased.append(lora)
            return
        self._set(entry.key, make(MergeBias(lora.scale or 0.0), entry.expr, bias), entry.output.dtype, bias.shape)

    def put_rows(self) -> None:
        """Put trained rows into embeddings, and into a head that is tied to one."""
        ends = [name for role in ("embedding", "head") if (name := self._role(role))]
        for tokens in self.adapter.tokens:
            own = f"{tokens.module}.weight"
            both = own in ends and self.plan.tie.tied is True and not self.apart
            names = [name for name in (ends if both else [own]) if name in self.stored]
            try:
                made = {name: self._rows(name, tokens) for name in names}
            except CheckpointError:
                made = {}
            if not made:
                self.findings.append(strange_rows(tokens.module, "the base"))
            for name, expr in made.items():
                self._set(name, expr, self.stored[name].output.dtype, self.stored[name].output.shape)

    def _rows(self, name: str, tokens: Tokens) -> Expr:
        entry = self.stored[name]
        expr = with_rows(entry.expr, entry.output.dtype, tokens)
        shape_of(expr, self.plan.dims)
        return expr

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
        if self.unbiased:
            self.findings.append(unbiased(self.unbiased, "the base"))
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
