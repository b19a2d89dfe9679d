"""Llama 4, the text model: layers of experts, with dense ones between them in the larger model.

Hugging Face keeps all experts of a layer in one tensor, inputs × outputs, gate beside up; torchtune keeps gate and up
apart. No row of q and k changes its place among these. Sources: transformers 4.57 `modeling_llama4.py`; torchtune
`models/llama4/_convert_weights.py`.
"""

from __future__ import annotations

from ckpt_gui.core.families.schema import Family, Ignored, Layout, Oracle, Rule, Slot, Split, hf_layout
from ckpt_gui.core.shape_ops import EQUAL

_L, _FF = "model.layers.{layer}.", "model.layers.{layer}.feed_forward."
_T = "decoder.layers.{layer}."
_Q, _KV, _H, _F, _E = "heads*head_dim", "kv_heads*head_dim", "hidden", "ffn", "experts"
_COMPUTED = "holds the rotary frequencies, which every program computes by itself"

# (hub, torchtune, shape, kind of layer)
_PARTS = (
    ("input_layernorm.weight", "sa_norm.scale", (_H,), ""),
    ("self_attn.q_proj.weight", "attn.q_proj.weight", (_Q, _H), ""),
    ("self_attn.k_proj.weight", "attn.k_proj.weight", (_KV, _H), ""),
    ("self_attn.v_proj.weight", "attn.v_proj.weight", (_KV, _H), ""),
    ("self_attn.o_proj.weight", "attn.output_proj.weight", (_H, _Q), ""),
    ("post_attention_layernorm.weight", "mlp_norm.scale", (_H,), ""),
    ("feed_forward.router.weight", "mlp.router.gate.weight", (_E, _H), "moe"),
    ("feed_forward.experts.gate_up_proj", "", (_E, _H, "2*ffn"), "moe"),
    ("feed_forward.experts.down_proj", "mlp.experts.down_proj", (_E, _F, _H), "moe"),
    ("feed_forward.shared_expert.gate_proj.weight", "mlp.shared_expert.w1.weight", (_F, _H), "moe"),
    ("feed_forward.shared_expert.up_proj.weight", "mlp.shared_expert.w3.weight", (_F, _H), "moe"),
    ("feed_forward.shared_expert.down_proj.weight", "mlp.shared_expert.w2.weight", (_H, _F), "moe"),
    ("feed_forward.gate_proj.weight", "mlp.w1.weight", ("dense_ffn", _H), "dense"),
    ("feed_forward.up_proj.weight", "mlp.w3.weight", ("dense_ffn", _H), "dense"),
    ("feed_forward.down_proj.weight", "mlp.w2.weight", (_H, "dense_ffn"), "dense"),
)
SLOTS = (
    Slot("model.embed_tokens.weight", ("vocab", _H), role="embedding"),
    *(Slot(_L + hub, shape, group=group) for hub, _, shape, group in _PARTS),
    Slot("model.norm.weight", (_H,)),
    Slot("lm_head.weight", ("vocab", _H), role="head"),
)

_BLOCK = "vision_model.model.layers.{vision_layer}."
_W, _I, _ENDS = "vision_hidden", "vision_ffn", ("weight", "bias")
VISION_SLOTS = (
    *(Slot("language_model." + s.key, s.shape, s.role, s.when, s.group) for s in SLOTS),
    Slot("multi_modal_projector.linear_1.weight", (_H, "projector_in")),
    Slot("vision_model.class_embedding", (_W,)),
    Slot("vision_model.positional_embedding_vlm", ("vision_patches", _W)),
    Slot("vision_model.patch_embedding.linear.weight", (_W, "vision_patch")),
    Slot("vision_model.vision_adapter.mlp.fc1.weight", ("adapter_middle", "adapter_in")),
    Slot("vision_model.vision_adapter.mlp.fc2.weight", ("adapter_out", "adapter_out")),
    *(Slot(f"vision_model.layernorm_{at}.{end}", (_W,)) for at in ("pre", "post") for end in _ENDS),
    *(
        Slot(f"{_BLOCK}{norm}.{end}", (_W,))
        for norm in ("input_layernorm", "post_attention_layernorm")
        for end in _ENDS
    ),
    *(Slot(f"{_BLOCK}self_attn.{n}_proj.weight", (_W, _W)) for n in "qkvo"),
    *(Slot(f"{_BLOCK}self_attn.{n}_proj.bias", (_W,)) for n in "qkvo"),
    Slot(_BLOCK + "mlp.fc1.weight", (_I, _W)),
    Slot(_BLOCK + "mlp.fc1.bias", (_I,)),
    Slot(_BLOCK + "mlp.fc2.weight", (_W, _I)),
    Slot(_BLOCK + "mlp.fc2.bias", (_W,)),
)

FAMILIES = (
    Family(
        "llama4-vision",
        "Llama 4",
        ("llama4",),
        "Llama4ForConditionalGeneration",
        VISION_SLOTS,
        (hf_layout(VISION_SLOTS, (), source="transformers 4.57 modeling_llama4", oracle=Oracle.SAVED),),
        tie_default=False,
        row_order=(("hf", "pairs"),),
        source="transformers 4.57 configuration_llama4",
    ),
    Family(
        "llama4",
        "Llama 4 text",
        ("llama4_text",),
        "Llama4ForCausalLM",
        SLOTS,
        (
            hf_layout(
                SLOTS,
                (Ignored(_L + "self_attn.rotary_emb.inv_freq", _COMPUTED),),
                source="transformers 4.57 modeling_llama4",
                oracle=Oracle.SAVED,
            ),
            Layout(
                "torchtune",
                (
                    Rule("decoder.tok_embeddings.weight", "model.embed_tokens.weight"),
                    *(Rule(_T + name, _L + hub) for hub, name, _, _ in _PARTS if name),
                    Rule(
                        (_T + "mlp.experts.gate_proj", _T + "mlp.experts.up_proj"),
                        _FF + "experts.gate_up_proj",
                        split=Split((EQUAL, EQUAL), dim=2),
                    ),
                    Rule("decoder.norm.scale", "model.norm.weight"),
                    Rule("decoder.output.weight", "lm_head.weight"),
                ),
                source="torchtune models/llama4/_convert_weights.py",
                oracle=Oracle.DERIVED,
            ),
        ),
        tie_default=False,
        row_order=(("hf", "pairs"), ("torchtune", "pairs")),
        source="transformers 4.57 configuration_llama4",
    ),
)
