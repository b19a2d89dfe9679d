"""What `config.json` says about a model, in the one vocabulary that all configs are read into.

`config.json` is spelled in two ways (transformers 4: `rope_theta`, `rope_scaling`, `torch_dtype`; transformers 5:
`rope_parameters`, `dtype`), and a vision-language model keeps the text model's part under `text_config`. All of it is
read into a `ModelConfig`, as are other programs' files (see `meta_config`); the raw dict is kept, so that an export
loses nothing it does not understand. Source: transformers 4.57 and 5 `configuration_utils.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.openai_config import is_openai, to_hugging_face
from ckpt_gui.dataclasses import dataclass, field

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
        class_tells: True if the file states no `model_type`, and its class told the one that `raw` has.
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
    class_tells: bool = False
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
    dims = read_dims(merged, HF_DIMS, origin)
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
        norm_eps=number(merged.get("rms_norm_eps")),
        rope_theta=number(merged.get("rope_theta", rope.get("rope_theta"))),
        rope_scaling=_rope_scaling(merged, rope),
        max_positions=whole(merged.get("max_position_embeddings")),
        dtype=DTYPE_NAMES.get(str(merged.get("dtype") or merged.get("torch_dtype")).removeprefix("torch.")),
    )


def _rope_scaling(merged: Mapping[str, Any], rope: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the scaling in transformers 4's spelling."""
    old = merged.get("rope_scaling")
    if isinstance(old, Mapping) and old:
        return {**old, "rope_type": old["type"]} if "type" in old and "rope_type" not in old else dict(old)
    if rope.get("rope_type", "default") == "default":
        return None
    return {name: value for name, value in rope.items() if name != "rope_theta"}


def read_dims(raw: Mapping[str, Any], names: Mapping[str, tuple[str, ...]], origin: str) -> dict[str, int]:
    """Return the sizes that a config states, by our names.

    Args:
        raw: The config's fields.
        names: Our name → the config's names, in order of preference.
        origin: What to call the file in messages.

    Raises:
        CheckpointError: A size is not a whole number.
    """
    found = {}
    for name, keys in names.items():
        value = next((raw[k] for k in keys if raw.get(k) is not None), None)
        if value is None:
            continue
        if whole(value) is None:
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


def whole(value: Any) -> int | None:
    """Return a whole number that can be believed, or None for anything else."""
    return value if type(value) is int and abs(value) <= _LARGEST else None


def number(value: Any) -> float | None:
    """Return a number that can be believed, or None for anything else, NaN and infinity among it."""
    return float(value) if type(value) in (int, float) and abs(value) <= _LARGEST else None
