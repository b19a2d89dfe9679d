"""The plan of the merged model: changed tensors back under their hub names, and an account of the rest."""

from __future__ import annotations

from collections.abc import Mapping

from ckpt_gui.core.entry import Entry
from ckpt_gui.core.exprs import Expr, shape_of
from ckpt_gui.core.families.rule_schema import Rule
from ckpt_gui.core.families.rules import joined, to_hub
from ckpt_gui.core.keys import anonymous, bind, template
from ckpt_gui.core.merging.work import Work
from ckpt_gui.core.passes.adapter_findings import from_base, other_base, scaled_biases, scales, unbiased, unmatched
from ckpt_gui.core.passes.check import check
from ckpt_gui.core.passes.dims import find_dims
from ckpt_gui.core.plan import Dropped, Plan, Tie, account
from ckpt_gui.core.tensors import TensorRef, TensorSpec


def finished(work: Work, adapter_plan: Plan, moved: Mapping[int, TensorRef]) -> Plan:
    """Return the plan of the merged model."""
    plan, changed = work.plan, _hub_entries(work)
    entries = [changed.pop(e.key, e) for e in plan.entries]
    unmapped = [work.stored[e.key] if e.key in work.touched else e for e in plan.unmapped]
    entries += [e for e in changed.values() if work.layout is not None or e.key not in {u.key for u in unmapped}]
    left = _left(work, (*entries, *unmapped, *work.added), adapter_plan, moved)
    resized = _shapes(entries) != _shapes(plan.entries)
    plan = plan.replace(
        source=work.source, entries=tuple(entries), unmapped=(*unmapped, *work.added), merged=work.adapter,
        dropped=(*plan.dropped, *work.gone, *left),
    )  # fmt: skip
    plan = plan.replace(tie=_tie(work, plan))
    plan = _checked_again(plan) if resized else plan
    total = len(work.adapter.loras)
    if work.stuck:
        work.findings.append(unmatched(work.stuck, total, "the base"))
    if work.unbiased:
        work.findings.append(unbiased(work.unbiased, "the base"))
    if (begun := from_base(work.adapter)) is not None:
        work.findings.append(begun.replace(severity="error", blocking=True))
    if (other := other_base(work.adapter, _class_of(plan))) is not None:
        work.findings.append(other)
    told = (f for f in adapter_plan.findings if f.blocking or (f.code.startswith("adapter-") and f.severity != "info"))
    biased = [x.module for x in work.adapter.loras if x.lengths is not None and f"{x.module}.bias" in work.stored]
    if (odd := scaled_biases(work.adapter, biased)) is not None:
        work.findings.append(odd)
    hits = total - len(work.stuck)
    text = f"{hits:,} of {total:,} modules of the adapter are in the base: {scales(work.adapter)}."
    plan = plan.found(*told, *work.findings).explained(text)
    account(plan)
    return plan


def _hub_entries(work: Work) -> dict[str, Entry]:
    """Return the tensors that change, under their hub names."""
    found: dict[str, Entry] = {}
    for name in work.touched:
        entry = work.stored[name]
        rule = work.layout.by_stored.get(template(name)) if work.layout else None
        if rule is None:
            if work.layout is None:
                found[name] = entry
            continue
        for hub, expr in _held(work, rule, entry):
            shape = shape_of(expr, work.plan.dims)
            found[hub] = Entry(TensorSpec(hub, entry.output.dtype, shape), expr, entry.why)
    return found


def _held(work: Work, rule: Rule, entry: Entry) -> list[tuple[str, Expr]]:
    """Return the hub tensors that a stored tensor holds, or the one that it makes up with others."""
    if not rule.merges:
        count = entry.output.shape[0] if rule.stack else 0
        return to_hub(rule, entry.expr, bind(rule.name, entry.key), count)
    own = next(s for s in rule.storeds if anonymous(s) == template(entry.key))
    numbers = bind(own, entry.key)
    parts = [work.stored[s.format(**numbers)].expr for s in rule.storeds]
    return [(rule.hubs[0].format(**rule.to_hub_numbers(numbers)), joined(rule, parts))]


def _left(
    work: Work, entries: tuple[Entry, ...], adapter_plan: Plan, moved: Mapping[int, TensorRef]
) -> tuple[Dropped, ...]:
    """Return what of the adapter is not used, with reasons."""
    used = {id(r) for e in entries for r in e.inputs} | {id(d.ref) for d in work.gone}
    reasons = {id(moved[id(d.ref)]): d for d in adapter_plan.dropped}
    left = []
    for ref in moved.values():
        if id(ref) in used:
            continue
        known = reasons.get(id(ref))
        reason, kind = (known.reason, known.kind) if known else ("fits nothing in the base", "unmatched")
        left.append(Dropped(ref, reason, kind, ref.key))
    return tuple(left)


def _tie(work: Work, plan: Plan) -> Tie:
    tie = plan.tie
    if not work.apart or plan.family is None:
        return tie
    ends = {e.key: e.ref for e in plan.entries if e.key in (plan.family.role("embedding"), plan.family.role("head"))}
    embedding, head = (ends.get(plan.family.role(role) or "") for role in ("embedding", "head"))
    return Tie(tie.flag, tie.flag_from, embedding, head, "different", False)


def _class_of(plan: Plan) -> str:
    """Return the class that the base's config names; empty where it names none."""
    named = plan.config.raw.get("architectures") if plan.config else None
    return str(named[0]) if isinstance(named, list) and named else ""


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
