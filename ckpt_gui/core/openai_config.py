"""The config of OpenAI's own GPT-OSS program, whose file has the name of Hugging Face's and fields of its own.

Both files are called config.json; the program refuses fields that it does not know, and transformers would take the
defaults of a larger model for those that it does not find. Sources: OpenAI gpt-oss `gpt_oss/torch/model.py`
(ModelConfig); transformers 4.57 `configuration_gpt_oss.py`, `convert_gpt_oss_weights_to_hf.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# Fields of the same meaning: OpenAI's name, Hugging Face's.
_FIELDS = (
    ("num_hidden_layers", "num_hidden_layers"),
    ("num_experts", "num_local_experts"),
    ("experts_per_token", "num_experts_per_tok"),
    ("vocab_size", "vocab_size"),
    ("hidden_size", "hidden_size"),
    ("intermediate_size", "intermediate_size"),
    ("swiglu_limit", "swiglu_limit"),
    ("head_dim", "head_dim"),
    ("num_attention_heads", "num_attention_heads"),
    ("num_key_value_heads", "num_key_value_heads"),
    ("sliding_window", "sliding_window"),
    ("rope_theta", "rope_theta"),
)
# Fields of the scaling of rotary frequencies, and what OpenAI's program assumes.
_SCALING = (
    ("rope_scaling_factor", "factor", 32.0),
    ("rope_ntk_alpha", "beta_slow", 1.0),
    ("rope_ntk_beta", "beta_fast", 32.0),
    ("initial_context_length", "original_max_position_embeddings", 4096),
)
_ASSUMED = {"experts_per_token": 4, "swiglu_limit": 7.0, "rope_theta": 150000.0, "sliding_window": 128}
_EPS = 1e-5  # of its norms, a constant of the program
_NO_SCALING = 1.0


def is_openai(raw: Mapping[str, Any]) -> bool:
    """Return True for a config in OpenAI's terms."""
    return "model_type" not in raw and "num_experts" in raw and "rope_ntk_alpha" in raw


def to_hugging_face(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Return a config of OpenAI's in Hugging Face's terms."""
    told = {**_ASSUMED, **raw}
    written: dict[str, Any] = {"architectures": ["GptOssForCausalLM"], "model_type": "gpt_oss"}
    written |= {theirs: told[own] for own, theirs in _FIELDS if own in told}
    scaling = {theirs: told.get(own, assumed) for own, theirs, assumed in _SCALING}
    length = scaling["original_max_position_embeddings"]
    scaled = scaling["factor"] != _NO_SCALING
    longest = int(length * scaling["factor"]) if _is_number(length) and _is_number(scaling["factor"]) else None
    return written | {
        "attention_bias": True,
        "max_position_embeddings": longest,
        "rms_norm_eps": _EPS,
        "rope_scaling": {"rope_type": "yarn", **scaling, "truncate": False} if scaled else None,
        "tie_word_embeddings": False,
    }


def to_openai(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a config of Hugging Face's in OpenAI's terms."""
    written = {own: config[theirs] for own, theirs in _FIELDS if config.get(theirs) is not None}
    scaling = config.get("rope_scaling")
    given = scaling if isinstance(scaling, Mapping) else {"factor": _NO_SCALING}
    return written | {own: given.get(theirs, assumed) for own, theirs, assumed in _SCALING}


def _is_number(value: Any) -> bool:
    return type(value) in (int, float)
