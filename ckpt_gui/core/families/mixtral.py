"""Mixtral: a Mistral whose feed-forward part is a choice of experts.

Sources: transformers 4.57 `modeling_mixtral.py`, `convert_mixtral_weights_to_hf.py`, transformers 5
`conversion_mapping.py`; mistral-inference `moe.py`, `args.py`; litgpt `scripts/convert_hf_checkpoint.py`.
"""

from __future__ import annotations

from ckpt_gui.core.families.experts import experts, fused
from ckpt_gui.core.families.rule_schema import Rule, Split
from ckpt_gui.core.families.schema import Family, Ignored, Layout, Oracle, Slot, hf_layout
from ckpt_gui.core.ops import RopePermute
from ckpt_gui.core.shape_ops import Reshape, Transpose

_L, _T, _G = "model.layers.{layer}.", "layers.{layer}.", "transformer.h.{layer}."
_Q, _KV, _H = "heads*head_dim", "kv_heads*head_dim", "hidden"
_MOE, _EXPERT = _L + "block_sparse_moe", _L + "block_sparse_moe.experts.{expert}."
_COMPUTED = "holds the rotary frequencies, which every program computes by itself"

SLOTS = (
    Slot("model.embed_tokens.weight", ("vocab", _H), role="embedding"),
    Slot(_L + "input_layernorm.weight", (_H,)),
    Slot(_L + "self_attn.q_proj.weight", (_Q, _H)),
    Slot(_L + "self_attn.k_proj.weight", (_KV, _H)),
    Slot(_L + "self_attn.v_proj.weight", (_KV, _H)),
    Slot(_L + "self_attn.o_proj.weight", (_H, _Q)),
    Slot(_L + "post_attention_layernorm.weight", (_H,)),
    Slot(_MOE + ".gate.weight", ("experts", _H), group="moe"),
    *experts(_MOE + ".experts", "w1", "w3", "w2", "ffn"),
    Slot("model.norm.weight", (_H,)),
    Slot("lm_head.weight", ("vocab", _H), role="head"),
)
META = Layout(
    "meta",
    (
        Rule("tok_embeddings.weight", "model.embed_tokens.weight"),
        Rule(_T + "attention_norm.weight", _L + "input_layernorm.weight"),
        Rule(_T + "attention.wq.weight", _L + "self_attn.q_proj.weight", (RopePermute("heads"),)),
        Rule(_T + "attention.wk.weight", _L + "self_attn.k_proj.weight", (RopePermute("kv_heads"),)),
        Rule(_T + "attention.wv.weight", _L + "self_attn.v_proj.weight"),
        Rule(_T + "attention.wo.weight", _L + "self_attn.o_proj.weight"),
        Rule(_T + "ffn_norm.weight", _L + "post_attention_layernorm.weight"),
        Rule(_T + "feed_forward.gate.weight", _MOE + ".gate.weight"),
        *(Rule(f"{_T}feed_forward.experts.{{expert}}.{w}.weight", f"{_EXPERT}{w}.weight") for w in ("w1", "w2", "w3")),
        Rule("norm.weight", "model.norm.weight"),
        Rule("output.weight", "lm_head.weight"),
    ),
    (Ignored("rope.freqs", _COMPUTED, normal=True),),
    head_always=True,
    source="mistral-inference moe.py and transformer_layers.py",
    oracle=Oracle.DERIVED,
)
LITGPT = Layout(
    "litgpt",
    (
        Rule("transformer.wte.weight", "model.embed_tokens.weight"),
        Rule(_G + "norm_1.weight", _L + "input_layernorm.weight"),
        Rule(
            _G + "attn.qkv.weight",
            tuple(f"{_L}self_attn.{n}_proj.weight" for n in "qkv"),
            split=Split((_Q, _KV, _KV)),
        ),
        Rule(_G + "attn.proj.weight", _L + "self_attn.o_proj.weight"),
        Rule(_G + "norm_2.weight", _L + "post_attention_layernorm.weight"),
        Rule(_G + "mlp.gate.weight", _MOE + ".gate.weight"),
        Rule(_G + "mlp.experts.{expert}.fc_1.weight", _EXPERT + "w1.weight"),
        Rule(_G + "mlp.experts.{expert}.fc_2.weight", _EXPERT + "w3.weight"),
        Rule(_G + "mlp.experts.{expert}.proj.weight", _EXPERT + "w2.weight"),
        Rule("transformer.ln_f.weight", "model.norm.weight"),
        Rule("lm_head.weight", "lm_head.weight"),
    ),
    head_always=True,
    source="litgpt 0.5.11 scripts/convert_hf_checkpoint.py copy_weights_hf_llama",
    oracle=Oracle.LOADED,
)
# What was released first, as `consolidated.00.pt` to `.07.pt`: each file holds tensors of its own, no slices; experts
# lie under one another, w2 turned the other way round.
_STACKED = (Reshape(("experts*ffn", _H), ("experts", "ffn", _H)),)
RELEASE = Layout(
    "mixtral-release",
    (
        *(rule for rule in META.rules if "feed_forward" not in rule.name),
        Rule(_T + "block_sparse_moe.gate.weight", _MOE + ".gate.weight"),
        *(
            Rule(f"{_T}block_sparse_moe.{w}", f"{_EXPERT}{w}.weight", ops=_STACKED, stack="expert")
            for w in ("w1", "w3")
        ),
        Rule(_T + "block_sparse_moe.w2", _EXPERT + "w2.weight", ops=_STACKED, stack="expert", each=((Transpose(),),)),
    ),
    META.ignored,
    head_always=True,
    source="transformers 4.36 convert_mixtral_weights_to_hf.py",
    oracle=Oracle.DERIVED,
)
FUSED = fused(
    SLOTS,
    _MOE + ".experts",
    _L + "mlp.experts",
    ("w1", "w3", "w2"),
    {_MOE + ".gate.weight": _L + "mlp.gate.weight"},
)

FAMILIES = (
    Family(
        "mixtral",
        "Mixtral",
        ("mixtral",),
        "MixtralForCausalLM",
        SLOTS,
        (
            hf_layout(
                SLOTS,
                (Ignored(_L + "self_attn.rotary_emb.inv_freq", _COMPUTED),),
                source="transformers 4.57 modeling_mixtral",
                oracle=Oracle.SAVED,
            ),
            META,
            LITGPT,
            FUSED,
            RELEASE,
        ),
        tie_default=False,
        row_order=(
            ("hf", "halves"),
            ("hf-fused", "halves"),
            ("litgpt", "halves"),
            ("meta", "pairs"),
            ("mixtral-release", "pairs"),
        ),
        defaults=(("hidden_act", "silu"), ("num_experts_per_tok", 2), ("sliding_window", None)),
        source="transformers 4.57 configuration_mixtral",
    ),
)
