"""DeepSeek 2 and 3: latent attention, experts of which some are shared, first layers that are dense.

What stands behind the counted layers predicts further tokens; transformers leaves it out, an export keeps it. Sources:
transformers 4.57 `modeling_deepseek_v2.py`, `modeling_deepseek_v3.py`, transformers 5 `conversion_mapping.py`; the
index of DeepSeek-V3's files for the layer behind the last one.
"""

from __future__ import annotations

from ckpt_gui.core.families.experts import experts, fused
from ckpt_gui.core.families.schema import EXTRA, Family, Ignored, Layout, Oracle, Slot, hf_layout

_L, _MLP, _ATT = "model.layers.{layer}.", "model.layers.{layer}.mlp.", "model.layers.{layer}.self_attn."
_H, _F = "hidden", "ffn"
_COMPUTED = "holds the rotary frequencies, which every program computes by itself"
_MATRICES = ("gate_proj", "up_proj", "down_proj")
_KEY = "heads*nope_dim+heads*rope_dim"  # rows of the queries, and of what the keys are made of

_SLOTS = (
    Slot("model.embed_tokens.weight", ("vocab", _H), role="embedding"),
    Slot(_L + "input_layernorm.weight", (_H,)),
    Slot(_ATT + "q_proj.weight", (_KEY, _H), when="q_proj"),
    Slot(_ATT + "q_a_proj.weight", ("q_rank", _H), when="q_lora"),
    Slot(_ATT + "q_a_proj.bias", ("q_rank",), when="q_a_bias"),
    Slot(_ATT + "q_a_layernorm.weight", ("q_rank",), when="q_lora"),
    Slot(_ATT + "q_b_proj.weight", (_KEY, "q_rank"), when="q_lora"),
    Slot(_ATT + "kv_a_proj_with_mqa.weight", ("kv_rank+rope_dim", _H)),
    Slot(_ATT + "kv_a_proj_with_mqa.bias", ("kv_rank+rope_dim",), when="attention_bias"),
    Slot(_ATT + "kv_a_layernorm.weight", ("kv_rank",)),
    Slot(_ATT + "kv_b_proj.weight", ("heads*nope_dim+heads*v_dim", "kv_rank")),
    Slot(_ATT + "o_proj.weight", (_H, "heads*v_dim")),
    Slot(_ATT + "o_proj.bias", (_H,), when="attention_bias"),
    Slot(_L + "post_attention_layernorm.weight", (_H,)),
    Slot(_MLP + "gate.weight", ("experts", _H), group="moe"),
    *experts(_MLP + "experts", *_MATRICES, "moe_ffn"),
    Slot(_MLP + "shared_experts.gate_proj.weight", ("shared_ffn", _H), group="moe"),
    Slot(_MLP + "shared_experts.up_proj.weight", ("shared_ffn", _H), group="moe"),
    Slot(_MLP + "shared_experts.down_proj.weight", (_H, "shared_ffn"), group="moe"),
    Slot(_MLP + "gate_proj.weight", (_F, _H), group="dense"),
    Slot(_MLP + "up_proj.weight", (_F, _H), group="dense"),
    Slot(_MLP + "down_proj.weight", (_H, _F), group="dense"),
    Slot("model.norm.weight", (_H,)),
    Slot("lm_head.weight", ("vocab", _H), role="head"),
)
V2_SLOTS = _SLOTS
# The correction of the router is kept in fp32 and no parameter; the choice of experts is wrong without it.
V3_SLOTS = (
    *_SLOTS,
    Slot(_MLP + "gate.e_score_correction_bias", ("experts",), group="moe", own_type=True),
    Slot(_L + "embed_tokens.weight", ("vocab", _H), group=EXTRA),
    Slot(_L + "enorm.weight", (_H,), group=EXTRA),
    Slot(_L + "hnorm.weight", (_H,), group=EXTRA),
    Slot(_L + "eh_proj.weight", (_H, "2*hidden"), group=EXTRA),
    Slot(_L + "shared_head.norm.weight", (_H,), group=EXTRA),
    Slot(_L + "shared_head.head.weight", ("vocab", _H), group=EXTRA),
)


def _layouts(slots: tuple[Slot, ...], source: str) -> tuple[Layout, ...]:
    ignored = (Ignored(_ATT + "rotary_emb.inv_freq", _COMPUTED),)
    return (
        hf_layout(slots, ignored, source, Oracle.SAVED),
        fused(slots, _MLP + "experts", _MLP + "experts", _MATRICES, {}),
    )


_ROW_ORDER = (("hf", "pairs"), ("hf-fused", "pairs"))

FAMILIES = (
    Family(
        "deepseek-v2",
        "DeepSeek 2",
        ("deepseek_v2",),
        "DeepseekV2ForCausalLM",
        V2_SLOTS,
        _layouts(V2_SLOTS, "transformers 4.57 modeling_deepseek_v2"),
        tie_default=False,
        row_order=_ROW_ORDER,
        source="transformers 4.57 configuration_deepseek_v2",
    ),
    Family(
        "deepseek-v3",
        "DeepSeek 3",
        ("deepseek_v3",),
        "DeepseekV3ForCausalLM",
        V3_SLOTS,
        _layouts(V3_SLOTS, "transformers 4.57 modeling_deepseek_v3"),
        tie_default=False,
        row_order=_ROW_ORDER,
        source="transformers 4.57 configuration_deepseek_v3",
    ),
)
