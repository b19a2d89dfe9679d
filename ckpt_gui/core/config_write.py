"""Write `config.json` and `params.json` so that every reader of them builds the same model.

`config.json` is written in transformers 4's spelling, which transformers 5 reads as well; the other way round,
version 4 silently takes a rotary base of 10,000. Every field that is not understood is kept. A Llama's `params.json`
gets `multiple_of` and `ffn_dim_multiplier` that give the width by Meta's formula, and no field that Meta's programs
refuse unless it is needed; a Mistral's gets `hidden_dim` and `head_dim`, which mistral-inference wants. Sources:
transformers 4.57 and 5.24 `configuration_llama.py`; Meta llama3 `model.py`, `generation.py`; mistral-inference
`args.py`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ckpt_gui.core.dtypes import BY_NAME
from ckpt_gui.core.families.registry import for_model_type
from ckpt_gui.core.families.schema import Family
from ckpt_gui.core.meta_config import flat_params, meta_ffn
from ckpt_gui.core.model_config import HF_DIMS, ModelConfig
from ckpt_gui.core.vision_config import is_whole, vision_params, whole_config

_MISTRALS = ("mistral", "mixtral")  # families whose params.json is mistral-inference's
# Llama 1 and 2 as Meta released them have no rope_theta, no length; transformers assumes these.
_ROPE_THETA, _MAX_POSITIONS = 10000.0, 4096
# Llama 3: its rotary base (with a context of 8192) and its vocabulary (with its begin and end of text).
_LLAMA3_THETA, _LLAMA3_VOCAB = 500000.0, 128256


def hf_config(
    family: Family, config: ModelConfig, dims: Mapping[str, int], *, dtype: str, tied: bool, biases: frozenset[str]
) -> dict[str, Any]:
    """Return a config.json for Hugging Face.

    Args:
        family: The architecture.
        config: What the source says.
        dims: True sizes, as the tensors have them.
        dtype: Short name of the element type of most tensors.
        tied: Whether the head is the embedding.
        biases: Config flags of biases that are stored (`attention_bias`, `mlp_bias`).
    """
    written = _own_part(family, config.raw) if config.is_hf else _fresh(family, config, dims)
    inner = written.get("text_config")
    true = dict.fromkeys(biases, True)  # a bias that the config denies would be left out without a word
    if isinstance(inner, Mapping):
        fields = _text_fields(dict(inner) | true, family, dims, dtype, tied)
        return _tied_at_top(written | {"text_config": _old_kind(family, fields)}, dtype, tied)
    return _old_kind(family, _text_fields(written | true, family, dims, dtype, tied))


def _own_part(family: Family, raw: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a config that is the family's: the text model's, where only that of a whole is there."""
    inner, whole = raw.get("text_config"), for_model_type(str(raw.get("model_type")))
    if isinstance(inner, Mapping) and whole not in (None, family) and inner.get("model_type") in family.model_types:
        return {**inner, "architectures": [family.architecture]}
    return dict(raw)


def _fresh(family: Family, config: ModelConfig, dims: Mapping[str, int]) -> dict[str, Any]:
    """Return a new config for a source that has none in Hugging Face's terms: every size, every fact of params.json."""
    written = {"architectures": [family.architecture], "model_type": family.model_types[0], **dict(family.defaults)}
    written |= {fields[0]: dims[name] for name, fields in HF_DIMS.items() if name in dims}
    if isinstance(moe := flat_params(config.raw).get("moe"), Mapping) and "num_experts_per_tok" in moe:
        written["num_experts_per_tok"] = moe["num_experts_per_tok"]
    if family.name in _MISTRALS:  # transformers takes an absent window for one of 4,096
        written["sliding_window"] = flat_params(config.raw).get("sliding_window")
    long = config.rope_theta is not None and config.rope_theta >= _LLAMA3_THETA
    written["max_position_embeddings"] = config.max_positions or (8192 if long else _MAX_POSITIONS)
    if dims.get("vocab") == _LLAMA3_VOCAB:
        written |= {"bos_token_id": 128000, "eos_token_id": 128001}
    if config.norm_eps is not None:
        written["rms_norm_eps"] = config.norm_eps
    written["rope_theta"] = config.rope_theta if config.rope_theta is not None else _ROPE_THETA
    written["rope_scaling"] = dict(config.rope_scaling) if config.rope_scaling else None
    return whole_config(family, config, dims, written) if is_whole(family) else written


def _text_fields(
    written: dict[str, Any], family: Family, dims: Mapping[str, int], dtype: str, tied: bool
) -> dict[str, Any]:
    for name, fields in HF_DIMS.items():
        there = next((f for f in fields if written.get(f) is not None), None)
        if there and name in dims:
            written[there] = dims[name]
    written |= _implied(written, family, dims)
    written |= _old_rope(written)
    written |= {old: written.pop(new) for new, old in family.spelling if written.get(new) is not None}
    written.pop("dtype", None)
    return written | {"torch_dtype": torch_name(dtype), "tie_word_embeddings": tied}


def _implied(written: Mapping[str, Any], family: Family, dims: Mapping[str, int]) -> dict[str, int]:
    """Return sizes that the config leaves to a default which does not fit the tensors."""
    heads, hidden = dims.get("heads", 0), dims.get("hidden", 0)
    found = {}
    sized = any("head_dim" in symbol for slot in family.slots for symbol in slot.shape)
    if sized and heads and dims.get("head_dim", 0) * heads != hidden and "hidden_size" in written:
        found["head_dim"] = dims["head_dim"]
    if heads and dims.get("kv_heads", heads) != heads and "num_attention_heads" in written:
        found["num_key_value_heads"] = dims["kv_heads"]
    return found


def _old_rope(written: dict[str, Any]) -> dict[str, Any]:
    """Take transformers 5's `rope_parameters` out of a config, and return the same in version 4's spelling.

    Where layers of several kinds have bases of their own (Gemma 3), the new spelling stays beside the old one.
    """
    rope = written.get("rope_parameters")
    if not isinstance(rope, Mapping):
        return {}
    kinds = {name: kind for name, kind in rope.items() if isinstance(kind, Mapping)}
    if not kinds:
        del written["rope_parameters"]
        return _flat_rope(rope)
    found = _flat_rope(kinds.get("full_attention", {}))
    local = kinds.get("sliding_attention", {}).get("rope_theta")
    return found | ({"rope_local_base_freq": local} if local is not None else {})


def _flat_rope(rope: Mapping[str, Any]) -> dict[str, Any]:
    apart = {"rope_theta", "partial_rotary_factor"}
    if rope.get("rope_type") == "longrope" and not {"factor", "attention_factor"} & rope.keys():
        # Phi 3 in version 4 takes these three fields and no other.
        apart.add("original_max_position_embeddings")
        scaling = {"type": "longrope"} | {name: rope[name] for name in ("short_factor", "long_factor") if name in rope}
    else:
        scaling = {name: value for name, value in rope.items() if name not in apart}
    told = scaling.keys() - {"rope_type", "type"}  # a Qwen with images has sections of a head, and no scaling
    plain = rope.get("rope_type", "default") == "default" and not told
    return {"rope_scaling": None if plain else scaling} | {name: rope[name] for name in sorted(apart & rope.keys())}


def _old_kind(family: Family, written: dict[str, Any]) -> dict[str, Any]:
    """Name the kind of scaling as the family's class in transformers 4 wants it; version 5 reads both."""
    scaling = written.get("rope_scaling")
    if family.scaling_kind == "rope_type" or not isinstance(scaling, Mapping) or "rope_type" not in scaling:
        return written
    rest = {name: value for name, value in scaling.items() if name not in ("type", "rope_type")}
    return written | {"rope_scaling": {family.scaling_kind: scaling["rope_type"], **rest}}


def _tied_at_top(written: dict[str, Any], dtype: str, tied: bool) -> dict[str, Any]:
    written.pop("dtype", None)
    return written | {"torch_dtype": torch_name(dtype), "tie_word_embeddings": tied}


def with_flag(raw: Mapping[str, Any], tied: bool) -> dict[str, Any]:
    """Return a config as it is but for `tie_word_embeddings`, at every level."""
    written = {**raw, "tie_word_embeddings": tied}
    inner = raw.get("text_config")
    if isinstance(inner, Mapping):
        written["text_config"] = {**inner, "tie_word_embeddings": tied}
    return written


def torch_name(dtype: str) -> str:
    """Return torch's name of an element type."""
    return BY_NAME[dtype].torch or dtype


def meta_params(family: Family, config: ModelConfig, dims: Mapping[str, int]) -> dict[str, Any]:
    """Return a params.json for Meta's or Mistral's programs."""
    written: dict[str, Any] = {} if config.is_hf else dict(flat_params(config.raw))
    names = {
        "dim": "hidden", "n_layers": "layers", "n_heads": "heads", "n_kv_heads": "kv_heads", "vocab_size": "vocab",
    }  # fmt: skip
    written |= {field: dims[name] for field, name in names.items() if name in dims}
    written |= vision_params(family, config, dims)
    if family.name in _MISTRALS:
        written |= {"head_dim": _head_dim(dims), "hidden_dim": dims["ffn"]}
        if config.raw.get("sliding_window") is not None:
            written["sliding_window"] = config.raw["sliding_window"]
        if "experts" in dims:
            there = written.get("moe")
            own = dict(there) if isinstance(there, Mapping) else {}
            chosen = config.raw.get("num_experts_per_tok", own.get("num_experts_per_tok", 2))
            written["moe"] = {**own, "num_experts": dims["experts"], "num_experts_per_tok": chosen}
    else:
        written = _meta_widths(written, {**dims, "ffn": dims.get("dense_ffn", dims["ffn"])})
    written["norm_eps"] = config.norm_eps if config.norm_eps is not None else 1e-5
    theta = config.rope_theta
    if theta is None and config.is_hf:  # transformers' own; where it is absent, Llama 3's program takes 500,000
        theta = _ROPE_THETA
    if theta is not None:
        written["rope_theta"] = theta
    return written | _meta_rope(config)


def _meta_widths(written: dict[str, Any], dims: Mapping[str, int]) -> dict[str, Any]:
    """Set the fields of the formulas; Meta's programs refuse others, so these stand only where they are needed."""
    own = (written.get("multiple_of"), written.get("ffn_dim_multiplier"))
    right = meta_ffn(dims["hidden"], *own) == dims["ffn"]
    multiple_of, multiplier = own if right else ffn_formula(dims["hidden"], dims["ffn"])
    written.pop("ffn_dim_multiplier", None)
    written["multiple_of"] = multiple_of
    if multiplier is not None:
        written["ffn_dim_multiplier"] = multiplier
    if "hidden_dim" in written:
        written["hidden_dim"] = dims["ffn"]
    if "head_dim" in written or _head_dim(dims) * dims["heads"] != dims["hidden"]:
        written["head_dim"] = _head_dim(dims)
    return written


def _head_dim(dims: Mapping[str, int]) -> int:
    return dims.get("head_dim") or dims["hidden"] // dims["heads"]


def _meta_rope(config: ModelConfig) -> dict[str, Any]:
    """Return Meta's fields: the flag, and the factors that its own files leave to the program.

    Only Llama 3's way of scaling has a flag. Another one, and the length it starts from, goes under names that Meta's
    programs do not know.
    """
    scaling = config.rope_scaling
    if scaling and scaling.get("rope_type") != "llama3":
        length = {"max_position_embeddings": config.max_positions} if config.max_positions else {}
        return {"use_scaled_rope": False, "rope_scaling": dict(scaling)} | length
    if not scaling:
        return {"use_scaled_rope": True} if config.rope_unknown else {}
    fields = {
        "rope_scaling_factor": "factor",
        "rope_low_freq_factor": "low_freq_factor",
        "rope_high_freq_factor": "high_freq_factor",
        "original_max_position_embeddings": "original_max_position_embeddings",
    }
    return {"use_scaled_rope": True} | {name: scaling[key] for name, key in fields.items() if key in scaling}


def ffn_formula(hidden: int, ffn: int) -> tuple[int, float | None]:
    """Return `multiple_of` and the shortest `ffn_dim_multiplier` that give a width by Meta's formula.

    >>> ffn_formula(4096, 11008), ffn_formula(4096, 14336), ffn_formula(576, 1536)
    ((256, None), (1024, 1.3), (256, None))
    """
    steps = [step for step in (256, 1024, 4096, 512, 128, 64, 32, 16, 8, 4, 2, 1) if ffn % step == 0]
    for step in steps:
        if meta_ffn(hidden, step, None) == ffn:
            return step, None
    exact = ffn / max(int(2 * 4 * hidden / 3), 1)
    for digits in range(1, 12):
        for step in sorted(steps, reverse=True):
            for value in {math.floor(exact * 10**digits) / 10**digits, math.ceil(exact * 10**digits) / 10**digits}:
                if meta_ffn(hidden, step, value) == ffn:
                    return step, value
    return 1, (ffn + 0.5) / max(int(2 * 4 * hidden / 3), 1)  # half a row more: what is multiplied is cut off
