"""litgpt's `model_config.yaml`: made of a config.json, and read as one.

litgpt's `Config` says with fields of its own what the classes of transformers know by themselves (which norms there
are, whether the embedding is scaled); by the beginning of the name it chooses norms and converters. Source: litgpt
0.5.11 `config.py`, `model.py`, `scripts/convert_hf_checkpoint.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ckpt_gui.core.errors import Finding
from ckpt_gui.core.families.schema import Family
from ckpt_gui.core.model_config import ModelConfig
from ckpt_gui.dataclasses import dataclass, field

NAME = "model_config.yaml"


@dataclass(frozen=True, slots=True)
class _Kind:
    """How litgpt has a family.

    Attributes:
        name: With which a model's name begins.
        model_type: That of transformers.
        fields: Fields of litgpt's config that are the family's own.
        eps: Name of the epsilon of the norms in config.json.
        sliding: How the layers that see only near tokens are spread where config.json does not list them: one in so
            many sees all; 0 where all layers, or none, are of that kind.
    """

    name: str
    model_type: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    eps: str = "rms_norm_eps"
    sliding: int = 0


_GEMMA = {"mlp_class_name": "GemmaMLP", "scale_embeddings": True, "gelu_approximate": "tanh"}
_FOUR_NORMS = {"post_attention_norm": True, "post_mlp_norm": True}
_NEOX = {
    "mlp_class_name": "GptNeoxMLP", "norm_class_name": "LayerNorm", "bias": True, "parallel_residual": True,
}  # fmt: skip
_GEMMA3 = _Kind("Gemma-3", "gemma3_text", {**_GEMMA, **_FOUR_NORMS, "norm_qk": True}, sliding=6)
# By our name of the family; the longer beginning of a name first.
_KINDS: Mapping[str, _Kind] = {
    "gemma3": _GEMMA3,
    "gemma3_vision": _GEMMA3,  # of which litgpt has the text model
    "gemma2": _Kind("Gemma-2", "gemma2", {**_GEMMA, **_FOUR_NORMS}, sliding=2),
    "gemma": _Kind("Gemma", "gemma", _GEMMA),
    "qwen3-moe": _Kind("Qwen3", "qwen3_moe", {"norm_qk": True, "mlp_class_name": "LLaMAMoE"}),
    "qwen3": _Kind("Qwen3", "qwen3", {"norm_qk": True}),
    "qwen2": _Kind("Qwen2.5", "qwen2", {"attn_bias": True}),
    "mixtral": _Kind("Mixtral", "mixtral", {"mlp_class_name": "LLaMAMoE"}),
    "mistral": _Kind("Mistral", "mistral"),
    "olmo2": _Kind(
        "OLMo-2", "olmo2", {**_FOUR_NORMS, "norm_qk": True, "norm_qk_type": "olmo2", "norm_1": False, "norm_2": False}
    ),
    "phi3": _Kind("Phi-3", "phi3"),
    "phi": _Kind(
        "phi",
        "phi",
        {**_NEOX, "shared_attention_norm": True, "lm_head_bias": True, "gelu_approximate": "tanh"},
        "layer_norm_eps",
    ),
    "gpt-neox": _Kind("pythia", "gpt_neox", _NEOX, "layer_norm_eps"),
    "llama": _Kind("Llama", "llama"),
}
# Beginnings of names that litgpt gives models of these families, too.
_ALSO = {
    "qwen2": "qwen2", "qwq": "qwen2", "mathstral": "mistral", "phi-4": "phi3", "gpt-neox": "gpt-neox",
    "codellama": "llama", "tiny-llama": "llama", "smollm2": "llama", "r1-distill-llama": "llama",
}  # fmt: skip
_USUAL = {
    "norm_class_name": "RMSNorm", "mlp_class_name": "LLaMAMLP", "bias": False, "parallel_residual": False,
    "rotary_percentage": 1.0,
}  # fmt: skip
# Field of litgpt's ← field of config.json, where they mean the same.
_SAME = {
    "attention_scores_scalar": "query_pre_attn_scalar",
    "attention_logit_softcapping": "attn_logit_softcapping",
    "final_logit_softcapping": "final_logit_softcapping",
    "rope_local_base_freq": "rope_local_base_freq",
    "n_expert_per_token": "num_experts_per_tok",
    "moe_intermediate_size": "moe_intermediate_size",
}
_SIZES = {
    "n_layer": "num_hidden_layers", "n_embd": "hidden_size", "n_head": "num_attention_heads",
    "n_query_groups": "num_key_value_heads", "head_size": "head_dim", "intermediate_size": "intermediate_size",
    "block_size": "max_position_embeddings",
}  # fmt: skip


def lit_config(
    family: Family, config: ModelConfig, made: Mapping[str, Any], dims: Mapping[str, int]
) -> dict[str, Any] | None:
    """Return litgpt's config of a model; None where litgpt can not build it.

    Args:
        family: The architecture.
        config: What the source says.
        made: The config.json that is written.
        dims: True sizes.
    """
    kind = _KINDS.get(family.name)
    inner = made.get("text_config")
    made = {**made, **inner} if isinstance(inner, Mapping) else made
    scaling = _adjustments(config)
    if kind is None or scaling is None or not {"heads", "kv_heads", "hidden", "layers", "ffn", "vocab"} <= dims.keys():
        return None
    fields: dict[str, Any] = {
        "name": kind.name, "block_size": config.max_positions or made.get("max_position_embeddings") or 4096,
        "n_layer": dims["layers"], "n_embd": dims["hidden"], "n_head": dims["heads"],
        "n_query_groups": dims["kv_heads"], "head_size": dims.get("head_dim") or dims["hidden"] // dims["heads"],
        "vocab_size": dims["vocab"], "padded_vocab_size": dims["vocab"], "intermediate_size": dims["ffn"],
        **_USUAL, **kind.fields,
        "norm_eps": made.get(kind.eps, 1e-5), "rope_base": _whole(config.rope_theta or _theta(made)),
    }  # fmt: skip
    fields |= {name: made[other] for name, other in _SAME.items() if made.get(other) is not None}
    if "experts" in dims:
        fields["n_expert"] = dims["experts"]
    if scaling:
        fields["rope_adjustments"] = scaling
    if "GptNeoxMLP" in fields.values():
        fields["rotary_percentage"] = made.get("partial_rotary_factor", made.get("rotary_pct", 0.25))
        fields["parallel_residual"] = made.get("use_parallel_residual", True)
    if family.name == "llama" and made.get("attention_bias"):
        fields |= {"attn_bias": True, "bias": bool(made.get("mlp_bias"))}
    return fields | _windows(kind, made, dims["layers"])


def _theta(made: Mapping[str, Any]) -> float:
    rope = made.get("rope_parameters")
    nested = rope.get("rope_theta") if isinstance(rope, Mapping) else None
    return float(made.get("rope_theta") or made.get("rotary_emb_base") or nested or 10000)


def _whole(value: float) -> int | float:
    return int(value) if value == int(value) else value


def _adjustments(config: ModelConfig) -> dict[str, Any] | None:
    """Return litgpt's `rope_adjustments`; empty without scaling, None where it does not know the kind."""
    scaling = config.rope_scaling or {}
    kind = scaling.get("rope_type", scaling.get("type", "default"))
    if kind == "default":
        return {}
    if kind == "linear" and "factor" in scaling:
        return {"factor": scaling["factor"]}
    if kind != "llama3" or "factor" not in scaling:
        return None
    return {
        "factor": scaling["factor"],
        "low_freq_factor": scaling.get("low_freq_factor", 1.0),
        "high_freq_factor": scaling.get("high_freq_factor", 4.0),
        "original_max_seq_len": scaling.get("original_max_position_embeddings", 8192),
    }


def _windows(kind: _Kind, made: Mapping[str, Any], layers: int) -> dict[str, Any]:
    """Return the fields of layers that see near tokens only."""
    size, listed = made.get("sliding_window"), made.get("layer_types")
    if size is None or made.get("use_sliding_window") is False:
        return {}
    near = [int((n + 1) % kind.sliding != 0) if kind.sliding else 1 for n in range(layers)]
    if isinstance(listed, list) and len(listed) == layers:
        near = [int(name == "sliding_attention") for name in listed]
    local = {"rope_indices": near} if made.get("rope_local_base_freq") is not None else {}
    return {"sliding_window_size": size, "sliding_window_indices": near, **local}


def no_lit_config(config: ModelConfig) -> Finding | None:
    """Say that litgpt has no such rotary scaling, and gets no config."""
    if _adjustments(config) is not None:
        return None
    kind = (config.rope_scaling or {}).get("rope_type")
    text = f"litgpt knows no rotary scaling of the kind {kind}: it gets no {NAME}, and would compute other logits."
    return Finding("config-mismatch", "warning", text, fix="config.json keeps it for the way back.")


def config_of_lit(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Return what litgpt's config says, as a config.json; it does not say whether the head is the embedding."""
    made: dict[str, Any] = {name: raw[lit] for lit, name in _SIZES.items() if raw.get(lit) is not None}
    made["vocab_size"] = raw.get("padded_vocab_size") or _padded(raw)
    made |= {name: raw[lit] for lit, name in _SAME.items() if raw.get(lit)}
    kind = _kind_of(raw)
    if kind is not None:
        made["model_type"] = kind.model_type
        if raw.get("norm_eps") is not None:
            made[kind.eps] = raw["norm_eps"]
    if raw.get("n_expert"):
        made["num_local_experts" if kind and kind.model_type == "mixtral" else "num_experts"] = raw["n_expert"]
    if raw.get("rope_base") is not None:
        made["rope_theta"] = float(raw["rope_base"]) if isinstance(raw["rope_base"], int) else raw["rope_base"]
    if raw.get("rotary_percentage") not in (None, 1.0, 1):
        made["partial_rotary_factor"] = made["rotary_pct"] = raw["rotary_percentage"]
    if kind is not None and kind.model_type == "gpt_neox":
        made["use_parallel_residual"] = raw.get("parallel_residual", True)
    if kind is not None and kind.model_type == "llama":
        made |= {"attention_bias": bool(raw.get("attn_bias")), "mlp_bias": bool(raw.get("bias"))}
    return made | _scaling(raw) | _near(raw)


def _padded(raw: Mapping[str, Any]) -> Any:
    """Return the rows that litgpt stores: the vocabulary, filled up to a multiple."""
    rows, step = raw.get("vocab_size"), raw.get("padding_multiple", 512)
    return -(-rows // step) * step if type(rows) is int and type(step) is int and step > 0 else rows


def _kind_of(raw: Mapping[str, Any]) -> _Kind | None:
    name = str(raw.get("name") or "").lower()
    experts = bool(raw.get("n_expert"))
    for begin, family in (*_ALSO.items(), *((kind.name.lower(), family) for family, kind in _KINDS.items())):
        kind = _KINDS[family]
        whole = name.startswith(begin) and not name[len(begin) : len(begin) + 1].isalnum()
        if whole and experts == (kind.fields.get("mlp_class_name") == "LLaMAMoE"):
            return kind
    return None


def _scaling(raw: Mapping[str, Any]) -> dict[str, Any]:
    given = raw.get("rope_adjustments")
    if not isinstance(given, Mapping) or "factor" not in given:
        return {}
    if "original_max_seq_len" not in given:
        return {"rope_scaling": {"rope_type": "linear", "factor": given["factor"]}}
    names = ("factor", "low_freq_factor", "high_freq_factor")
    scaling = {"rope_type": "llama3", **{name: given[name] for name in names if name in given}}
    return {"rope_scaling": {**scaling, "original_max_position_embeddings": given["original_max_seq_len"]}}


def _near(raw: Mapping[str, Any]) -> dict[str, Any]:
    size, near = raw.get("sliding_window_size"), raw.get("sliding_window_indices")
    if size is None:
        return {}
    kinds = ["sliding_attention" if one else "full_attention" for one in near] if isinstance(near, list) else []
    return {"sliding_window": size} | ({"layer_types": kinds} if kinds and not all(near or ()) else {})
