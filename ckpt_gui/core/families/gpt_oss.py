"""GPT-OSS: all experts of a layer in one tensor, gate and up in turn, biases everywhere, sinks.

OpenAI's own files (`original/` beside the hub's) have q, k and v in one tensor and each expert's matrices with a row
for each output, as torchtitan has them; gate and up lie in turn everywhere, and the rows of q and k in halves. Sources:
transformers 4.57 `modeling_gpt_oss.py`, `convert_gpt_oss_weights_to_hf.py`; OpenAI gpt-oss `gpt_oss/torch/model.py`,
`weights.py`; torchtitan `models/gpt_oss/moe.py`, `state_dict_adapter.py`, whose names for the experts are an older
model's.
"""

from __future__ import annotations

from ckpt_gui.core.families.rule_schema import Rule, Split
from ckpt_gui.core.families.schema import Family, Ignored, Layout, Oracle, Slot, hf_layout
from ckpt_gui.core.shape_ops import Transpose

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

_O, _T = "block.{layer}.", "layers.{layer}."
_ATT, _EXPERTS = _L + "self_attn.", _L + "mlp.experts."
_ENDS = ("weight", "bias")
_INNER = _T + "moe.routed_experts.inner_experts."
OPENAI = Layout(
    "openai",
    (
        Rule("embedding.weight", "model.embed_tokens.weight"),
        Rule(_O + "attn.norm.scale", _L + "input_layernorm.weight"),
        *(
            Rule(f"{_O}attn.qkv.{end}", tuple(f"{_ATT}{n}_proj.{end}" for n in "qkv"), split=Split((_Q, _KV, _KV)))
            for end in _ENDS
        ),
        *(Rule(f"{_O}attn.out.{end}", f"{_ATT}o_proj.{end}") for end in _ENDS),
        Rule(_O + "attn.sinks", _ATT + "sinks"),
        Rule(_O + "mlp.norm.scale", _L + "post_attention_layernorm.weight"),
        *(Rule(f"{_O}mlp.gate.{end}", f"{_L}mlp.router.{end}") for end in _ENDS),
        Rule(_O + "mlp.mlp1_weight", _EXPERTS + "gate_up_proj", (Transpose(),)),
        Rule(_O + "mlp.mlp1_bias", _EXPERTS + "gate_up_proj_bias"),
        Rule(_O + "mlp.mlp2_weight", _EXPERTS + "down_proj", (Transpose(),)),
        Rule(_O + "mlp.mlp2_bias", _EXPERTS + "down_proj_bias"),
        Rule("norm.scale", "model.norm.weight"),
        Rule("unembedding.weight", "lm_head.weight"),
    ),
    head_always=True,
    source="openai/gpt-oss gpt_oss/torch/model.py",
    oracle=Oracle.DERIVED,
    always=("attention_bias",),
)
TORCHTITAN = Layout(
    "torchtitan",
    (
        Rule("tok_embeddings.weight", "model.embed_tokens.weight"),
        Rule(_T + "attention_norm.weight", _L + "input_layernorm.weight"),
        *(Rule(f"{_T}attention.qkv_linear.w{n}.{end}", f"{_ATT}{n}_proj.{end}") for n in "qkv" for end in _ENDS),
        *(Rule(f"{_T}attention.wo.{end}", f"{_ATT}o_proj.{end}") for end in _ENDS),
        Rule(_T + "attention.sinks", _ATT + "sinks"),
        Rule(_T + "ffn_norm.weight", _L + "post_attention_layernorm.weight"),
        *(Rule(f"{_T}moe.router.gate.{end}", f"{_L}mlp.router.{end}") for end in _ENDS),
        Rule(_INNER + "mlp1_weight_EGD", _EXPERTS + "gate_up_proj", (Transpose(),)),
        Rule(_INNER + "mlp1_bias_EG", _EXPERTS + "gate_up_proj_bias"),
        Rule(_INNER + "mlp2_weight_EDF", _EXPERTS + "down_proj", (Transpose(),)),
        Rule(_INNER + "mlp2_bias_ED", _EXPERTS + "down_proj_bias"),
        Rule("norm.weight", "model.norm.weight"),
        Rule("lm_head.weight", "lm_head.weight"),
    ),
    head_always=True,
    source="torchtitan models/gpt_oss/model.py and moe.py",
    oracle=Oracle.DERIVED,
    always=("attention_bias",),
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
            OPENAI,
            TORCHTITAN,
        ),
        tie_default=False,
        row_order=(("hf", "halves"), ("openai", "halves"), ("torchtitan", "halves")),
        source="transformers 4.57 configuration_gpt_oss",
    ),
)
