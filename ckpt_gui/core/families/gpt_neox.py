"""GPT-NeoX and Pythia, which keep q, k and v head by head in one tensor.

Sources: transformers 4.57 `modeling_gpt_neox.py`, transformers 5 `conversion_mapping.py`; litgpt
`scripts/convert_hf_checkpoint.py` copy_weights_gpt_neox and qkv_reassemble.
"""

from __future__ import annotations

from ckpt_gui.core.families.rule_schema import Rule
from ckpt_gui.core.families.schema import Family, Ignored, Layout, Oracle, Slot, hf_layout
from ckpt_gui.core.shape_ops import Regroup

_L, _G, _H, _F = "gpt_neox.layers.{layer}.", "transformer.h.{layer}.", "hidden", "ffn"
# Parts of a layer: (hub, litgpt, rows, columns).
_PARTS = (
    ("input_layernorm", "norm_1", _H, ""),
    ("post_attention_layernorm", "norm_2", _H, ""),
    ("attention.query_key_value", "attn.qkv", "3*hidden", _H),
    ("attention.dense", "attn.proj", _H, _H),
    ("mlp.dense_h_to_4h", "mlp.fc", _F, _H),
    ("mlp.dense_4h_to_h", "mlp.proj", _H, _F),
)
_OPTIONAL = ("attention.query_key_value", "attention.dense")
_ENDS = ("weight", "bias")

SLOTS = (
    Slot("gpt_neox.embed_in.weight", ("vocab", _H), role="embedding"),
    *(
        Slot(
            f"{_L}{hub}.{end}",
            (rows, columns) if columns and end == "weight" else (rows,),
            when="attention_bias" if hub in _OPTIONAL and end == "bias" else "",
        )
        for hub, _, rows, columns in _PARTS
        for end in _ENDS
    ),
    *(Slot(f"gpt_neox.final_layer_norm.{end}", (_H,)) for end in _ENDS),
    Slot("embed_out.weight", ("vocab", _H), role="head"),
)
_COMPUTED = "holds the rotary frequencies, which every program computes by itself"
_MASK = "holds the causal mask, which every program makes by itself"
_IGNORED = (
    Ignored(_L + "attention.rotary_emb.inv_freq", _COMPUTED, normal=True),
    Ignored("gpt_neox.rotary_emb.inv_freq", _COMPUTED),
    Ignored(_L + "attention.bias", _MASK, normal=True),
    Ignored(_L + "attention.masked_bias", _MASK, normal=True),
)
# The rows of q, k and v of each head, as Hugging Face has them, are all of q, all of k, all of v in litgpt.
_HEADWISE = {"attention.query_key_value": (Regroup(3, "heads"),)}

FAMILIES = (
    Family(
        "gpt-neox",
        "GPT-NeoX",
        ("gpt_neox",),
        "GPTNeoXForCausalLM",
        SLOTS,
        (
            hf_layout(SLOTS, _IGNORED, source="transformers 4.57 modeling_gpt_neox", oracle=Oracle.SAVED),
            Layout(
                "hf-fused",
                tuple(Rule("lm_head.weight" if s.role == "head" else s.key, s.key) for s in SLOTS),
                _IGNORED,
                source="transformers 5 conversion_mapping.py",
                oracle=Oracle.SAVED,
            ),
            Layout(
                "litgpt",
                (
                    Rule("transformer.wte.weight", "gpt_neox.embed_in.weight"),
                    *(
                        Rule(f"{_G}{name}.{end}", f"{_L}{hub}.{end}", _HEADWISE.get(hub, ()))
                        for hub, name, _, _ in _PARTS
                        for end in _ENDS
                    ),
                    *(Rule(f"transformer.ln_f.{end}", f"gpt_neox.final_layer_norm.{end}") for end in _ENDS),
                    Rule("lm_head.weight", "embed_out.weight"),
                ),
                head_always=True,
                source="litgpt 0.5.11 scripts/convert_hf_checkpoint.py copy_weights_gpt_neox",
                oracle=Oracle.LOADED,
            ),
        ),
        tie_default=False,
        row_order=(("hf", "halves"), ("hf-fused", "halves"), ("litgpt", "halves")),
        spelling=(("rope_theta", "rotary_emb_base"), ("partial_rotary_factor", "rotary_pct")),
        source="transformers 4.57 configuration_gpt_neox",
    ),
)
