"""GPT-OSS: all experts of a layer in one tensor, gate and up in turn, biases everywhere, sinks.

Source: transformers 4.57 `modeling_gpt_oss.py`.
"""

from __future__ import annotations

from ckpt_gui.core.families.schema import Family, Ignored, Oracle, Slot, hf_layout

_L = "model.layers.{layer}."
_Q, _KV, _H, _F, _E = "heads*head_dim", "kv_heads*head_dim", "hidden", "ffn", "experts"
_COMPUTED = "holds the rotary frequencies, which every program computes by itself"

SLOTS = (
    Slot("model.embed_tokens.weight", ("vocab", _H), role="embedding"),
    Slot(_L + "input_layernorm.weight", (_H,)),
    Slot(_L + "self_attn.q_proj.weight", (_Q, _H)),
    Slot(_L + "self_attn.k_proj.weight", (_KV, _H)),
    Slot(_L + "self_attn.v_proj.weight", (_KV, _H)),
    Slot(_L + "self_attn.o_proj.weight", (_H, _Q)),
    Slot(_L + "self_attn.q_proj.bias", (_Q,), when="attention_bias"),
    Slot(_L + "self_attn.k_proj.bias", (_KV,), when="attention_bias"),
    Slot(_L + "self_attn.v_proj.bias", (_KV,), when="attention_bias"),
    Slot(_L + "self_attn.o_proj.bias", (_H,), when="attention_bias"),
    Slot(_L + "self_attn.sinks", ("heads",)),
    Slot(_L + "post_attention_layernorm.weight", (_H,)),
    Slot(_L + "mlp.router.weight", (_E, _H)),
    Slot(_L + "mlp.router.bias", (_E,)),
    Slot(_L + "mlp.experts.gate_up_proj", (_E, _H, "2*ffn")),
    Slot(_L + "mlp.experts.gate_up_proj_bias", (_E, "2*ffn")),
    Slot(_L + "mlp.experts.down_proj", (_E, _F, _H)),
    Slot(_L + "mlp.experts.down_proj_bias", (_E, _H)),
    Slot("model.norm.weight", (_H,)),
    Slot("lm_head.weight", ("vocab", _H), role="head"),
)

FAMILIES = (
    Family(
        "gpt-oss",
        "GPT-OSS",
        ("gpt_oss",),
        "GptOssForCausalLM",
        SLOTS,
        (
            hf_layout(
                SLOTS,
                (Ignored(_L + "self_attn.rotary_emb.inv_freq", _COMPUTED),),
                source="transformers 4.57 modeling_gpt_oss",
                oracle=Oracle.SAVED,
            ),
        ),
        tie_default=False,
        row_order=(("hf", "halves"),),
        source="transformers 4.57 configuration_gpt_oss",
    ),
)
