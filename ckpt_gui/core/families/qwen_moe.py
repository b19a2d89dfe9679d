"""Mixtures of experts of Qwen 2 and Qwen 3; some layers may be dense.

Sources: transformers 4.57 `modeling_qwen2_moe.py`, `modeling_qwen3_moe.py`, transformers 5 `conversion_mapping.py`,
`configuration_qwen3_moe.py`; torchtitan `models/qwen3/state_dict_adapter.py`.
"""

from __future__ import annotations

from ckpt_gui.core.families.decoder import Naming
from ckpt_gui.core.families.decoder_names import LITGPT, TORCHTITAN, TORCHTITAN_OLD
from ckpt_gui.core.families.experts import experts, fused
from ckpt_gui.core.families.rule_schema import Rule
from ckpt_gui.core.families.schema import Family, Ignored, Layout, Oracle, Slot, hf_layout
from ckpt_gui.dataclasses import replace

_L, _MLP = "model.layers.{layer}.", "model.layers.{layer}.mlp."
_Q, _KV, _H, _F = "heads*head_dim", "kv_heads*head_dim", "hidden", "ffn"
_COMPUTED = "holds the rotary frequencies, which every program computes by itself"
_MATRICES = ("gate_proj", "up_proj", "down_proj")

_BEFORE = (
    Slot("model.embed_tokens.weight", ("vocab", _H), role="embedding"),
    Slot(_L + "input_layernorm.weight", (_H,)),
    Slot(_L + "self_attn.q_proj.weight", (_Q, _H)),
    Slot(_L + "self_attn.k_proj.weight", (_KV, _H)),
    Slot(_L + "self_attn.v_proj.weight", (_KV, _H)),
    Slot(_L + "self_attn.o_proj.weight", (_H, _Q)),
    Slot(_L + "post_attention_layernorm.weight", (_H,)),
)
_AFTER = (
    Slot(_MLP + "gate.weight", ("experts", _H), group="moe"),
    *experts(_MLP + "experts", *_MATRICES, "moe_ffn"),
    Slot(_MLP + "gate_proj.weight", (_F, _H), group="dense"),
    Slot(_MLP + "up_proj.weight", (_F, _H), group="dense"),
    Slot(_MLP + "down_proj.weight", (_H, _F), group="dense"),
    Slot("model.norm.weight", (_H,)),
    Slot("lm_head.weight", ("vocab", _H), role="head"),
)
QWEN2_SLOTS = (
    *_BEFORE,
    Slot(_L + "self_attn.q_proj.bias", (_Q,), when="qkv_bias"),
    Slot(_L + "self_attn.k_proj.bias", (_KV,), when="qkv_bias"),
    Slot(_L + "self_attn.v_proj.bias", (_KV,), when="qkv_bias"),
    Slot(_MLP + "shared_expert.gate_proj.weight", ("shared_ffn", _H), group="moe"),
    Slot(_MLP + "shared_expert.up_proj.weight", ("shared_ffn", _H), group="moe"),
    Slot(_MLP + "shared_expert.down_proj.weight", (_H, "shared_ffn"), group="moe"),
    Slot(_MLP + "shared_expert_gate.weight", ("1", _H), group="moe"),
    *_AFTER,
)
QWEN3_SLOTS = (
    *_BEFORE,
    Slot(_L + "self_attn.q_proj.bias", (_Q,), when="attention_bias"),
    Slot(_L + "self_attn.k_proj.bias", (_KV,), when="attention_bias"),
    Slot(_L + "self_attn.v_proj.bias", (_KV,), when="attention_bias"),
    Slot(_L + "self_attn.o_proj.bias", (_H,), when="attention_bias"),
    Slot(_L + "self_attn.q_norm.weight", ("head_dim",)),
    Slot(_L + "self_attn.k_norm.weight", ("head_dim",)),
    *_AFTER,
)


def _layouts(slots: tuple[Slot, ...], source: str) -> tuple[Layout, ...]:
    ignored = (Ignored(_L + "self_attn.rotary_emb.inv_freq", _COMPUTED),)
    return (
        hf_layout(slots, ignored, source, Oracle.SAVED),
        fused(slots, _MLP + "experts", _MLP + "experts", _MATRICES, {}),
    )


_QWEN3_LITGPT = LITGPT.of(
    tuple(s for s in QWEN3_SLOTS if s.group != "dense"),  # its models have experts in every layer, or in none
    pairs=False,
    oracle=Oracle.LOADED,
    parts={
        "mlp.gate": "mlp.gate",
        "mlp.experts.{expert}.gate_proj": "mlp.experts.{expert}.fc_1",
        "mlp.experts.{expert}.up_proj": "mlp.experts.{expert}.fc_2",
        "mlp.experts.{expert}.down_proj": "mlp.experts.{expert}.proj",
    },
    source="litgpt 0.5.11 scripts/convert_hf_checkpoint.py copy_weights_qwen_3",
)


def _torchtitan(naming: Naming, experts: tuple[str, ...]) -> Layout:
    """Return torchtitan's layout, which has the experts of a layer in one tensor each for gate, up and down."""
    plain = tuple(s for s in QWEN3_SLOTS if not s.when and "{expert}" not in s.key)
    made = naming.of(plain, pairs=False, oracle=Oracle.DERIVED, parts={"mlp.gate": "moe.router.gate"}, source=_TITAN)
    rules = (
        Rule(f"layers.{{layer}}.moe.{name}", f"{_MLP}experts.{{expert}}.{hub}.weight", stack="expert")
        for name, hub in zip(experts, _MATRICES, strict=True)
    )
    counter = Ignored("layers.{layer}.moe.tokens_per_expert", "counts what the router chose while it trained")
    return replace(made, rules=(*made.rules, *rules), ignored=(*made.ignored, counter))


_TITAN = "torchtitan models/qwen3/state_dict_adapter.py"
_QWEN3_TORCHTITAN = (
    _torchtitan(TORCHTITAN, tuple(f"routed_experts.inner_experts.{n}" for n in ("w1_EFD", "w3_EFD", "w2_EDF"))),
    _torchtitan(TORCHTITAN_OLD, tuple(f"experts.{n}" for n in ("w1", "w3", "w2"))),
)
_ROW_ORDER = (
    *(("hf", "halves"), ("hf-fused", "halves"), ("litgpt", "halves")),
    *(("torchtitan", "halves"), ("torchtitan-old", "halves")),
)

FAMILIES = (
    Family(
        "qwen2-moe",
        "Qwen 2 MoE",
        ("qwen2_moe",),
        "Qwen2MoeForCausalLM",
        QWEN2_SLOTS,
        _layouts(QWEN2_SLOTS, "transformers 4.57 modeling_qwen2_moe"),
        tie_default=False,
        row_order=_ROW_ORDER,
        source="transformers 4.57 configuration_qwen2_moe",
    ),
    Family(
        "qwen3-moe",
        "Qwen 3 MoE",
        ("qwen3_moe",),
        "Qwen3MoeForCausalLM",
        QWEN3_SLOTS,
        (*_layouts(QWEN3_SLOTS, "transformers 4.57 modeling_qwen3_moe"), _QWEN3_LITGPT, *_QWEN3_TORCHTITAN),
        tie_default=False,
        row_order=_ROW_ORDER,
        spelling=(("num_local_experts", "num_experts"),),
        source="transformers 4.57 and 5 configuration_qwen3_moe",
    ),
)
