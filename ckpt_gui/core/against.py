"""A checkpoint beside a reference: what `check --against` finds.

The comparison is that of `compare`, with the reference as its second side; here stands what is wrong where a checkpoint
should be like another: rows of q and k in the other rotary order, tensors that have changed places or are not there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from ckpt_gui.core.compare import (
    Comparison,
    Kind,
    Row,
    Side,
    State,
    compare,
    is_checkpoint,
    side_of_name,
    side_of_plan,
)
from ckpt_gui.core.compare.findings import differences
from ckpt_gui.core.errors import Cancelled, Finding
from ckpt_gui.core.families.known import find_known
from ckpt_gui.core.families.layouts import title_of
from ckpt_gui.core.families.schema import Layout
from ckpt_gui.core.formats import open_checkpoint
from ckpt_gui.core.keys import template
from ckpt_gui.core.normalise import understand
from ckpt_gui.core.plan import Plan
from ckpt_gui.core.text import plural
from ckpt_gui.dataclasses import dataclass

Progress = Callable[[str, int, int], None]

WORDS: dict[State, str] = {
    "equal": "equal byte for byte",
    "cast": "equal after a cast",
    "permuted": "equal after putting rows or columns in order",
    "swapped": "equal to another tensor of the reference",
    "differs": "different in values",
    "shape": "of another shape",
    "vocab": "with another number of vocabulary rows",
    "untied": "tied on one side only",
    "renamed": "under another name there",
    "dtype": "of another type",
    "only-b": "missing here",
    "only-a": "not in the reference",
    "unread": "not compared in values",
    "fits": "of the expected name and shape",
    "tied": "left out on one side, as the head is tied",
}


@dataclass(frozen=True, slots=True)
class Against:
    """A checkpoint beside a reference.

    Attributes:
        comparison: The two compared: A is the checkpoint, B the reference.
        findings: What the user should know.
    """

    comparison: Comparison
    findings: tuple[Finding, ...] = ()

    @property
    def name(self) -> str:
        """What the reference is called."""
        return self.comparison.b.name

    @property
    def kind(self) -> Kind:
        """What the reference is."""
        return self.comparison.b.kind

    @property
    def rows(self) -> tuple[Row, ...]:
        """Every tensor of either side."""
        return self.comparison.rows

    @property
    def counts(self) -> Mapping[State, int]:
        """How many rows have each state."""
        return self.comparison.counts

    def sentences(self) -> tuple[str, ...]:
        """Say how the two compare."""
        counts = self.counts
        told = [f"{counts[state]:,} {words}" for state, words in WORDS.items() if counts.get(state)]
        first = f"Of {plural(len(self.rows), 'tensor')} {', '.join(told)}." if told else "There is nothing to compare."
        types = Counter((r.a.dtype, r.b.dtype) for r in self.rows if r.a and r.b and r.b.dtype)
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
    ours = side_of_plan(plan)
    if not is_checkpoint(reference):
        theirs = side_of_name(reference, plan.family)
        return _judged(compare(ours, theirs))
    with open_checkpoint(reference) as source:
        theirs = side_of_plan(understand(source, budget=budget, cancelled=cancelled), reference)
        compared = compare(
            ours, theirs, values=True, measured=False, budget=budget, progress=progress, cancelled=cancelled
        )
    if compared.stopped:
        raise Cancelled
    return _judged(compared)


def _judged(comparison: Comparison) -> Against:
    found = tuple(_with_cause(f, comparison) for f in differences(comparison))
    return Against(comparison, (*found, *_rope(comparison.a, comparison.b)))


def _with_cause(finding: Finding, comparison: Comparison) -> Finding:
    """Say which converter has exchanged tensors, where one is known to exchange just these."""
    plan = comparison.a.plan
    if finding.code != "tensors-swapped" or plan is None or plan.family is None or plan.layout is None:
        return finding
    wrong = {template(row.a.key) for row in comparison.rows if row.state == "swapped" and row.a}
    for layout in plan.family.layouts:
        if wrong == _told_otherwise(plan.layout, layout):
            fix = f"{title_of(layout.name)} exchanges just these: fix with --from {layout.name} puts them right."
            return finding.replace(fix=fix)
    return finding


def _told_otherwise(one: Layout, other: Layout) -> set[str]:
    """Return the stored names that two layouts have both, if they have the same, and that mean another tensor."""
    if one.by_stored.keys() != other.by_stored.keys():
        return set()
    return {stored for stored, rule in one.by_stored.items() if rule.hubs != other.by_stored[stored].hubs}


def _rope(ours: Side, theirs: Side) -> Sequence[Finding]:
    """Say where the config's rotary frequencies are not those of a published model."""
    config = ours.config
    if theirs.kind != "known" or config is None or config.rope_theta is None:
        return ()
    model = find_known(theirs.name)
    if model.theta is None:
        return ()
    stated = float((config.rope_scaling or {}).get("factor", 0) or 0)
    wrong = [f"rope_theta {config.rope_theta:,.0f}, {model.name} has {model.theta:,.0f}"] * (
        config.rope_theta != model.theta
    )
    if model.factor and stated != model.factor:
        wrong.append(f"a rotary scaling of {stated or 'none'}, {model.name} has {model.factor}")
    if not wrong:
        return ()
    text = f"{config.origin} has {'; '.join(wrong)}."
    return (Finding("config-mismatch", "warning", text, fix="It may be meant so, for a longer context."),)
