"""What the programs that read a layout can not build, though the layout can hold it.

An export is made all the same: other programs read it, and it goes back. But who wrote it for one of these programs
should know before they try. Sources: transformers 5.24 `configuration_*.py` (`validate_architecture`); Meta llama3
`model.py`; torchtune 0.6.1 `models/*/_component_builders.py`.
"""

from __future__ import annotations

from ckpt_gui.core.errors import Finding
from ckpt_gui.core.families.layouts import title_of
from ckpt_gui.core.families.schema import Layout
from ckpt_gui.core.model_config import FLAGS
from ckpt_gui.core.plan import Plan

# Families whose config classes in transformers 5 want a hidden size that the heads divide, even beside a head_dim.
_DIVIDED = frozenset(("llama", "deepseek-v2", "gemma2", "gemma3", "gemma3_vision", "gpt-neox"))
# Families whose builders, by layout, take the size of a head from the hidden size, and know no biases but their own.
_FROM_HIDDEN = {
    "meta": frozenset(("llama",)),
    "torchtune": frozenset(("llama", "mistral", "qwen2", "phi3")),
}
_WITHOUT_BIASES = {"meta": frozenset(("llama", "mistral")), "torchtune": frozenset(("llama", "mistral", "qwen3"))}
_HUGGING_FACE = ("hf", "hf-memory", "hf-fused", "hf-v5")
_PROGRAMS = {"meta": "Meta's own programs", "torchtune": "torchtune's builders"}


def limits(plan: Plan, layout: Layout | None) -> list[Finding]:
    """Return what the programs of the layout that is written can not build of this model."""
    if layout is None or plan.family is None:
        return []
    found = refused_by_transformers(plan, layout)
    name, family = layout.name, plan.family.name
    if plan.layout is layout:  # whoever made it in this layout knows who reads it
        return found
    if family in _FROM_HIDDEN.get(name, ()):
        found += _sizes(plan, name)
    if family in _WITHOUT_BIASES.get(name, ()):
        found += _biases(plan, name)
    return found


def refused_by_transformers(plan: Plan, layout: Layout | None) -> list[Finding]:
    """Return why transformers 5 would not load the model; empty if it would."""
    hidden, heads = plan.dims.get("hidden", 0), plan.dims.get("heads", 0)
    if layout is None or layout.name not in _HUGGING_FACE or plan.family is None or plan.family.name not in _DIVIDED:
        return []
    if not heads or hidden % heads == 0:
        return []
    text = (
        f"transformers 5 refuses this model: its {heads:,} heads do not divide the hidden size of {hidden:,}, as the "
        "class of its config wants even where head_dim is given. Version 4 loads it."
    )
    return [Finding("config-mismatch", "warning", text, fix="Load it with transformers 4.57.")]


def _sizes(plan: Plan, layout: str) -> list[Finding]:
    dims = plan.dims
    if not {"heads", "head_dim", "hidden"} <= dims.keys() or dims["heads"] * dims["head_dim"] == dims["hidden"]:
        return []
    rows = f"{dims['heads']:,} heads of {dims['head_dim']:,}"
    text = (
        f"{_PROGRAMS[layout]} can not build this model: they take the size of a head to be the hidden size divided by "
        f"the number of heads, and {rows} are not {dims['hidden']:,}."
    )
    return _kept(text, layout)


def _biases(plan: Plan, layout: str) -> list[Finding]:
    assert plan.family is not None
    optional = {t for t, slot in plan.family.by_slot.items() if slot.when in FLAGS and t.endswith(".bias")}
    stored = sum(len(group.places) for name, group in plan.groups.items() if name in optional)
    if not stored:
        return []
    return _kept(f"{_PROGRAMS[layout]} can not build this model: they have no place for its {stored:,} biases.", layout)


def _kept(text: str, layout: str) -> list[Finding]:
    fix = f"The {title_of(layout)} files hold it whole, for other programs and for the way back."
    return [Finding("config-mismatch", "warning", text, fix=fix)]
