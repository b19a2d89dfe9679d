"""Phi 1 to 2, and Phi 3 and 4, which keep q, k and v in one tensor and gate and up in another.

Sources: transformers 4.57 `modeling_phi.py`, `modeling_phi3.py`; torchtune 0.6.1 `models/phi3/_convert_weights.py`;
litgpt `scripts/convert_hf_checkpoint.py` copy_weights_phi.
"""

from __future__ import annotations

from ckpt_gui.core.families.rule_schema import Rule, Split
from ckpt_gui.core.families.schema import Family, Ignored, Layout, Oracle, Slot, hf_layout
from ckpt_gui.core.symbols import EQUAL

_L, _T, _G = "model.layers.{layer}.", "layers.{layer}.", "transformer.h.{layer}."
_Q, _KV, _H, _F = "heads*head_dim", "kv_heads*head_dim", "hidden", "ffn"
_HALVES = Split((EQUAL, EQUAL))
_QKV = Split((_Q, _KV, _KV))
_COMPUTED = "holds the rotary frequencies, which every program computes by itself"
_INV_FREQ = (
    Ignored(_L + "self_attn.rotary_emb.inv_freq", _COMPUTED),
    Ignored("model.rotary_emb.inv_freq", _COMPUTED),
)

PHI3_SLOTS = (
    Slot("model.embed_tokens.weight", ("vocab", _H), role="embedding"),
    Slot(_L + "input_layernorm.weight", (_H,)),
    Slot(_L + "self_attn.qkv_proj.weight", ("heads*head_dim+2*kv_heads*head_dim", _H)),
    Slot(_L + "self_attn.o_proj.weight", (_H, _Q)),
    Slot(_L + "post_attention_layernorm.weight", (_H,)),
    Slot(_L + "mlp.gate_up_proj.weight", ("2*ffn", _H)),
    Slot(_L + "mlp.down_proj.weight", (_H, _F)),
    Slot("model.norm.weight", (_H,)),
    Slot("lm_head.weight", ("vocab", _H), role="head"),
)
_PHI3_TORCHTUNE = Layout(
    "torchtune",
    (
        Rule("tok_embeddings.weight", "model.embed_tokens.weight"),
        Rule(_T + "sa_norm.scale", _L + "input_layernorm.weight"),
        Rule(
            (_T + "attn.q_proj.weight", _T + "attn.k_proj.weight", _T + "attn.v_proj.weight"),
            _L + "self_attn.qkv_proj.weight",
            split=_QKV,
        ),
        Rule(_T + "attn.output_proj.weight", _L + "self_attn.o_proj.weight"),
        Rule(_T + "mlp_norm.scale", _L + "post_attention_layernorm.weight"),
        Rule((_T + "mlp.w1.weight", _T + "mlp.w3.weight"), _L + "mlp.gate_up_proj.weight", split=_HALVES),
        Rule(_T + "mlp.w2.weight", _L + "mlp.down_proj.weight"),
        Rule("norm.scale", "model.norm.weight"),
        Rule("output.weight", "lm_head.weight"),
    ),
    source="torchtune 0.6.1 models/phi3/_convert_weights.py",
    oracle=Oracle.LOADED,
)
_PHI3_LITGPT = Layout(
    "litgpt",
    (
        Rule("transformer.wte.weight", "model.embed_tokens.weight"),
        Rule(_G + "norm_1.weight", _L + "input_layernorm.weight"),
        Rule(_G + "attn.qkv.weight", _L + "self_attn.qkv_proj.weight"),
        Rule(_G + "attn.proj.weight", _L + "self_attn.o_proj.weight"),
        Rule(_G + "norm_2.weight", _L + "post_attention_layernorm.weight"),
        Rule((_G + "mlp.fc_1.weight", _G + "mlp.fc_2.weight"), _L + "mlp.gate_up_proj.weight", split=_HALVES),
        Rule(_G + "mlp.proj.weight", _L + "mlp.down_proj.weight"),
        Rule("transformer.ln_f.weight", "model.norm.weight"),
        Rule("lm_head.weight", "lm_head.weight"),
    ),
    head_always=True,
    source="litgpt 0.5.11 scripts/convert_hf_checkpoint.py copy_weights_phi",
    oracle=Oracle.LOADED,
)

# Linear layers and norms of Phi 1 to 2, all with biases: (hub, litgpt, rows, columns).
_PHI_PARTS = (
    ("input_layernorm", "norm_1", _H, ""),
    ("self_attn.q_proj", "", _Q, _H),
    ("self_attn.k_proj", "", _KV, _H),
    ("self_attn.v_proj", "", _KV, _H),
    ("self_attn.dense", "attn.proj", _H, _Q),
    ("mlp.fc1", "mlp.fc", _F, _H),
    ("mlp.fc2", "mlp.proj", _H, _F),
)
PHI_SLOTS = (
    Slot("model.embed_tokens.weight", ("vocab", _H), role="embedding"),
    *(
        Slot(f"{_L}{hub}.{end}", (rows, columns) if columns and end == "weight" else (rows,))
        for hub, _, rows, columns in _PHI_PARTS
        for end in ("weight", "bias")
    ),
    *(
        Slot(f"{_L}self_attn.{n}_layernorm.{end}", ("head_dim",), when="qk_layernorm")
        for n in "qk"
        for end in ("weight", "bias")
    ),
    Slot("model.final_layernorm.weight", (_H,)),
    Slot("model.final_layernorm.bias", (_H,)),
    Slot("lm_head.weight", ("vocab", _H), role="head"),
    Slot("lm_head.bias", ("vocab",)),
)
_PHI_LITGPT = Layout(
    "litgpt",
    (
        Rule("transformer.wte.weight", "model.embed_tokens.weight"),
        *(
            Rule(f"{_G}{name}.{end}", f"{_L}{hub}.{end}")
            for hub, name, _, _ in _PHI_PARTS
            for end in ("weight", "bias")
            if name
        ),
        *(
            Rule(f"{_G}attn.qkv.{end}", tuple(f"{_L}self_attn.{n}_proj.{end}" for n in "qkv"), split=_QKV)
            for end in ("weight", "bias")
        ),
        Rule("transformer.ln_f.weight", "model.final_layernorm.weight"),
        Rule("transformer.ln_f.bias", "model.final_layernorm.bias"),
        Rule("lm_head.weight", "lm_head.weight"),
        Rule("lm_head.bias", "lm_head.bias"),
    ),
    head_always=True,
    source="litgpt 0.5.11 scripts/convert_hf_checkpoint.py copy_weights_phi",
    oracle=Oracle.LOADED,
)
_ROW_ORDER = (("hf", "halves"), ("torchtune", "halves"), ("litgpt", "halves"))

FAMILIES = (
    Family(
        "phi",
        "Phi 1 to 2",
        ("phi",),
        "PhiForCausalLM",
        PHI_SLOTS,
        (hf_layout(PHI_SLOTS, _INV_FREQ, source="transformers 4.57 modeling_phi", oracle=Oracle.SAVED), _PHI_LITGPT),
        tie_default=False,
        row_order=_ROW_ORDER,
        source="transformers 4.57 configuration_phi",
    ),
    Family(
        "phi3",
        "Phi 3 and 4",
        ("phi3",),
        "Phi3ForCausalLM",
        PHI3_SLOTS,
        (
            hf_layout(PHI3_SLOTS, _INV_FREQ, source="transformers 4.57 modeling_phi3", oracle=Oracle.SAVED),
            _PHI3_TORCHTUNE,
            _PHI3_LITGPT,
        ),
        tie_default=False,
        row_order=_ROW_ORDER,
        source="transformers 4.57 configuration_phi3",
    ),
)
