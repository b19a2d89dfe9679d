"""The rows of the fix plan for what the user changed by hand: rules for names, fields of the config, metadata."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ckpt_gui.core.edits import FieldEdit
from ckpt_gui.core.export import Export
from ckpt_gui.core.fields import field_of
from ckpt_gui.core.keys import safe_text, template
from ckpt_gui.core.passes.by_hand import STEP
from ckpt_gui.core.plan import Step

EXAMPLES = 6
WISH = "a wish of the user"


def rule_steps(export: Export) -> tuple[Step, ...]:
    """Return a step for each rule that renames something, in their order."""
    rules = export.plan.policy.renames
    return tuple(
        Step(
            f"{STEP}:{number}",
            f"Rename `{safe_text(rule.old, 80)}` to `{safe_text(rule.new, 80)}`",
            len(made),
            WISH,
            optional=True,
            examples=one_a_template((one.before, one.after) for one in made),
            keys=tuple(one.full_key for one in made),
        )
        for number, (rule, made) in enumerate(zip(rules, export.plan.edited, strict=False))
        if made
    )


def field_steps(export: Export) -> Iterator[Step]:
    """Yield a step for the fields of the config, and one for the metadata, where the user set some."""
    sidecars = export.plan.source.sidecars
    config = next((c for c in (sidecars.config, sidecars.origin, sidecars.params, sidecars.lit) if c is not None), {})
    if edits := export.plan.policy.config:
        yield _fields("fields", "of the config", edits, config)
    if export.target.metadata and export.container == "safetensors":
        texts = {edit.name: _text(export.plan.source.metadata.get(edit.name)) for edit in export.target.metadata}
        pairs = tuple((f"{e.name} = {texts[e.name]}", f"{e.name} = {_text(e.value)}") for e in export.target.metadata)
        yield Step("metadata", f"Change {_count(export.target.metadata)} of the metadata", len(pairs), WISH,
                   optional=True, examples=pairs)  # fmt: skip


def _fields(id_: str, where: str, edits: Sequence[FieldEdit], raw: Mapping[str, Any]) -> Step:
    pairs = tuple((f"{e.name} = {_text(field_of(raw, e.name))}", f"{e.name} = {_text(e.value)}") for e in edits)
    return Step(id_, f"Change {_count(edits)} {where}", len(edits), WISH, optional=True, examples=pairs)


def _count(edits: Sequence[FieldEdit]) -> str:
    names = ", ".join(f"`{safe_text(edit.name, 60)}`" for edit in edits[:3])
    return names if len(edits) <= 3 else f"{len(edits)} fields ({names}, …)"


def _text(value: str | None) -> str:
    return "nothing" if value is None else safe_text(value, 80)


def one_a_template(pairs: Iterable[tuple[str, str]], most: int = EXAMPLES) -> tuple[tuple[str, str], ...]:
    """Return the first (before, after) of each pair of templates, at most so many."""
    seen: dict[tuple[str, str], tuple[str, str]] = {}
    for before, after in pairs:
        seen.setdefault((template(before), template(after)), (before, after))
        if len(seen) >= most:
            break
    return tuple(seen.values())
