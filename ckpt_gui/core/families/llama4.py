"""Llama 4: layers of experts, with dense ones between them in the larger model, and an image encoder.

Hugging Face keeps all experts of a layer in one tensor, inputs × outputs, gate beside up; Meta and torchtune keep gate
and up apart, and Meta the experts of a layer one below the other. No row of q and k changes its place among these, nor
in the encoder, which turns them too. Meta's programs read several spellings of some names, and so does this table; what
is written is what Meta's, torchtune's and transformers' programs all read. Meta's ranks are cut in each expert. Of
torchtune the text model alone is known here: its names for the encoder tell parts apart by a number. Sources:
transformers 4.57 `modeling_llama4.py`, `convert_llama4_weights_to_hf.py`; Meta llama-models `models/llama4/model.py`,
`moe.py`, `ffn.py`, `vision/embedding.py`, `models/checkpoint.py`; torchtune `models/llama4/_convert_weights.py`.
"""

from __future__ import annotations

from ckpt_gui.core.families.rule_schema import Rule, Split
from ckpt_gui.core.families.schema import Family, Ignored, Layout, Oracle, Slot, hf_layout
from ckpt_gui.core.ops import Op
from ckpt_gui.core.shape_ops import Reshape, Transpose
from ckpt_gui.core.symbols import EQUAL
from ckpt_gui.dataclasses import replace

_L, _FF = "model.layers.{layer}.", "model.layers.{layer}.feed_forward."
_T, _M = "decoder.layers.{layer}.", "layers.{layer}."
_Q, _KV, _H, _F, _E = "heads*head_dim", "kv_heads*head_dim", "hidden", "ffn", "experts"
_COMPUTED = "holds the rotary frequencies, which every program computes by itself"
_ENDS = ("weight", "bias")

# (hub, Meta, torchtune, shape, kind of layer); what has no name there is fused with others.
_PARTS = (
    ("input_layernorm.weight", "attention_norm.weight", "sa_norm.scale", (_H,), ""),
    ("self_attn.q_proj.weight", "attention.wq.weight", "attn.q_proj.weight", (_Q, _H), ""),
    ("self_attn.k_proj.weight", "attention.wk.weight", "attn.k_proj.weight", (_KV, _H), ""),
    ("self_attn.v_proj.weight", "attention.wv.weight", "attn.v_proj.weight", (_KV, _H), ""),
    ("self_attn.o_proj.weight", "attention.wo.weight", "attn.output_proj.weight", (_H, _Q), ""),
    ("post_attention_layernorm.weight", "feed_forward.norm.weight", "mlp_norm.scale", (_H,), ""),
    ("feed_forward.router.weight", "feed_forward.router_DE", "mlp.router.gate.weight", (_E, _H), "moe"),
    ("feed_forward.experts.gate_up_proj", "", "", (_E, _H, "2*ffn"), "moe"),
    (
        "feed_forward.experts.down_proj",
        "feed_forward.experts.moe_w_out_eF_D",
        "mlp.experts.down_proj",
        (_E, _F, _H),
        "moe",
    ),
    *(
        (
            f"feed_forward.shared_expert.{name}_proj.weight",
            f"feed_forward.{meta}.weight",
            f"mlp.shared_expert.{tune}.weight",
            shape,
            "moe",
        )
        for name, meta, tune, shape in (
            ("gate", "w_in_shared_FD", "w1", (_F, _H)),
            ("up", "w_swiglu_FD", "w3", (_F, _H)),
            ("down", "w_out_shared_DF", "w2", (_H, _F)),
        )
    ),
    ("feed_forward.gate_proj.weight", "feed_forward.w1.weight", "mlp.w1.weight", ("dense_ffn", _H), "dense"),
    ("feed_forward.up_proj.weight", "feed_forward.w3.weight", "mlp.w3.weight", ("dense_ffn", _H), "dense"),
    ("feed_forward.down_proj.weight", "feed_forward.w2.weight", "mlp.w2.weight", (_H, "dense_ffn"), "dense"),
)
SLOTS = (
    Slot("model.embed_tokens.weight", ("vocab", _H), role="embedding"),
    *(Slot(_L + hub, shape, group=group) for hub, _, _, shape, group in _PARTS),
    Slot("model.norm.weight", (_H,)),
    Slot("lm_head.weight", ("vocab", _H), role="head"),
)

_BLOCK = "vision_model.model.layers.{vision_layer}."
_W, _I = "vision_hidden", "vision_ffn"
VISION_SLOTS = (
    *(replace(s, key="language_model." + s.key) for s in SLOTS),
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

# --------------------------------------------------------------------------------------------------------------- Meta

_EXPERTS = _M + "feed_forward.experts."
_INWARD: Op = Reshape(("experts*hidden", _F), (_E, _H, _F))
_OUTWARD: Op = Reshape(("experts*ffn", _H), (_E, _F, _H))
_OPS: dict[str, tuple[Op, ...]] = {
    "feed_forward.router_DE": (Transpose(),),
    "feed_forward.experts.moe_w_out_eF_D": (_OUTWARD,),
}
_META_TEXT = (
    Rule("tok_embeddings.weight", "model.embed_tokens.weight"),
    *(Rule(_M + meta, _L + hub, _OPS.get(meta, ())) for hub, meta, _, _, _ in _PARTS if meta),
    Rule(
        (_EXPERTS + "moe_w_in_eD_F", _EXPERTS + "moe_w_swiglu_eD_F"),
        _FF + "experts.gate_up_proj",
        split=Split((EQUAL, EQUAL), dim=2),
        each=((_INWARD,), (_INWARD,)),
    ),
    Rule("norm.weight", "model.norm.weight"),
    Rule("output.weight", "lm_head.weight"),
    Rule(_M + "attention.wqkv.layer_norm_weight", _L + "input_layernorm.weight", also=True),
    Rule(
        _M + "attention.wqkv.weight",
        tuple(f"{_L}self_attn.{n}_proj.weight" for n in "qkv"),
        split=Split((_Q, _KV, _KV)),
        also=True,
    ),
    *(
        Rule(_M + name, _L + "post_attention_layernorm.weight", also=True)
        for name in ("ffn_norm.weight", "feed_forward.mlp.layer_norm_weight")
    ),
    Rule(
        _M + "feed_forward.mlp.fc1_weight",
        (_FF + "gate_proj.weight", _FF + "up_proj.weight"),
        split=Split((EQUAL, EQUAL)),
        also=True,
    ),
    Rule(_M + "feed_forward.mlp.fc2_weight", _FF + "down_proj.weight", also=True),
    *(
        Rule(f"{_M}feed_forward.shared_expert.{w}.weight", f"{_FF}shared_expert.{name}_proj.weight", also=True)
        for w, name in (("w1", "gate"), ("w3", "up"), ("w2", "down"))
    ),
)
_COLUMNS = (
    *(f"attention.{name}.weight" for name in ("wq", "wk", "wv", "wqkv")),
    *(f"feed_forward.{name}.weight" for name in ("w1", "w3", "w_in_shared_FD", "w_swiglu_FD")),
    *(f"feed_forward.shared_expert.{name}.weight" for name in ("w1", "w3")),
    *("feed_forward.mlp.fc1_weight", "feed_forward.experts.moe_w_out_eF_D"),
)
_ROWS = (
    *("attention.wo.weight", "feed_forward.w2.weight", "feed_forward.w_out_shared_DF.weight"),
    *("feed_forward.shared_expert.w2.weight", "feed_forward.mlp.fc2_weight"),
    *("feed_forward.experts.moe_w_in_eD_F", "feed_forward.experts.moe_w_swiglu_eD_F"),
)
_META_RANKS = (
    ("tok_embeddings.weight", 0),
    ("output.weight", 0),
    *((_M + name, 0) for name in _COLUMNS),
    *((_M + name, 1) for name in _ROWS),
)
_RANK_PARTS = (
    (_EXPERTS + "moe_w_out_eF_D", _E),
    (_M + "feed_forward.mlp.fc1_weight", 2),
    (_M + "attention.wqkv.weight", (_Q, _KV, _KV)),
)
_COUNTED = "counts which experts were chosen in training"
_META_IGNORED = (
    Ignored("rope.freqs", _COMPUTED, normal=True),
    Ignored("freq_cis", _COMPUTED, normal=True),
    *(
        Ignored(f"{_M}feed_forward.{name}", _COUNTED, normal=True)
        for name in ("expert_activation_DE", "global_gate_stats_3E", "running_gate_stats_3E")
    ),
)
META = Layout(
    "meta",
    _META_TEXT,
    _META_IGNORED,
    head_always=True,
    source="meta-llama/llama-models models/llama4/model.py and models/checkpoint.py",
    rank_dims=_META_RANKS,
    rank_parts=_RANK_PARTS,
    oracle=Oracle.DERIVED,
)
TORCHTUNE = Layout(
    "torchtune",
    (
        Rule("decoder.tok_embeddings.weight", "model.embed_tokens.weight"),
        *(Rule(_T + tune, _L + hub) for hub, _, tune, _, _ in _PARTS if tune),
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
)

# ---------------------------------------------------------------------------------------------------- the image encoder

_V, _VM = "vision_model.", "vision_embeddings.vision_encoder."
_ADAPTER = "vision_embeddings.vision_adapter."
# What the encoder has once: Hugging Face's name, Meta's.
_ONCE = (
    (_V + "class_embedding", _VM + "class_embedding"),
    (_V + "positional_embedding_vlm", _VM + "positional_embedding_vlm"),
    (_V + "patch_embedding.linear.weight", _VM + "conv1._linear.weight"),
    *((f"{_V}layernorm_{at}.{end}", f"{_VM}ln_{at}.{end}") for at in ("pre", "post") for end in _ENDS),
    (_V + "vision_adapter.mlp.fc1.weight", _ADAPTER + "mlp.c_fc.weight"),
    (_V + "vision_adapter.mlp.fc2.weight", _ADAPTER + "mlp.c_proj.weight"),
    ("multi_modal_projector.linear_1.weight", "vision_projection.weight"),
)
_RESBLOCK = _VM + "transformer.resblocks.{vision_layer}."
_BLOCK_PARTS = tuple(
    (f"{hub}.{end}", f"{meta}.{end}")
    for hub, meta in (
        ("input_layernorm", "ln_1"),
        *((f"self_attn.{n}_proj", f"attn.w{n}") for n in "qkvo"),
        ("post_attention_layernorm", "ln_2"),
        ("mlp.fc1", "mlp.c_fc"),
        ("mlp.fc2", "mlp.c_proj"),
    )
    for end in _ENDS
)
_VISION_RANKS = (
    (_VM + "conv1._linear.weight", 0),
    *((f"{_RESBLOCK}{name}.{end}", 0) for name in ("attn.wq", "attn.wk", "attn.wv", "mlp.c_fc") for end in _ENDS),
    *((f"{_RESBLOCK}{name}.weight", 1) for name in ("attn.wo", "mlp.c_proj")),
    (_ADAPTER + "mlp.c_fc.weight", 0),
    (_ADAPTER + "mlp.c_proj.weight", 1),
    ("vision_projection.weight", 0),
)
_IDENTITY = "holds a layer that Meta's program has as nothing"


def _whole(rule: Rule) -> Rule:
    """Return a rule of the text model as one of the whole."""
    hub = rule.hub
    return replace(rule, hub=_below(hub) if isinstance(hub, str) else tuple(map(_below, hub)))


def _below(hub: str) -> str:
    return "language_model." + hub


VISION_META = replace(
    META,
    rules=(
        *map(_whole, _META_TEXT),
        *(Rule(meta, hub) for hub, meta in _ONCE),
        *(Rule(_RESBLOCK + meta, _BLOCK + hub) for hub, meta in _BLOCK_PARTS),
        *(  # as torchtune's converter looks for them
            Rule(f"vision_adapter.mlp.{meta}.weight", f"{_V}vision_adapter.mlp.{hub}.weight", also=True)
            for meta, hub in (("c_fc", "fc1"), ("c_proj", "fc2"))
        ),
    ),
    ignored=(
        *_META_IGNORED,
        Ignored("vision_adapter.fc.weight", _IDENTITY, normal=True),
        Ignored(_ADAPTER + "fc.weight", _IDENTITY, normal=True),
    ),
    rank_dims=(*_META_RANKS, *_VISION_RANKS),
)
_ROW_ORDER = (("hf", "pairs"), ("meta", "pairs"), ("torchtune", "pairs"))

FAMILIES = (
    Family(
        "llama4-vision",
        "Llama 4",
        ("llama4",),
        "Llama4ForConditionalGeneration",
        VISION_SLOTS,
        (
            hf_layout(VISION_SLOTS, (), source="transformers 4.57 modeling_llama4", oracle=Oracle.SAVED),
            VISION_META,
        ),
        tie_default=False,
        row_order=_ROW_ORDER[:2],
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
            META,
            TORCHTUNE,
        ),
        tie_default=False,
        row_order=_ROW_ORDER,
        source="transformers 4.57 configuration_llama4",
    ),
)
