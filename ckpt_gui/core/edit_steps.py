"""The rows of the fix plan that the user has made: each rule, changed fields, and what is kept by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ckpt_gui.core.edits import KeyRule, field_value
from ckpt_gui.core.passes.load_config import stated_config
from ckpt_gui.core.plan import Step

if TYPE_CHECKING:
    from ckpt_gui.core.export import Export

RULE = "rule-"  # and the number of the rule
NONE = "–"


def edit_steps(export: Export) -> tuple[Step, ...]:
    """Return the steps that the user has made, in the order in which they are done."""
    made = (_config(export), _metadata(export), _kept(export))
    return (*_rules(export), *(step for step in made if step))


def rule_number(step: str) -> int | None:
    """Return which rule a step is, by its id; None for all others.

    >>> rule_number("rule-2"), rule_number("rename")
    (2, None)
    """
    return int(step.removeprefix(RULE)) if step.startswith(RULE) else None


def _rules(export: Export) -> tuple[Step, ...]:
    policy, hits = export.plan.policy, export.plan.edited
    keys = hits if len(hits) == len(policy.key_rules) else ((),) * len(policy.key_rules)
    return tuple(
        Step(f"{RULE}{n}", rule_title(rule), len(found), "by hand", optional=True, keys=found)
        for n, (rule, found) in enumerate(zip(policy.key_rules, keys, strict=True))
    )


def rule_title(rule: KeyRule) -> str:
    """Return what a rule does, for a person."""
    what = "Replace" if rule.regex else "Take"
    return f"{what} `{rule.find}` {'by' if rule.regex else 'for'} `{rule.to}`"


def _config(export: Export) -> Step | None:
    edits = export.plan.policy.config_edits
    if not edits:
        return None
    origin, raw = stated_config(export.plan)
    pairs = tuple((_line(e.name, field_value(raw or {}, e.name)), _line(e.name, e.value)) for e in edits)
    names = ", ".join(f"`{edit.name}`" for edit in edits)
    return Step("config-edit", f"Change {names} of {origin or 'the config'}", len(edits), "by hand", examples=pairs)


def _metadata(export: Export) -> Step | None:
    edits = export.plan.policy.metadata_edits
    if not edits:
        return None
    before = {"format": "pt", **export.plan.source.metadata}
    pairs = tuple((_line(e.name, before.get(e.name)), _line(e.name, e.value)) for e in edits)
    names = ", ".join(f"`{edit.name}`" for edit in edits)
    evidence = "by hand" if export.container == "safetensors" else "only safetensors files have metadata: not written"
    return Step("metadata-edit", f"Change {names} of the metadata", len(edits), evidence, examples=pairs)


def _kept(export: Export) -> Step | None:
    kept = tuple(e.ref.full_key for e in export.entries if e.ref.full_key in export.plan.policy.kept)
    if not kept:
        return None
    return Step("keep", f"Carry {len(kept)} computed tensors along", len(kept), "ticked by the user", keys=kept)


def _line(name: str, value: str | None) -> str:
    return f"{name} = {NONE if value is None else value}"
