"""Which layers are of which kind, and which optional tensors there are, as a config says it.

Models with several kinds of layers (dense and of experts, with and without a look at an image) say in their config.json
which is which, each family in fields of its own. Sources: transformers 4.57 `modeling_deepseek_v3.py`,
`modeling_qwen2_moe.py`, `modeling_qwen3_moe.py`, `configuration_llama4.py`, `configuration_mllama.py`,
`modeling_siglip.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ckpt_gui.core.families.schema import EXTRA, Family

Kinds = dict[int, set[str]]


def layer_kinds(family: Family, raw: Mapping[str, Any], layers: int) -> Kinds:
    """Return the kinds (`dense`, `moe`, …) of each layer; empty where the family has but one, or the config none.

    Args:
        family: The architecture.
        raw: Its config.json, or the text model's part of it.
        layers: How many layers there are.
    """
    groups = {slot.group for slot in family.slots} - {"", EXTRA}
    text = raw.get("text_config")
    fields = {**raw, **text} if isinstance(text, Mapping) else raw
    if {"self", "cross"} <= groups and isinstance(looking := fields.get("cross_attention_layers"), list):
        return {n: {"cross"} if n in looking else {"self"} for n in range(layers)}
    if {"dense", "moe"} <= groups and (told := _experts(fields, layers)) is not None:
        return {n: {"moe"} if n in told else {"dense"} for n in range(layers)}
    return {}


def _experts(fields: Mapping[str, Any], layers: int) -> set[int] | None:
    """Return the layers that have experts; None if no field tells."""
    if isinstance(listed := fields.get("moe_layers"), list):  # Llama 4
        return {n for n in listed if type(n) is int}
    if step := _number(fields, "interleave_moe_layer_step"):
        return set(range(step - 1, layers, step))
    if (first := _number(fields, "first_k_dense_replace")) is not None:  # DeepSeek
        step = _number(fields, "moe_layer_freq") or 1
        return {n for n in range(first, layers) if n % step == 0}
    dense, step = fields.get("mlp_only_layers"), _number(fields, "decoder_sparse_step")
    if isinstance(dense, list) or step:  # Qwen
        skipped = dense if isinstance(dense, list) else []
        return {n for n in range(layers) if n not in skipped and (n + 1) % (step or 1) == 0}
    return None


def _number(fields: Mapping[str, Any], name: str) -> int | None:
    value = fields.get(name)
    return value if type(value) is int and value >= 0 else None


def stated_sets(family: Family, raw: Mapping[str, Any]) -> set[str]:
    """Return the sets of optional tensors (`Slot.when`) that a config asks for in words of its own."""
    named = {slot.when for slot in family.slots} - {""}
    vision = raw.get("vision_config")
    pooled = vision.get("vision_use_head", True) if isinstance(vision, Mapping) else True
    asked = {
        "q_lora": raw.get("q_lora_rank") is not None,
        "q_proj": "q_lora_rank" in raw and raw["q_lora_rank"] is None,
        "qkv_bias": raw.get("qkv_bias", True) is True,
        "biases": True,
        "vision_use_head": pooled is True,
    }
    return {name for name, wanted in asked.items() if wanted and name in named}
