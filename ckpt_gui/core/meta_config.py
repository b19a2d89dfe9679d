"""What Meta's and Mistral's `params.json` say about a model, read into the vocabulary of `model_config`.

Such a file leaves much to the program: widths follow from formulas, scaled rotary frequencies have their factor in the
code. Sources: Meta llama-models `args.py`; torchtune `models/llama3_1`, `models/llama3_2`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ckpt_gui.core.model_config import ModelConfig, number, read_dims, whole

# Our name ← names in params.json; Mixtral's first release has those of config.json in it.
META_DIMS = {
    "hidden": ("dim", "hidden_size"),
    "layers": ("n_layers", "num_hidden_layers"),
    "heads": ("n_heads", "num_attention_heads"),
    "kv_heads": ("n_kv_heads", "num_key_value_heads"),
    "head_dim": ("head_dim",),
    "ffn": ("hidden_dim", "intermediate_size"),
    "vocab": ("vocab_size",),
    "experts": ("num_local_experts",),
}
# Hidden size and layers of the Llama 3.2 text models, whose rotary factor is 32 and not 8 (torchtune llama3_2 builder).
_FACTOR_32 = {(2048, 16), (3072, 28)}
# Sizes of Llama 3.1 and 3.3, whose factor is 8 (torchtune llama3_1 builder).
_FACTOR_8 = {(4096, 32), (8192, 80), (16384, 126)}


def read_params(raw: Mapping[str, Any]) -> ModelConfig:
    """Read Meta's or Mistral's params.json (a `model` level above it is taken off).

    Raises:
        CheckpointError: A size is not a whole number.
    """
    flat = flat_params(raw)
    dims = read_dims(flat, META_DIMS, "params.json")
    if "heads" in dims:
        dims.setdefault("kv_heads", dims["heads"])
        if "hidden" in dims:
            dims.setdefault("head_dim", dims["hidden"] // max(dims["heads"], 1))
            dims.setdefault("ffn", meta_ffn(dims["hidden"], flat.get("multiple_of"), flat.get("ffn_dim_multiplier")))
    moe = flat.get("moe")
    if isinstance(moe, Mapping) and (experts := whole(moe.get("num_experts"))):
        dims["experts"] = experts
    scaling, unknown = _meta_scaling(flat, dims)
    dims |= _llama4_dims(flat, dims)
    if crossing := crossing_layers(flat):  # Meta counts the others alone
        dims |= {"crossing": crossing, "layers": dims.get("layers", 0) + crossing}
    return ModelConfig(
        origin="params.json",
        raw=raw,
        dims={name: value for name, value in dims.items() if value > 0},
        norm_eps=number(flat.get("norm_eps", flat.get("rms_norm_eps"))),
        rope_theta=number(flat.get("rope_theta")),
        rope_scaling=scaling,
        rope_unknown=unknown,
        max_positions=whole(flat.get("max_seq_len"))
        or whole(flat.get("max_position_embeddings"))
        or (131072 if scaling else None),
    )


def flat_params(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the fields of a params.json: some have them under `model`."""
    inner = raw.get("model")
    return inner if isinstance(inner, Mapping) else raw


def meta_ffn(hidden: int, multiple_of: Any, multiplier: Any) -> int:
    """Return the width of the feed-forward part by Meta's formula; 0 without `multiple_of`.

    >>> meta_ffn(4096, 256, None), meta_ffn(4096, 1024, 1.3), meta_ffn(2048, 256, 1.5)
    (11008, 14336, 8192)
    """
    step = whole(multiple_of)
    if not step or step < 1:
        return 0
    width = int(2 * 4 * hidden / 3)
    factor = number(multiplier)
    if factor is not None:
        width = int(factor * width)
    return step * math.ceil(width / step)


def crossing_layers(flat: Mapping[str, Any]) -> int:
    """Return how many layers look at an image by a params.json of Llama 3.2 Vision; 0 if it says nothing of them."""
    return max(whole(flat.get("vision_num_cross_attention_layers")) or 0, 0)


def expert_ffn(hidden: int, flat: Mapping[str, Any]) -> int:
    """Return the width of an expert by Llama 4's formula; 0 where a field of it is lacking.

    >>> args = {"num_experts": 16, "capacity_factor": 1.0, "auto_scale_F": True}
    >>> expert_ffn(5120, {"ffn_exp": 4.0, "ffn_dim_multiplier": 1.2, "multiple_of": 2048, "moe_args": args})
    8192
    """
    args, step = flat.get("moe_args"), whole(flat.get("multiple_of"))
    numbers = number(flat.get("ffn_exp")), number(flat.get("ffn_dim_multiplier"))
    if not isinstance(args, Mapping) or not step or step < 1 or None in numbers:
        return 0
    exp, factor = (n or 0.0 for n in numbers)
    width = int(factor * int(2 * int(exp * hidden) / 3))
    if args.get("auto_scale_F", True):
        width = int(width / ((number(args.get("capacity_factor")) or 1.0) + 1))
    return step * math.ceil(width / step)


def _llama4_dims(flat: Mapping[str, Any], dims: Mapping[str, int]) -> dict[str, int]:
    """Return the sizes of a mixture of experts as Llama 4 states them; the other width is that of its dense layers."""
    args = flat.get("moe_args")
    width = expert_ffn(dims.get("hidden", 0), flat)
    if not isinstance(args, Mapping) or not width:
        return {}
    return {"ffn": width, "dense_ffn": dims.get("ffn", 0), "experts": whole(args.get("num_experts")) or 0}


def _meta_scaling(flat: Mapping[str, Any], dims: Mapping[str, int]) -> tuple[dict[str, Any] | None, bool]:
    """Return the rope scaling that `use_scaled_rope` means, and whether its factor is unknown."""
    if isinstance(flat.get("rope_scaling"), Mapping):  # written by us: a kind that Meta's programs do not have
        return dict(flat["rope_scaling"]), False
    if not flat.get("use_scaled_rope"):
        return None, False
    size = (dims.get("hidden", 0), dims.get("layers", 0))
    known = 32.0 if size in _FACTOR_32 else 8.0 if size in _FACTOR_8 else None
    high = 4.0
    if isinstance(flat.get("moe_args"), Mapping):  # Llama 4 Scout, whose file leaves both numbers to the program
        known, high = 16.0, 1.0
    factor = number(flat.get("rope_scaling_factor")) or known
    if factor is None:
        return None, True
    return {
        "rope_type": "llama3",
        "factor": factor,
        "low_freq_factor": number(flat.get("rope_low_freq_factor")) or 1.0,
        "high_freq_factor": number(flat.get("rope_high_freq_factor")) or high,
        "original_max_position_embeddings": whole(flat.get("original_max_position_embeddings")) or 8192,
    }, False
