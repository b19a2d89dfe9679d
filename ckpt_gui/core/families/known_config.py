"""A published model as a config: what its makers' config.json says, as far as the table tells.

Read in place of a config that is not there, so that a file that was recognised by its sizes is compared, and exported,
like one that has its config beside it.
"""

from __future__ import annotations

from typing import Any

from ckpt_gui.core.families.known_models import Known
from ckpt_gui.core.families.schema import Family
from ckpt_gui.core.model_config import HF_DIMS, ModelConfig, read_config

ORIGIN = "the published model "
# Families whose config.json has nothing that decides on the numbers but what the table holds.
_PLAIN = ("llama", "mistral", "mixtral", "qwen2", "qwen3")
_SCALING = {"low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}


def known_config(model: Known, family: Family) -> ModelConfig:
    """Return what is known of a published model, as its config would tell it.

    Args:
        model: A row of the table.
        family: Its family.
    """
    raw: dict[str, Any] = {"architectures": [family.architecture], "model_type": family.model_types[0]}
    raw |= dict(family.defaults) | dict(model.fields)
    raw |= {fields[0]: model.dims[name] for name, fields in HF_DIMS.items() if name in model.dims}
    raw["tie_word_embeddings"] = model.tied
    optional = {
        "rms_norm_eps": model.eps, "rope_theta": model.theta, "max_position_embeddings": model.positions,
    }  # fmt: skip
    raw |= {name: value for name, value in optional.items() if value is not None}
    if model.factor is not None:
        raw["rope_scaling"] = {"rope_type": "llama3", "factor": model.factor, **_SCALING}
    return read_config(raw, ORIGIN + model.name)


def is_whole(model: Known) -> bool:
    """Return True if a config.json can be made of what is known: no number of the model hangs on anything else."""
    return model.family in _PLAIN and None not in (model.theta, model.eps, model.positions)
