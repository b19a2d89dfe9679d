"""DeepSeek 2 and 3: latent attention, experts of which some are shared, first layers that are dense.

What stands behind the counted layers predicts further tokens; transformers leaves it out, an export keeps it where the
layout has names for it. Neither DeepSeek's own program nor torchtitan turns a row of what is rotated: all have it in
pairs. Sources: transformers 4.57 `modeling_deepseek_v2.py`, `modeling_deepseek_v3.py`, transformers 5
`conversion_mapping.py`; the index of DeepSeek-V3's files for the layer behind the last one; DeepSeek-V3
`inference/convert.py`, `model.py`; torchtitan `models/deepseek_v3/state_dict_adapter.py`, `model.py`.
"""

from __future__ import annotations

from ckpt_gui.core.families.experts import experts, fused
from ckpt_gui.core.families.rule_schema import Rule
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


# Parts of a layer: Hugging Face's name, DeepSeek's own, torchtitan's; without `.weight`.
_NAMES = (
    ("input_layernorm", "attn_norm", "attention_norm"),
    ("self_attn.q_proj", "attn.wq", "attention.wq"),
    ("self_attn.q_a_proj", "attn.wq_a", "attention.wq_a"),
    ("self_attn.q_a_layernorm", "attn.q_norm", "attention.q_norm"),
    ("self_attn.q_b_proj", "attn.wq_b", "attention.wq_b"),
    ("self_attn.kv_a_proj_with_mqa", "attn.wkv_a", "attention.wkv_a"),
    ("self_attn.kv_a_layernorm", "attn.kv_norm", "attention.kv_norm"),
    ("self_attn.kv_b_proj", "attn.wkv_b", "attention.wkv_b"),
    ("self_attn.o_proj", "attn.wo", "attention.wo"),
    ("post_attention_layernorm", "ffn_norm", "ffn_norm"),
    ("mlp.gate", "ffn.gate", "moe.router.gate"),
    *(
        (f"mlp.{part}{name}_proj", f"ffn.{part}{w}", f"{titan}.{w}")
        for part, titan in (("", "feed_forward"), ("shared_experts.", "moe.shared_experts"))
        for name, w in (("gate", "w1"), ("up", "w3"), ("down", "w2"))
    ),
)
_OWN_EXPERTS = (("gate_proj", "w1"), ("up_proj", "w3"), ("down_proj", "w2"))
_TITAN_EXPERTS = (("gate_proj", "w1_EFD"), ("up_proj", "w3_EFD"), ("down_proj", "w2_EDF"))
_INNER = "layers.{layer}.moe.routed_experts.inner_experts."
_FURTHER = (EXTRA, "the layers that predict further tokens")


def _own(slots: tuple[Slot, ...]) -> Layout:
    """Return DeepSeek's own layout, as `convert.py` writes it for one rank."""
    return _named(
        "deepseek",
        slots,
        1,
        ("embed.weight", "norm.weight", "head.weight"),
        (Rule("layers.{layer}.ffn.gate.bias", _MLP + "gate.e_score_correction_bias"),),
        tuple(
            Rule(f"layers.{{layer}}.ffn.experts.{{expert}}.{w}.weight", f"{_MLP}experts.{{expert}}.{name}.weight")
            for name, w in _OWN_EXPERTS
        ),
        "deepseek-ai/DeepSeek-V3 inference/convert.py",
    )


def _titan(slots: tuple[Slot, ...]) -> Layout:
    return _named(
        "torchtitan",
        slots,
        2,
        ("tok_embeddings.weight", "norm.weight", "lm_head.weight"),
        (Rule("layers.{layer}.moe.expert_bias_E", _MLP + "gate.e_score_correction_bias"),),
        tuple(
            Rule(_INNER + w, f"{_MLP}experts.{{expert}}.{name}.weight", stack="expert") for name, w in _TITAN_EXPERTS
        ),
        "torchtitan models/deepseek_v3/state_dict_adapter.py",
    )


def _named(
    name: str,
    slots: tuple[Slot, ...],
    column: int,
    top: tuple[str, str, str],
    correction: tuple[Rule, ...],
    of_experts: tuple[Rule, ...],
    source: str,
) -> Layout:
    """Return a layout that has other names, and no biases.

    Args:
        name: Of the layout.
        slots: The family's.
        column: Where its names stand in `_NAMES`.
        top: Embedding, last norm and head.
        correction: The rule of the router's correction, for families that have it.
        of_experts: The rules of the experts.
        source: Where the names were taken from.
    """
    known = {slot.key for slot in slots}
    ends = ("model.embed_tokens.weight", "model.norm.weight", "lm_head.weight")
    rules = (
        *(Rule(stored, hub) for stored, hub in zip(top, ends, strict=True)),
        *(Rule(f"layers.{{layer}}.{row[column]}.weight", f"{_L}{row[0]}.weight") for row in _NAMES),
        *(rule for rule in correction if rule.hub in known),
        *of_experts,
    )
    leaves = (_FURTHER,) if any(slot.group == EXTRA for slot in slots) else ()
    return Layout(name, rules, head_always=True, source=source, oracle=Oracle.DERIVED, leaves=leaves)


def _layouts(slots: tuple[Slot, ...], source: str) -> tuple[Layout, ...]:
    ignored = (Ignored(_ATT + "rotary_emb.inv_freq", _COMPUTED),)
    return (
        hf_layout(slots, ignored, source, Oracle.SAVED),
        fused(slots, _MLP + "experts", _MLP + "experts", _MATRICES, {}),
        _own(slots),
        _titan(slots),
    )


_ROW_ORDER = tuple((name, "pairs") for name in ("hf", "hf-fused", "deepseek", "torchtitan"))

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
