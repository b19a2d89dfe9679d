"""Llama 4's fields in params.json and in config.json.

Both state all of the text model but the lengths, and of the encoder what its tensors do not show. Meta's file gives the
widths by a formula, of which the shortest numbers are written that give those of the model. Sources: Meta llama-models
`models/llama4/args.py`, `moe.py`, `model.py`; transformers 4.57 `configuration_llama4.py`,
`convert_llama4_weights_to_hf.py`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ckpt_gui.core.meta_config import expert_ffn, flat_params, meta_ffn
from ckpt_gui.core.model_config import ModelConfig

_VOCAB = 202048  # of all Llama 4
_TOKENS = {"bos_token_id": 200000, "eos_token_id": 200001, "pad_token_id": 200018}
_LENGTH = 262144  # of the base models; those that were taught to follow instructions have longer ones
_STEPS = (4096, 2048, 1024, 512, 256, 128, 64, 32, 16, 8, 4, 2, 1)
# Fields of the same meaning: Meta's name, Hugging Face's.
_TEXT = (
    ("use_qk_norm", "use_qk_norm"),
    ("attention_chunk_size", "attention_chunk_size"),
    ("attn_temperature_tuning", "attn_temperature_tuning"),
    ("floor_scale", "floor_scale"),
    ("attn_scale", "attn_scale"),
)
_EXPERTS = (("top_k", "num_experts_per_tok"), ("interleave_moe_layer_step", "interleave_moe_layer_step"))
# What Meta's program assumes of them where its file is silent.
_ASSUMED = {"use_qk_norm": False, "attention_chunk_size": None, "attn_temperature_tuning": False, "floor_scale": 8192.0}
_ASSUMED_EXPERTS = {"top_k": 1, "interleave_moe_layer_step": 1}


def text_fields(config: ModelConfig, dims: Mapping[str, int]) -> dict[str, Any]:
    """Return what params.json says of the text model beyond what every Llama has, in Hugging Face's terms."""
    flat = flat_params(config.raw)
    told = {**_ASSUMED, **flat}
    args = flat.get("moe_args")
    experts = {**_ASSUMED_EXPERTS, **(args if isinstance(args, Mapping) else {})}
    interval = flat.get("nope_layer_interval")
    layers = dims.get("layers", 0)
    turned = [int(type(interval) is not int or interval < 1 or (n + 1) % interval != 0) for n in range(layers)]
    written = {theirs: told[own] for own, theirs in _TEXT if own in told}
    written |= {theirs: experts[own] for own, theirs in _EXPERTS}
    written |= {"hidden_act": "silu", "no_rope_layers": turned}
    if config.max_positions is None or not flat.get("max_position_embeddings"):
        written["max_position_embeddings"] = _LENGTH
    return written | (_TOKENS if dims.get("vocab") == _VOCAB else {})


def vision_fields(config: ModelConfig, dims: Mapping[str, int]) -> dict[str, Any]:
    """Return the encoder's config from params.json and the tensors."""
    args = flat_params(config.raw).get("vision_args")
    args = args if isinstance(args, Mapping) else {}
    sizes = (
        ("hidden_size", "vision_hidden"),
        ("intermediate_size", "vision_ffn"),
        ("num_hidden_layers", "vision_layers"),
        ("projector_input_dim", "adapter_middle"),
        ("projector_output_dim", "adapter_out"),
        ("vision_output_dim", "projector_in"),
    )
    written = {"model_type": "llama4_vision_model", **{name: dims[size] for name, size in sizes if size in dims}}
    written |= {"num_attention_heads": args["n_heads"]} if "n_heads" in args else {}
    written |= {"pixel_shuffle_ratio": args["pixel_shuffle_ratio"]} if "pixel_shuffle_ratio" in args else {}
    for name in ("image_size", "patch_size"):
        side = args.get(name)
        written |= {name: side["height"]} if isinstance(side, Mapping) and "height" in side else {}
    return written


def params_fields(config: ModelConfig, dims: Mapping[str, int]) -> dict[str, Any]:
    """Return Llama 4's fields of params.json from a Hugging Face config.

    Args:
        config: What the source says.
        dims: True sizes.
    """
    raw = config.raw
    inner = raw.get("text_config")
    text = inner if isinstance(inner, Mapping) else raw
    written: dict[str, Any] = {own: text[theirs] for own, theirs in _TEXT if theirs in text}
    written |= {"nope_layer_interval": _interval(text)}
    experts = {own: text[theirs] for own, theirs in _EXPERTS if theirs in text}
    written |= _widths(dims, {"num_experts": dims.get("experts", 0), **experts})
    vision = raw.get("vision_config")
    return written | ({"vision_args": _vision_args(vision, dims)} if isinstance(vision, Mapping) else {})


def _interval(text: Mapping[str, Any]) -> int | None:
    """Return every how many layers one is not turned; None if all are, or if there is no such number."""
    turned = text.get("no_rope_layers")
    if not isinstance(turned, list) or 0 not in turned:
        return None if turned else text.get("no_rope_layer_interval")
    first = turned.index(0) + 1
    regular = [int((n + 1) % first != 0) for n in range(len(turned))]
    return first if regular == turned else None


def _widths(dims: Mapping[str, int], args: dict[str, Any]) -> dict[str, Any]:
    """Return the numbers by which Meta's formulas give the width of an expert and of a dense layer."""
    hidden, ffn = dims["hidden"], dims["ffn"]
    dense = dims.get("dense_ffn") or ffn
    base = max(int(8 * hidden / 3), 1)
    for scaled in (True, False):
        moe_args = {**args, "capacity_factor": 1.0, "auto_scale_F": scaled}
        for step in (s for s in _STEPS if ffn % s == 0 == dense % s):
            for factor in _rounded(dense / base):
                if meta_ffn(hidden, step, factor) != dense:
                    continue
                rough = 1.5 * ffn * (2 if scaled else 1) / (factor * hidden)
                for exp in _rounded(rough):
                    fields = {"multiple_of": step, "ffn_dim_multiplier": factor, "ffn_exp": exp, "moe_args": moe_args}
                    if expert_ffn(hidden, fields) == ffn:
                        return fields
    factor = (dense + 0.5) / base  # half a row more: what is multiplied is cut off
    inner = math.ceil(2 * ffn / factor)
    exp = (math.ceil(1.5 * inner) + 0.5) / hidden
    moe_args = {**args, "capacity_factor": 1.0, "auto_scale_F": True}
    return {"multiple_of": 1, "ffn_dim_multiplier": factor, "ffn_exp": exp, "moe_args": moe_args}


def _rounded(value: float) -> list[float]:
    """Return a number rounded up and down to more and more digits, the shortest first."""
    found = (f(value * 10**n) / 10**n for n in range(8) for f in (math.floor, math.ceil))
    return list(dict.fromkeys(number for number in found if number > 0))


def _vision_args(vision: Mapping[str, Any], dims: Mapping[str, int]) -> dict[str, Any]:
    square = {
        name: {"height": vision[name], "width": vision[name]} for name in ("image_size", "patch_size") if name in vision
    }
    width = dims.get("vision_hidden", 0)
    sizes = (
        ("dim", "vision_hidden"),
        ("n_layers", "vision_layers"),
        ("output_dim", "adapter_out"),
    )
    written: dict[str, Any] = square | {name: dims[size] for name, size in sizes if size in dims}
    written |= {"n_heads": vision["num_attention_heads"]} if "num_attention_heads" in vision else {}
    written |= {"mlp_ratio": dims["vision_ffn"] / width} if width and "vision_ffn" in dims else {}
    return written | {"pixel_shuffle_ratio": vision.get("pixel_shuffle_ratio", 0.5)}
