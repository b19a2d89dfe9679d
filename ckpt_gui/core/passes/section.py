"""Find the nested dict that holds the weights.

Trainers save `{"model": …, "optimizer": …, "step": …}` under many names. The section is the one whose keys fit a known
layout once wrappers are gone; a name alone decides only where nothing fits. Optimizer state is never counted as
weights, although its tensors are as large. Two sections that fit alike are the user's choice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ckpt_gui.core.entry import Entries, carried_all
from ckpt_gui.core.errors import Finding
from ckpt_gui.core.families.registry import fits
from ckpt_gui.core.key_groups import KeyGroups, group_keys
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.passes.unwrap import strip
from ckpt_gui.core.plan import Dropped, Plan
from ckpt_gui.core.tensors import TensorRef
from ckpt_gui.dataclasses import dataclass

Section = tuple[str, ...]

# Usual names, in order of preference where keys can not decide.
PREFERRED = ("model", "state_dict", "module", "model_state_dict", "model_ema", "state_dict_ema", "ema_model")
# A section with one of these names, or a tensor with one of these last segments, is optimizer or scheduler state.
OPTIMIZER_SECTIONS = frozenset(
    (
        *("optimizer", "optim", "optimizers", "optimizer_state", "optimizer_states", "optimizer_state_dict", "opt"),
        *("opt_g", "opt_d", "lr_scheduler", "lr_schedulers", "scheduler", "scheduler_state_dict", "scaler"),
        *("grad_scaler", "rng_state", "rng_states", "cuda_rng_state", "torch_rng_state"),
    )
)
OPTIMIZER_KEYS = frozenset(["exp_avg", "exp_avg_sq", "max_exp_avg_sq", "momentum_buffer", "square_avg", "acc_delta"])


@dataclass(frozen=True, slots=True)
class Candidate:
    """A section that may hold the weights.

    Attributes:
        section: Its path.
        refs: Its tensors.
        keys: The key of each below the section.
        groups: Those keys by their templates.
        fitting: Tensors that fit the best layout.
    """

    section: Section
    refs: Sequence[TensorRef]
    keys: Sequence[str]
    groups: KeyGroups
    fitting: int

    @property
    def rank(self) -> tuple[int, int, int, int, int, Section]:
        """Sort key, best first: by what fits, by size, by name; where nothing fits, by a usual name before the size."""
        name = self.section[-1] if self.section else ""
        usual = PREFERRED.index(name) if name in PREFERRED else len(PREFERRED)
        first = usual if self.fitting == 0 else 0
        return (-self.fitting, first, -len(self.refs), usual, -len(self.section), self.section)


def is_optimizer(ref: TensorRef) -> bool:
    """Return True for optimizer, scheduler and random-generator state."""
    if ref.key.rpartition(".")[2] in OPTIMIZER_KEYS or ref.key in OPTIMIZER_SECTIONS:
        return True
    return bool(ref.section) and not OPTIMIZER_SECTIONS.isdisjoint(ref.section)


def candidates(refs: tuple[TensorRef, ...]) -> tuple[Candidate, ...]:
    """Return the sections that may hold the weights, best first."""
    sections: dict[Section, list[TensorRef]] = {}
    for ref in refs:
        sections.setdefault(ref.section, []).append(ref)
    weights = {section: taken for section, inside in sections.items() if (taken := _weights(section, inside))}
    found = [_candidate(section, inside, groups) for section, (inside, groups) in weights.items()]
    if len(weights) > 1 and not any(c.fitting for c in found):
        found = [c for c in _flattened({s: inside for s, (inside, _) in weights.items()}) if c.fitting] or found
    return tuple(sorted(found, key=lambda c: c.rank))


def _weights(section: Section, refs: list[TensorRef]) -> tuple[list[TensorRef], KeyGroups] | None:
    """Return the tensors of a section that are no state of an optimizer, and their keys; None if there are none.

    Where a tensor is called as a moment, what lies beside it is state as well: the `step` of Adam.
    """
    groups = group_keys([ref.key for ref in refs])
    if not OPTIMIZER_SECTIONS.isdisjoint(section) or not OPTIMIZER_KEYS.isdisjoint(groups):
        return None
    if any(shape.rpartition(".")[2] in OPTIMIZER_KEYS or shape in OPTIMIZER_SECTIONS for shape in groups):
        refs = [ref for ref in refs if not is_optimizer(ref)]
        groups = group_keys([ref.key for ref in refs])
    return (refs, groups) if refs else None


def _candidate(
    section: Section, refs: Sequence[TensorRef], groups: KeyGroups, keys: Sequence[str] | None = None
) -> Candidate:
    stripped = strip(groups)
    counts: Counter[str] = Counter()
    for shape, group in groups.items():
        counts[stripped.bare(shape)] += group.distinct  # ranks hold each name, and it counts once
    return Candidate(section, refs, [ref.key for ref in refs] if keys is None else keys, groups, fits(counts))


def _flattened(groups: dict[Section, list[TensorRef]]) -> list[Candidate]:
    """Return candidates whose keys are joined from nested dicts, one dict a module."""
    roots = {section[:depth] for section in groups for depth in range(min(len(section), 2) + 1)}
    found = []
    for root in roots:
        inside = [r for section, group in groups.items() if section[: len(root)] == root for r in group]
        keys = [".".join(r.path[len(root) :]) for r in inside]
        found.append(_candidate(root, inside, group_keys(keys), keys))
    return found


def find_section(plan: Plan) -> Plan:
    """Take the tensors of one section as entries; all others are left out with a reason."""
    found = candidates(plan.source.refs)
    if not found:
        dropped = tuple(Dropped(r, "is optimizer state, not a weight", "not-weights", r.key) for r in plan.source.refs)
        return plan.replace(dropped=dropped).found(_nothing(plan, bool(dropped)))
    chosen = next((c for c in found if c.section == plan.policy.section), found[0])
    if plan.policy.section is not None and chosen.section != plan.policy.section:
        plan = plan.found(_no_such_section(plan.policy.section, found))
    own = set(map(id, chosen.refs)) if len(found) > 1 else set()
    apart = [c for c in found if c is not chosen and own.isdisjoint(map(id, c.refs))]
    rivals = [c for c in apart if _rivals(c, chosen)]
    if rivals and plan.policy.section is None:
        return _take(plan.found(_several([chosen, *rivals])), chosen)
    return _note_nesting(_take(plan, chosen), chosen)


def _rivals(other: Candidate, chosen: Candidate) -> bool:
    """Return True if another section could be the weights as well."""
    if chosen.fitting:
        return other.fitting * 2 >= chosen.fitting
    return len(other.refs) * 2 >= len(chosen.refs) and len(chosen.section) > 0


def _take(plan: Plan, chosen: Candidate) -> Plan:
    ticked, refs, keys = plan.policy.dropped, chosen.refs, chosen.keys
    if ticked:
        taken = [at for at, ref in enumerate(refs) if ref.full_key not in ticked]
        refs, keys = [refs[at] for at in taken], [keys[at] for at in taken]
    entries = Entries(carried_all(refs, keys))
    if refs is chosen.refs:
        entries.under(chosen.groups)
    rest: list[TensorRef] = []
    if len(refs) < len(plan.source.refs):
        kept = set(map(id, refs))
        rest = [r for r in plan.source.refs if id(r) not in kept]
    dropped = tuple(_leave_out(r, chosen.section, r.full_key in ticked) for r in rest)
    return plan.replace(entries=entries, dropped=dropped, section=chosen.section)


def _leave_out(ref: TensorRef, section: Section, ticked: bool) -> Dropped:
    if ticked:
        return Dropped(ref, "was left out by the user", "user", ref.key)
    if is_optimizer(ref):
        return Dropped(ref, "is optimizer state, not a weight", "not-weights", ref.key)
    where = shown(section) or "the top level"
    return Dropped(ref, f"lies outside {where}, which holds the weights", "other-section", ref.key)


def shown(section: Section) -> str:
    """Return a section for people.

    >>> shown(("checkpoint", "model"))
    'checkpoint → model'
    """
    return " → ".join(safe_text(s, 40) for s in section)


def _note_nesting(plan: Plan, chosen: Candidate) -> Plan:
    if not chosen.section:
        return plan
    others = sorted({e.path[0] for e in plan.source.extras if e.path} | {d.ref.path[0] for d in plan.dropped})
    beside = [safe_text(name, 40) for name in others if name != chosen.section[0]]
    text = f"The weights lie inside {shown(chosen.section)}"
    text += f", beside {', '.join(beside[:6])}{' …' if len(beside) > 6 else ''}." if beside else "."
    plan = plan.explained(text)
    fix = "An export to hf, meta or torchtune holds the weights alone; same keeps the nesting."
    return plan.found(Finding("nested-state-dict", "info", text, fix=fix))


def _several(found: list[Candidate]) -> Finding:
    names = "; ".join(f"{shown(c.section) or 'the top level'} ({len(c.refs)} tensors)" for c in found)
    return Finding(
        "several-sections",
        "error",
        f"Several parts of this file could be the weights: {names}.",
        fix="Choose one with --section NAME, or in the checkpoint card of the window.",
        blocking=True,
    )


def _no_such_section(wanted: Section, found: tuple[Candidate, ...]) -> Finding:
    names = ", ".join(shown(c.section) or "the top level" for c in found)
    return Finding(
        "several-sections", "error", f"There is no section {shown(wanted)} with weights here; there is: {names}.",
        fix="Name one of these with --section.", blocking=True,
    )  # fmt: skip


def _nothing(plan: Plan, optimizer: bool) -> Finding:
    what = "holds optimizer state only, no weights" if optimizer else "holds no tensors"
    return Finding("not-a-checkpoint", "error", f"{safe_text(plan.source.path)} {what}.", blocking=True,
                   fix="Open the file with the model's weights instead.")  # fmt: skip
