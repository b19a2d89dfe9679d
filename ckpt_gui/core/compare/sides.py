"""The two sides of a comparison: a checkpoint, a published model's sizes, or a config, each under hub names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ckpt_gui.core.adapter_layouts import convert_adapter
from ckpt_gui.core.compare.result import Side, Stored
from ckpt_gui.core.entry import Entry
from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.families import generic
from ckpt_gui.core.families.known import Known
from ckpt_gui.core.families.known_config import known_config
from ckpt_gui.core.families.registry import BY_NAME as FAMILIES
from ckpt_gui.core.families.registry import for_model_type
from ckpt_gui.core.families.schema import Family
from ckpt_gui.core.keys import safe_text, template
from ckpt_gui.core.model_config import ModelConfig
from ckpt_gui.core.passes.adapter import LAYOUTS
from ckpt_gui.core.passes.expectation import expected
from ckpt_gui.core.plan import Plan, Tie
from ckpt_gui.core.source import Source


def side_of_plan(plan: Plan, name: str | None = None) -> Side:
    """Return a checkpoint as a side; an adapter's modules get PEFT's names, whoever has saved it."""
    family = plan.family
    slots = family.by_slot if family else {}
    tensors: dict[str, Stored] = {}
    for entry in _weights(plan):
        slot = slots.get(template(entry.key))
        symbols = slot.shape if slot else ()
        key = entry.key if entry.key not in tensors else f"{entry.key} ({len(tensors)})"  # two of one name: both stay
        tensors[key] = Stored(entry.ref.key, entry.output.shape, entry.output.dtype, entry, symbols)
    return Side(
        plan.source.path if name is None else name,
        "checkpoint",
        tensors,
        family,
        plan.layout.name if plan.layout else "",
        family.role("head") if family else None,
        family.role("embedding") if family else None,
        plan.tie.tied,
        plan,
        plan.config,
    )


def _weights(plan: Plan) -> Iterable[Entry]:
    if plan.adapter is None or plan.family is None:
        return plan.weights
    entries, _, findings = convert_adapter(plan, LAYOUTS["peft"])
    return plan.weights if any(f.blocking for f in findings) else (*entries, *plan.unmapped)


def side_of_known(model: Known) -> Side:
    """Return a published model's sizes as a side.

    Raises:
        CheckpointError: Its family has no table.
    """
    family = FAMILIES.get(model.family)
    if family is None:
        text = f"{model.name} is of the family {model.family}, which has no table here."
        raise CheckpointError("unknown-layout", text)
    config = known_config(model, family)
    return _expected(model.name, "known", family, model.tied, {**config.dims, **model.dims}, config)


def side_of_config(config: ModelConfig, name: str, like: Family | None = None) -> Side:
    """Return what a config tells as a side.

    Args:
        config: The config.
        name: What it is called.
        like: The family of the other side: taken where the config names none, or the same.

    Raises:
        CheckpointError: Its family has no table.
    """
    types = [t for t in (config.whole_type, config.model_type) if t]
    family = for_model_type(types[0]) if types else like or FAMILIES["llama"]
    if family is None and generic.available():
        saved = generic.saved_for(config.raw)
        family = None if saved.problem else generic.family_of(saved)
    family = family or for_model_type(config.model_type)  # of a larger model, the text model alone
    if family and like and like.name == family.name:
        family = like  # which may have another head, or none
    if family is None:
        text = f"{safe_text(name)} says model_type {safe_text(str(config.model_type), 40)}, a family without a table."
        raise CheckpointError("unknown-layout", text, fix="Name a checkpoint of that model instead.")
    return _expected(name, "config", family, config.tie_flag(family.tie_default)[0], config.dims, config)


def _expected(
    name: str,
    kind: str,
    family: Family,
    tied: bool | None,
    dims: Mapping[str, int],
    config: ModelConfig | None,
) -> Side:
    wanted = Plan(Source("", "memory", ()), family=family, tie=Tie(tied=tied), dims=dims, config=config)
    tensors = {key: Stored(key, shape, symbols=slot.shape) for slot, key, shape in expected(wanted)}
    head, embedding = family.role("head"), family.role("embedding")
    return Side(
        name, "known" if kind == "known" else "config", tensors, family, "", head, embedding, tied, None, config
    )
