"""Llama 3.2 Vision (Mllama): a Llama with layers that look at an image, and an image encoder.

The embedding has eight rows more than the head: they stand for the image, and are never put out. Meta and torchtune
number the layers that look at the image by themselves, which no rule between two names says; so they are not among the
layouts. Source: transformers 4.57 `modeling_mllama.py`, transformers 5 `conversion_mapping.py`.
"""

from __future__ import annotations

from ckpt_gui.core.families.schema import Family, Ignored, Layout, Oracle, Rule, Slot, hf_layout

_L, _V = "language_model.model.layers.{layer}.", "vision_model."
_LOCAL, _GLOBAL = (
    "vision_model.transformer.layers.{vision_layer}.",
    "vision_model.global_transformer.layers.{global_layer}.",
)
_Q, _KV, _H, _F, _W, _I = "heads*head_dim", "kv_heads*head_dim", "hidden", "ffn", "vision_hidden", "vision_ffn"
_ENDS = ("weight", "bias")
_COMPUTED = "holds the rotary frequencies, which every program computes by itself"


def _attention(part: str, group: str) -> tuple[Slot, ...]:
    return (
        Slot(f"{_L}{part}.q_proj.weight", (_Q, _H), group=group),
        Slot(f"{_L}{part}.k_proj.weight", (_KV, _H), group=group),
        Slot(f"{_L}{part}.v_proj.weight", (_KV, _H), group=group),
        Slot(f"{_L}{part}.o_proj.weight", (_H, _Q), group=group),
    )


def _block(before: str) -> tuple[Slot, ...]:
    """Return the slots of a layer of the image encoder."""
    return (
        *(
            Slot(f"{before}{norm}.{end}", (_W,))
            for norm in ("input_layernorm", "post_attention_layernorm")
            for end in _ENDS
        ),
        *(Slot(f"{before}self_attn.{n}_proj.weight", (_W, _W)) for n in "qkvo"),
        Slot(before + "mlp.fc1.weight", (_I, _W)),
        Slot(before + "mlp.fc1.bias", (_I,)),
        Slot(before + "mlp.fc2.weight", (_W, _I)),
        Slot(before + "mlp.fc2.bias", (_W,)),
    )


SLOTS = (
    Slot("language_model.model.embed_tokens.weight", ("vocab+8", _H), role="embedding"),
    Slot(_L + "input_layernorm.weight", (_H,)),
    *_attention("self_attn", "self"),
    *_attention("cross_attn", "cross"),
    Slot(_L + "cross_attn.q_norm.weight", ("head_dim",), group="cross"),
    Slot(_L + "cross_attn.k_norm.weight", ("head_dim",), group="cross"),
    Slot(_L + "cross_attn_attn_gate", ("1",), group="cross"),
    Slot(_L + "cross_attn_mlp_gate", ("1",), group="cross"),
    Slot(_L + "post_attention_layernorm.weight", (_H,)),
    Slot(_L + "mlp.gate_proj.weight", (_F, _H)),
    Slot(_L + "mlp.up_proj.weight", (_F, _H)),
    Slot(_L + "mlp.down_proj.weight", (_H, _F)),
    Slot("language_model.model.norm.weight", (_H,)),
    Slot("language_model.lm_head.weight", ("vocab", _H), role="head"),
    Slot("multi_modal_projector.weight", (_H, "vision_out")),
    Slot("multi_modal_projector.bias", (_H,)),
    Slot(_V + "class_embedding", (_W,)),
    Slot(_V + "patch_embedding.weight", (_W, "vision_channels", "vision_patch", "vision_patch")),
    Slot(_V + "gated_positional_embedding.embedding", ("vision_patches", _W)),
    Slot(_V + "gated_positional_embedding.gate", ("1",)),
    Slot(_V + "gated_positional_embedding.tile_embedding.weight", ("aspect_ratios", "tile_patches")),
    *(
        Slot(f"{_V}{at}_tile_positional_embedding.embedding.weight", ("aspect_ratios", "tile_width"))
        for at in ("pre", "post")
    ),
    *(Slot(f"{_V}{at}_tile_positional_embedding.gate", ("1",)) for at in ("pre", "post")),
    *(Slot(f"{_V}layernorm_{at}.{end}", (_W,)) for at in ("pre", "post") for end in _ENDS),
    *_block(_LOCAL),
    *_block(_GLOBAL),
    Slot(_GLOBAL + "gate_attn", ("1",)),
    Slot(_GLOBAL + "gate_ffn", ("1",)),
)


def _in_memory(key: str) -> str:
    """Return a hub key as transformers 5 has it in memory."""
    if key.startswith("language_model.lm_head."):
        return key.removeprefix("language_model.")
    if key.startswith("language_model.model."):
        return "model.language_model." + key.removeprefix("language_model.model.")
    return "model." + key


FAMILIES = (
    Family(
        "mllama",
        "Llama 3.2 Vision",
        ("mllama", "mllama_text_model"),
        "MllamaForConditionalGeneration",
        SLOTS,
        (
            hf_layout(
                SLOTS,
                (Ignored(_L + "self_attn.rotary_emb.inv_freq", _COMPUTED),),
                source="transformers 4.57 modeling_mllama",
                oracle=Oracle.SAVED,
            ),
            Layout(
                "hf-fused",
                tuple(Rule(_in_memory(s.key), s.key) for s in SLOTS),
                source="transformers 5 conversion_mapping.py",
                oracle=Oracle.SAVED,
            ),
        ),
        tie_default=False,
        row_order=(("hf", "halves"), ("hf-fused", "halves")),
        source="transformers 4.57 configuration_mllama",
    ),
)
