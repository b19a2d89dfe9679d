"""Read what the files beside the weights say of the model, whoever wrote them.

A config.json without `model_type` (cut by hand, or written by a trainer of its own) still names its class: that tells
the family as well, and what is written then states the type, without which transformers loads nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from ckpt_gui.core.edits import edit_config
from ckpt_gui.core.errors import CheckpointError, Finding
from ckpt_gui.core.families.registry import for_class
from ckpt_gui.core.families.tasks import architecture_of
from ckpt_gui.core.litgpt_config import NAME as LIT
from ckpt_gui.core.litgpt_config import config_of_lit
from ckpt_gui.core.meta_config import read_params
from ckpt_gui.core.model_config import ModelConfig, read_config
from ckpt_gui.core.openai_config import is_openai
from ckpt_gui.core.passes.gguf import ORIGIN
from ckpt_gui.core.plan import Plan

CONFIG, REPORT, PARAMS = "config.json", "EXPORT_REPORT.json", "params.json"


def load_config(plan: Plan) -> tuple[ModelConfig | None, tuple[Finding, ...]]:
    """Return what the files beside the weights say: config.json, else an earlier export's report, else others'."""
    origin, raw = stated_config(plan)
    edits = plan.policy.config_edits
    if raw is None:
        return None, (_nothing_to_edit(),) if edits else ()
    try:
        return _READERS[origin](edit_config(raw, edits) if edits else raw), ()
    except CheckpointError as error:
        return None, (Finding("config-mismatch", "warning", error.message, fix=error.fix),)


def stated_config(plan: Plan) -> tuple[str, Mapping[str, Any] | None]:
    """Return what is known to say what the model is, by its name, and its fields as they are in the file."""
    sidecars = plan.source.sidecars
    own = sidecars.config is not None and is_openai(sidecars.config)  # says less than what it was written from
    if sidecars.config is not None and not (own and sidecars.origin is not None):
        return CONFIG, sidecars.config
    if sidecars.origin is not None:
        return REPORT, sidecars.origin
    if sidecars.params is not None:
        return PARAMS, sidecars.params
    if sidecars.lit is not None:
        return LIT, sidecars.lit
    return (ORIGIN, plan.source.config) if plan.source.config is not None else ("", None)


def _nothing_to_edit() -> Finding:
    text = "The plan changes fields of a config, and nothing beside this checkpoint is one."
    return Finding("edit-unmatched", "warning", text, fix="Open it with a config.json, or leave the change out.")


def _with_type(config: ModelConfig) -> ModelConfig:
    """Return a config.json with the `model_type` that its class tells, where it states none at its top."""
    family = None if config.raw.get("model_type") else for_class(architecture_of(config.raw))
    if family is None:
        return config
    return replace(read_config({**config.raw, "model_type": family.model_types[0]}), class_tells=True)


_READERS: Mapping[str, Callable[[Mapping[str, Any]], ModelConfig]] = {
    CONFIG: lambda raw: _with_type(read_config(raw)),
    REPORT: lambda raw: read_config(raw, REPORT),
    PARAMS: read_params,
    LIT: lambda raw: read_config(config_of_lit(raw), LIT),
    ORIGIN: lambda raw: read_config(raw, ORIGIN),
}
