"""What `config.json` and `params.json` say about a model, in one vocabulary.

`config.json` is spelled in two ways (transformers 4: `rope_theta`, `rope_scaling`, `torch_dtype`; transformers 5:
`rope_parameters`, `dtype`), and a vision-language model keeps the text model's part under `text_config`. Meta's and
Mistral's `params.json` have names of their own. All of it is read into a `ModelConfig`; the raw dict is kept, so that
an export loses nothing it does not understand. Sources: transformers 4.57 and 5 `configuration_utils.py`, Meta
llama-models `args.py`, torchtune `models/llama3_1`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.openai_config import is_openai, to_hugging_face

# Our name ← names in config.json, in order of preference.
HF_DIMS: dict[str, tuple[str, ...]] = {
    "hidden": ("hidden_size", "n_embd", "d_model"),
    "layers": ("num_hidden_layers", "n_layer", "n_layers"),
    "heads": ("num_attention_heads", "n_head", "n_heads"),
    "kv_heads": ("num_key_value_heads",),
    "head_dim": ("head_dim",),
    "ffn": ("intermediate_size", "n_inner", "ffn_dim"),
    "vocab": ("vocab_size",),
    "positions": ("n_positions",),
    "experts": ("num_local_experts", "num_experts", "n_routed_experts"),
    "moe_ffn": ("moe_intermediate_size",),
    "shared_ffn": ("shared_expert_intermediate_size",),
    "dense_ffn": ("intermediate_size_mlp",),
    "q_rank": ("q_lora_rank",),
    "kv_rank": ("kv_lora_rank",),
    "nope_dim": ("qk_nope_head_dim",),
    "rope_dim": ("qk_rope_head_dim",),
    "v_dim": ("v_head_dim",),
}
# Our name ← names in params.json; Mixtral's first release has those of config.json in it.
_META_DIMS = {
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
_FLAGLESS = ("params.json", "model_config.yaml")  # files that do not say whether the head is the embedding
FLAGS = ("attention_bias", "mlp_bias", "use_bias", "use_qk_norm")  # fields of a config that bring tensors
_LARGEST = 2**53  # the largest number that is believed; NaN and infinity are not
DTYPE_NAMES = {
    "bfloat16": "bf16",
    "float16": "fp16",
    "half": "fp16",
    "float32": "fp32",
    "float": "fp32",
    "float64": "fp64",
}


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """Facts about a model that its tensors alone do not tell.

    Attributes:
        origin: The file they come from: `config.json`, `params.json` or `EXPORT_REPORT.json`.
        raw: The file's content.
        model_type: `model_type` of the text model; None for params.json.
        whole_type: `model_type` of the whole, of which the text model is a part; None where there is nothing more.
        dims: Sizes by our names, as far as given.
        tie: `tie_word_embeddings` where the file says it, by level: `""` for the top, `text_config` below it.
        flags: `attention_bias`, `mlp_bias`.
        norm_eps: Epsilon of the RMS norms.
        rope_theta: Base of the rotary frequencies.
        rope_scaling: In transformers 4's spelling, or None.
        rope_unknown: True if params.json asks for scaled rotary frequencies and nothing tells the factor.
        max_positions: Longest context.
        dtype: Short name of the element type it states, or None.
    """

    origin: str
    raw: Mapping[str, Any]
    model_type: str | None = None
    whole_type: str | None = None
    dims: Mapping[str, int] = field(default_factory=dict)
    tie: Mapping[str, bool] = field(default_factory=dict)
    flags: Mapping[str, bool] = field(default_factory=dict)
    norm_eps: float | None = None
    rope_theta: float | None = None
    rope_scaling: Mapping[str, Any] | None = None
    rope_unknown: bool = False
    max_positions: int | None = None
    dtype: str | None = None

    @property
    def is_hf(self) -> bool:
        """True if the facts are in Hugging Face's terms."""
        return self.origin != "params.json"

    def tie_flag(self, default: bool) -> tuple[bool | None, str]:
        """Return the flag as it takes effect, and where it stands in words.

        The text model's own level decides for its head; the top level next; then the class default. params.json and
        litgpt's config have no such flag: then None.
        """
        if self.origin in _FLAGLESS:
            return None, ""
        for level in ("text_config", ""):
            if level in self.tie:
                where = f"{level}.tie_word_embeddings" if level else "tie_word_embeddings"
                return self.tie[level], f"{where} in {self.origin}"
        return default, f"the default of {self.model_type or 'this model type'}, as {self.origin} does not say"


def read_config(raw: Mapping[str, Any], origin: str = "config.json") -> ModelConfig:
    """Read a Hugging Face config, in the spelling of transformers 4 or 5.

    Raises:
        CheckpointError: A size is not a whole number.
    """
    raw = to_hugging_face(raw) if is_openai(raw) else raw
    text = raw.get("text_config")
    text = text if isinstance(text, Mapping) else {}
    merged = {**raw, **text}
    rope = merged.get("rope_parameters")
    rope = rope if isinstance(rope, Mapping) else {}
    dims = _dims(merged, HF_DIMS, origin)
    if "heads" in dims:
        dims.setdefault("kv_heads", dims["heads"])
        if "hidden" in dims:
            dims.setdefault("head_dim", dims["hidden"] // max(dims["heads"], 1))
    levels = (("", raw), ("text_config", text))
    return ModelConfig(
        origin=origin,
        raw=raw,
        model_type=str(text.get("model_type") or raw.get("model_type") or "") or None,
        whole_type=str(raw.get("model_type") or "") or None if text else None,
        dims=dims,
        tie={
            name: level["tie_word_embeddings"] for name, level in levels if _is_bool(level.get("tie_word_embeddings"))
        },
        flags={name: bool(merged[name]) for name in FLAGS if name in merged},
        norm_eps=_number(merged.get("rms_norm_eps")),
        rope_theta=_number(merged.get("rope_theta", rope.get("rope_theta"))),
        rope_scaling=_rope_scaling(merged, rope),
        max_positions=_whole(merged.get("max_position_embeddings")),
        dtype=DTYPE_NAMES.get(str(merged.get("dtype") or merged.get("torch_dtype")).removeprefix("torch.")),
    )


def read_params(raw: Mapping[str, Any]) -> ModelConfig:
    """Read Meta's or Mistral's params.json (a `model` level above it is taken off).

    Raises:
        CheckpointError: A size is not a whole number.
    """
    flat = flat_params(raw)
    dims = _dims(flat, _META_DIMS, "params.json")
    if "heads" in dims:
        dims.setdefault("kv_heads", dims["heads"])
        if "hidden" in dims:
            dims.setdefault("head_dim", dims["hidden"] // max(dims["heads"], 1))
            dims.setdefault("ffn", meta_ffn(dims["hidden"], flat.get("multiple_of"), flat.get("ffn_dim_multiplier")))
    moe = flat.get("moe")
    if isinstance(moe, Mapping) and (experts := _whole(moe.get("num_experts"))):
        dims["experts"] = experts
    scaling, unknown = _meta_scaling(flat, dims)
    dims |= _llama4_dims(flat, dims)
    if crossing := crossing_layers(flat):  # Meta counts the others alone
        dims |= {"crossing": crossing, "layers": dims.get("layers", 0) + crossing}
    return ModelConfig(
        origin="params.json",
        raw=raw,
        dims={name: value for name, value in dims.items() if value > 0},
        norm_eps=_number(flat.get("norm_eps", flat.get("rms_norm_eps"))),
        rope_theta=_number(flat.get("rope_theta")),
        rope_scaling=scaling,
        rope_unknown=unknown,
        max_positions=_whole(flat.get("max_seq_len"))
        or _whole(flat.get("max_position_embeddings"))
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
    step = _whole(multiple_of)
    if not step or step < 1:
        return 0
    width = int(2 * 4 * hidden / 3)
    factor = _number(multiplier)
    if factor is not None:
        width = int(factor * width)
    return step * math.ceil(width / step)


def crossing_layers(flat: Mapping[str, Any]) -> int:
    """Return how many layers look at an image by a params.json of Llama 3.2 Vision; 0 if it says nothing of them."""
    return max(_whole(flat.get("vision_num_cross_attention_layers")) or 0, 0)


def expert_ffn(hidden: int, flat: Mapping[str, Any]) -> int:
    """Return the width of an expert by Llama 4's formula; 0 where a field of it is lacking.

    >>> args = {"num_experts": 16, "capacity_factor": 1.0, "auto_scale_F": True}
    >>> expert_ffn(5120, {"ffn_exp": 4.0, "ffn_dim_multiplier": 1.2, "multiple_of": 2048, "moe_args": args})
    8192
    """
    args, step = flat.get("moe_args"), _whole(flat.get("multiple_of"))
    numbers = _number(flat.get("ffn_exp")), _number(flat.get("ffn_dim_multiplier"))
    if not isinstance(args, Mapping) or not step or step < 1 or None in numbers:
        return 0
    exp, factor = (number or 0.0 for number in numbers)
    width = int(factor * int(2 * int(exp * hidden) / 3))
    if args.get("auto_scale_F", True):
        width = int(width / ((_number(args.get("capacity_factor")) or 1.0) + 1))
    return step * math.ceil(width / step)


def _llama4_dims(flat: Mapping[str, Any], dims: Mapping[str, int]) -> dict[str, int]:
    """Return the sizes of a mixture of experts as Llama 4 states them; the other width is that of its dense layers."""
    args = flat.get("moe_args")
    width = expert_ffn(dims.get("hidden", 0), flat)
    if not isinstance(args, Mapping) or not width:
        return {}
    return {"ffn": width, "dense_ffn": dims.get("ffn", 0), "experts": _whole(args.get("num_experts")) or 0}


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
    factor = _number(flat.get("rope_scaling_factor")) or known
    if factor is None:
        return None, True
    return {
        "rope_type": "llama3",
        "factor": factor,
        "low_freq_factor": _number(flat.get("rope_low_freq_factor")) or 1.0,
        "high_freq_factor": _number(flat.get("rope_high_freq_factor")) or high,
        "original_max_position_embeddings": _whole(flat.get("original_max_position_embeddings")) or 8192,
    }, False


def _rope_scaling(merged: Mapping[str, Any], rope: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the scaling in transformers 4's spelling."""
    old = merged.get("rope_scaling")
    if isinstance(old, Mapping) and old:
        return {**old, "rope_type": old["type"]} if "type" in old and "rope_type" not in old else dict(old)
    if rope.get("rope_type", "default") == "default":
        return None
    return {name: value for name, value in rope.items() if name != "rope_theta"}


def _dims(raw: Mapping[str, Any], names: Mapping[str, tuple[str, ...]], origin: str) -> dict[str, int]:
    found = {}
    for name, keys in names.items():
        value = next((raw[k] for k in keys if raw.get(k) is not None), None)
        if value is None:
            continue
        if _whole(value) is None:
            what = "is not a whole number" if type(value) is not int else "no model has"
            raise CheckpointError(
                "config-mismatch",
                f"{origin} says {keys[0]} = {repr(value)[:60]}, which {what}.",
                fix=f"Correct {origin}, or name another with --config.",
            )
        found[name] = value
    return found


def _is_bool(value: Any) -> bool:
    return type(value) is bool


def _whole(value: Any) -> int | None:
    return value if type(value) is int and abs(value) <= _LARGEST else None


def _number(value: Any) -> float | None:
    return float(value) if type(value) in (int, float) and abs(value) <= _LARGEST else None
