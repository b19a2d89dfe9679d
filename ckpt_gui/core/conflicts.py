"""What stands in the way of an export, each with the ways out of it as values: the decisions that would be taken.

A way out is a whole policy or target to plan with anew, so whoever offers it, a window or a script, has nothing to
work out. Where only another file helps there is none, and the finding's own words say which.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from ckpt_gui.core.edits import Rename
from ckpt_gui.core.errors import CheckpointError, Finding
from ckpt_gui.core.export import Export, Target
from ckpt_gui.core.fields import with_fields
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.passes.by_hand import STEP
from ckpt_gui.core.passes.section import candidates
from ckpt_gui.core.passes.unwrap import unwrap_keys
from ckpt_gui.core.policy import Policy
from ckpt_gui.core.renames import changes
from ckpt_gui.core.tensors import TensorRef
from ckpt_gui.dataclasses import dataclass, replace

MOST = 6  # tensors, rules or sections that are offered one by one


@dataclass(frozen=True, slots=True)
class Resolution:
    """One way out.

    Attributes:
        label: What it does, for a person.
        policy: The decisions to understand the checkpoint with.
        target: What is to be written then.
    """

    label: str
    policy: Policy
    target: Target


@dataclass(frozen=True, slots=True)
class Conflict:
    """Something that blocks.

    Attributes:
        finding: What it is.
        resolutions: The ways out, the best first; none where only another file helps.
    """

    finding: Finding
    resolutions: tuple[Resolution, ...]


def conflicts(export: Export) -> tuple[Conflict, ...]:
    """Return what blocks an export, in the order of its findings."""
    return tuple(Conflict(finding, tuple(_ways(finding, export))) for finding in export.blocked)


def _ways(finding: Finding, export: Export) -> Iterator[Resolution]:
    make = _BY_CODE.get(finding.code)
    if make is not None:
        yield from make(finding, export)
    if export.target.layout != "same" and finding not in export.plan.findings:
        yield Resolution("Keep the layout that it has", export.plan.policy, replace(export.target, layout="same"))


def _decide(export: Export, label: str, policy: Policy) -> Resolution:
    return Resolution(label, policy, export.target)


def _collision(finding: Finding, export: Export) -> Iterator[Resolution]:
    policy = export.plan.policy
    wanted = set(finding.keys)
    refs = [ref for ref in export.plan.source.refs if ref.key in wanted or ref.full_key in wanted]
    yield from _renamed(export, refs)
    for ref in refs[:MOST]:
        dropped = policy.dropped | {ref.full_key}
        yield _decide(export, f"Leave out `{safe_text(ref.full_key, 80)}`", replace(policy, dropped=dropped))
    yield from _assigned(finding, export)


def _missing(_finding: Finding, export: Export) -> Iterator[Resolution]:
    """Yield the undoing of rules that have taken tensors away from what is expected."""
    yield from _renamed(export, [ref for entry in export.plan.unmapped for ref in entry.inputs])


def _renamed(export: Export, refs: Sequence[TensorRef]) -> Iterator[Resolution]:
    """Yield the undoing of rules that give some of these tensors another name."""
    names = _names(export, refs)
    yield from _rules(export, lambda rule: _is_readable(lambda: changes(rule, ())) and bool(changes(rule, names)))


def _names(export: Export, refs: Sequence[TensorRef]) -> list[str]:
    """Return every name by which a rule may have found tensors: without wrappers, and as they are stored."""
    bare: Mapping[str, str] = unwrap_keys([ref.key for ref in export.plan.source.refs]).names
    return [name for ref in refs for name in (bare[ref.key], ref.key, ref.full_key)]


def _bad_edit(finding: Finding, export: Export) -> Iterator[Resolution]:
    policy = export.plan.policy
    yield from _rules(export, lambda rule: not _is_readable(lambda: changes(rule, ())))
    raw = export.plan.source.sidecars.config or {}
    for edit in policy.config:
        if not _is_readable(partial(with_fields, raw, (edit,))):
            kept = tuple(each for each in policy.config if each != edit)
            yield _decide(export, f"Leave `{safe_text(edit.name, 80)}` as it is", replace(policy, config=kept))


def _is_readable(read: Callable[[], object]) -> bool:
    try:
        read()
    except CheckpointError:
        return False
    return True


def _rules(export: Export, concerned: Callable[[Rename], bool]) -> Iterator[Resolution]:
    """Yield the undoing of rules that have to do with it; they stay in the plan, to be ticked again."""
    policy = export.plan.policy
    steps = [(f"{STEP}:{number}", rule) for number, rule in enumerate(policy.renames)]
    guilty = [(step, rule) for step, rule in steps if step not in policy.skip and concerned(rule)]
    for step, rule in guilty[:MOST]:
        label = f"Do not rename `{safe_text(rule.old, 80)}` to `{safe_text(rule.new, 80)}`"
        yield _decide(export, label, replace(policy, skip=policy.skip | {step}))


def _assigned(_finding: Finding, export: Export) -> Iterator[Resolution]:
    policy = export.plan.policy
    if export.plan.source.assigned and not policy.assigned_only:
        yield _decide(export, "Use only what the index assigns", replace(policy, assigned_only=True))


def _section(_finding: Finding, export: Export) -> Iterator[Resolution]:
    policy = export.plan.policy
    sections = (candidate.section for candidate in candidates(export.plan.source.refs))
    for section in [each for each in sections if each and each != policy.section][:MOST]:
        label = f"Take the section `{safe_text('.'.join(section), 80)}`"
        yield _decide(export, label, replace(policy, section=section))


def _tied(_finding: Finding, export: Export) -> Iterator[Resolution]:
    policy = export.plan.policy
    if policy.tie != "auto":
        yield _decide(export, "Let the layout decide on the tied pair", replace(policy, tie="auto"))
    if policy.tie != "keep":
        yield _decide(export, "Keep the stored head", replace(policy, tie="keep"))


def _permuted(_finding: Finding, export: Export) -> Iterator[Resolution]:
    policy = export.plan.policy
    if "permute" in policy.skip:
        yield _decide(export, "Reorder the rows after all", replace(policy, skip=policy.skip - {"permute"}))


_BY_CODE: Mapping[str, Callable[[Finding, Export], Iterator[Resolution]]] = {
    "key-collision": _collision,
    "bad-edit": _bad_edit,
    "missing-tensor": _missing,
    "duplicate-tensor": _assigned,
    "shard-unindexed": _assigned,
    "several-sections": _section,
    "tied-conflict": _tied,
    "rope-permuted": _permuted,
}
