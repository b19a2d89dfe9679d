"""Read what the files beside the weights say of the model, whoever wrote them.

A config.json without `model_type` (cut by hand, or written by a trainer of its own) still names its class: that tells
the family as well, and what is written then states the type, without which transformers loads nothing.
"""

from __future__ import annotations

from ckpt_gui.core.errors import CheckpointError, Finding, Severity
from ckpt_gui.core.families.registry import for_class
from ckpt_gui.core.families.tasks import architecture_of
from ckpt_gui.core.fields import with_fields
from ckpt_gui.core.litgpt_config import NAME as LIT
from ckpt_gui.core.litgpt_config import config_of_lit
from ckpt_gui.core.meta_config import read_params
from ckpt_gui.core.model_config import ModelConfig, read_config
from ckpt_gui.core.openai_config import is_openai
from ckpt_gui.core.passes.gguf import ORIGIN
from ckpt_gui.core.plan import Plan
from ckpt_gui.dataclasses import replace


def load_config(plan: Plan) -> tuple[ModelConfig | None, tuple[Finding, ...]]:
    """Return what the files beside the weights say: config.json, else an earlier export's report, else others'."""
    sidecars, edits = plan.source.sidecars, plan.policy.config
    try:
        own = sidecars.config is not None and is_openai(sidecars.config)  # says less than what it was written from
        if sidecars.config is not None and not (own and sidecars.origin is not None):
            return _with_type(read_config(with_fields(sidecars.config, edits))), ()
        if sidecars.origin is not None:
            origin = "EXPORT_REPORT.json"
            return read_config(with_fields(sidecars.origin, edits, origin), origin), ()
        if sidecars.params is not None:
            return read_params(with_fields(sidecars.params, edits, "params.json")), ()
        if sidecars.lit is not None:
            return read_config(with_fields(config_of_lit(sidecars.lit), edits, LIT), LIT), ()
        if plan.source.config is not None:
            return read_config(with_fields(plan.source.config, edits, ORIGIN), ORIGIN), ()
        if edits:
            return _with_type(read_config(with_fields({}, edits), "your edits")), ()
    except CheckpointError as error:
        severity: Severity = "error" if error.code == "bad-edit" else "warning"
        code = error.code if severity == "error" else "config-mismatch"
        return None, (Finding(code, severity, error.message, fix=error.fix, blocking=severity == "error"),)
    return None, ()


def _with_type(config: ModelConfig) -> ModelConfig:
    """Return a config.json with the `model_type` that its class tells, where it states none at its top."""
    family = None if config.raw.get("model_type") else for_class(architecture_of(config.raw))
    if family is None:
        return config
    return replace(read_config({**config.raw, "model_type": family.model_types[0]}), class_tells=True)
