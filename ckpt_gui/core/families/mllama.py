"""Llama 3.2 Vision (Mllama): a Llama with layers that look at an image, and an image encoder.

The embedding has eight rows more than the head: they stand for the image, and are never put out; Meta and torchtune
keep them as a tensor of their own. Meta and torchtune also count the layers that look at the image by themselves (see
`numbering`), and have the rows of q and k in pairs in the other layers: those that look at the image, and the encoder,
turn nothing. Meta's ranks are cut as in a Llama 3. Sources: transformers 4.57 `modeling_mllama.py`, 4.45
`convert_mllama_weights_to_hf.py`, 5 `conversion_mapping.py`; Meta llama-models `models/llama3/multimodal/model.py`;
torchtune 0.6.1 `models/llama3_2_vision/_convert_weights.py`.
"""

from __future__ import annotations

from ckpt_gui.core.families.numbering import CROSS, SELF
from ckpt_gui.core.families.rule_schema import Rule, Split
from ckpt_gui.core.families.schema import Family, Ignored, Layout, Oracle, Slot, hf_layout
from ckpt_gui.core.image_ops import Patches, TilePlaces
from ckpt_gui.core.ops import Op, RopePermute
from ckpt_gui.dataclasses import replace

_L, _V = "language_model.model.layers.{layer}.", "vision_model."
_LOCAL, _GLOBAL = (
    "vision_model.transformer.layers.{vision_layer}.",
    "vision_model.global_transformer.layers.{global_layer}.",
)
_Q, _KV, _H, _F, _W, _I = "heads*head_dim", "kv_heads*head_dim", "hidden", "ffn", "vision_hidden", "vision_ffn"
_ENDS = ("weight", "bias")
_COMPUTED = "holds the rotary frequencies, which every program computes by itself"
EXTRA_ROWS = 8  # of the embedding: what stands for an image


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


_TEXT = (
    Slot("language_model.model.embed_tokens.weight", (f"vocab+{EXTRA_ROWS}", _H), role="embedding"),
    Slot(_L + "input_layernorm.weight", (_H,)),
    *_attention("self_attn", SELF),
    *_attention("cross_attn", CROSS),
    Slot(_L + "cross_attn.q_norm.weight", ("head_dim",), group=CROSS),
    Slot(_L + "cross_attn.k_norm.weight", ("head_dim",), group=CROSS),
    Slot(_L + "cross_attn_attn_gate", ("1",), group=CROSS),
    Slot(_L + "cross_attn_mlp_gate", ("1",), group=CROSS),
    Slot(_L + "post_attention_layernorm.weight", (_H,)),
    Slot(_L + "mlp.gate_proj.weight", (_F, _H)),
    Slot(_L + "mlp.up_proj.weight", (_F, _H)),
    Slot(_L + "mlp.down_proj.weight", (_H, _F)),
    Slot("language_model.model.norm.weight", (_H,)),
    Slot("language_model.lm_head.weight", ("vocab", _H), role="head"),
)
SLOTS = (
    *_TEXT,
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
TEXT_SLOTS = tuple(replace(slot, key=slot.key.removeprefix("language_model.")) for slot in _TEXT)

# ----------------------------------------------------------------------------------------------- Meta's and torchtune's

# Parts of both kinds of layers: Hugging Face's name, Meta's, torchtune's.
_BOTH = (
    ("input_layernorm.weight", "attention_norm.weight", "sa_norm.scale"),
    ("post_attention_layernorm.weight", "ffn_norm.weight", "mlp_norm.scale"),
    ("mlp.gate_proj.weight", "feed_forward.w1.weight", "mlp.w1.weight"),
    ("mlp.up_proj.weight", "feed_forward.w3.weight", "mlp.w3.weight"),
    ("mlp.down_proj.weight", "feed_forward.w2.weight", "mlp.w2.weight"),
)
_OTHERS = (
    *_BOTH,
    ("self_attn.q_proj.weight", "attention.wq.weight", "attn.q_proj.weight"),
    ("self_attn.k_proj.weight", "attention.wk.weight", "attn.k_proj.weight"),
    ("self_attn.v_proj.weight", "attention.wv.weight", "attn.v_proj.weight"),
    ("self_attn.o_proj.weight", "attention.wo.weight", "attn.output_proj.weight"),
)
_CROSSING = (
    ("input_layernorm.weight", "attention_norm.weight", "ca_norm.scale"),
    *_BOTH[1:],
    ("cross_attn.q_proj.weight", "attention.wq.weight", "attn.q_proj.weight"),
    ("cross_attn.k_proj.weight", "attention.wk.weight", "attn.k_proj.weight"),
    ("cross_attn.v_proj.weight", "attention.wv.weight", "attn.v_proj.weight"),
    ("cross_attn.o_proj.weight", "attention.wo.weight", "attn.output_proj.weight"),
    ("cross_attn.q_norm.weight", "attention.q_norm.weight", "attn.q_norm.scale"),
    ("cross_attn.k_norm.weight", "attention.k_norm.weight", "attn.k_norm.scale"),
    ("cross_attn_attn_gate", "gate_attn", "ca_scale.scale"),
    ("cross_attn_mlp_gate", "gate_ffwd", "mlp_scale.scale"),
)
_TURNED = {"self_attn.q_proj.weight": "heads", "self_attn.k_proj.weight": "kv_heads"}
# What the encoder has once: Hugging Face's name, Meta's behind `vision_model.vision_encoder.`, torchtune's behind
# `encoder.clip.`.
_ONCE = (
    ("class_embedding", "class_embedding", "cls_token_embedding.weight"),
    (
        "gated_positional_embedding.embedding",
        "positional_embedding",
        "token_pos_embedding.local_token_positional_embedding",
    ),
    ("gated_positional_embedding.gate", "gated_positional_embedding_gate", "token_pos_embedding.gate"),
    *(
        (f"{at}_tile_positional_embedding.gate", f"{at}_tile_pos_embed.gate", f"{at}_tile_pos_embed.gate")
        for at in ("pre", "post")
    ),
    *((f"layernorm_{at}.{end}", f"ln_{at}.{end}", f"ln_{at}.{end}") for at in ("pre", "post") for end in _ENDS),
)
_PLACES = (
    (
        "gated_positional_embedding.tile_embedding.weight",
        "gated_positional_embedding",
        "token_pos_embedding.global_token_positional_embedding",
        TilePlaces("vision_patches", _W),
    ),
    *(
        (
            f"{at}_tile_positional_embedding.embedding.weight",
            f"{at}_tile_pos_embed.embedding",
            f"{at}_tile_pos_embed.embedding",
            TilePlaces(1, _W),
        )
        for at in ("pre", "post")
    ),
)
# A layer of the encoder.
_PARTS = (
    *((f"self_attn.{n}_proj.weight", f"attn.w{n}.weight", f"attn.{n}_proj.weight") for n in "qkv"),
    ("self_attn.o_proj.weight", "attn.wo.weight", "attn.output_proj.weight"),
    *((f"mlp.fc1.{end}", f"mlp.c_fc.{end}", f"mlp.w1.{end}") for end in _ENDS),
    *((f"mlp.fc2.{end}", f"mlp.c_proj.{end}", f"mlp.w2.{end}") for end in _ENDS),
    *((f"input_layernorm.{end}", f"ln_1.{end}", f"sa_norm.{end}") for end in _ENDS),
    *((f"post_attention_layernorm.{end}", f"ln_2.{end}", f"mlp_norm.{end}") for end in _ENDS),
)
_GATES = (("gate_attn", "gate_attn", "sa_scale.scale"), ("gate_ffn", "gate_ffn", "mlp_scale.scale"))

_M, _T = 1, 2  # columns of the rows above


def _rules(column: int, text: str, crossing: str, encoder: str, local: str, outer: str) -> tuple[Rule, ...]:
    """Return the rules of what Meta and torchtune name differently and else have alike.

    Args:
        column: Which of the names.
        text: What stands before the parts of a layer that does not look at the image.
        crossing: Before those of one that does.
        encoder: Before what the encoder has once.
        local: Before the parts of its layers.
        outer: Before those of the layers that see all tiles.
    """
    return (
        *(Rule(text + row[column], _L + row[0], _turned(row[0]), kind=SELF) for row in _OTHERS),
        *(Rule(crossing + row[column], _L + row[0], kind=CROSS) for row in _CROSSING),
        *(Rule(encoder + row[column], _V + row[0]) for row in _ONCE),
        *(Rule(encoder + names[column - 1], _V + hub, (places,)) for hub, *names, places in _PLACES),
        *(Rule(local + row[column], _LOCAL + row[0]) for row in _PARTS),
        *(Rule(outer + row[column], _GLOBAL + row[0]) for row in (*_PARTS, *_GATES)),
    )


def _turned(part: str) -> tuple[Op, ...]:
    return (RopePermute(_TURNED[part]),) if part in _TURNED else ()


def _embedding(own: str, extra: str) -> Rule:
    return Rule((own, extra), _TEXT[0].key, split=Split(("vocab", EXTRA_ROWS)))


_ENCODER = "vision_model.vision_encoder."
_META_LAYERS = ("text_model.layers.{layer}.", "text_model.cross_attention_layers.{layer}.")
_META_BLOCKS = (
    _ENCODER + "transformer.resblocks.{vision_layer}.",
    _ENCODER + "global_transformer.resblocks.{global_layer}.",
)
_META_RANKS = (
    ("text_model.tok_embeddings.weight", 0),
    ("text_model.learnable_embedding.weight", 0),
    ("text_model.output.weight", 0),
    *((f"{before}attention.{name}.weight", 0) for before in _META_LAYERS for name in ("wq", "wk", "wv")),
    *((f"{before}feed_forward.{name}.weight", 0) for before in _META_LAYERS for name in ("w1", "w3")),
    *((f"{before}{name}.weight", 1) for before in _META_LAYERS for name in ("attention.wo", "feed_forward.w2")),
    (_ENCODER + "conv1._linear.weight", 0),
    *((f"{before}attn.{name}.weight", 0) for before in _META_BLOCKS for name in ("wq", "wk", "wv")),
    *((f"{before}mlp.c_fc.{end}", 0) for before in _META_BLOCKS for end in _ENDS),
    *((f"{before}{name}.weight", 1) for before in _META_BLOCKS for name in ("attn.wo", "mlp.c_proj")),
    *((f"vision_model.vision_projection.{end}", 0) for end in _ENDS),
)
META = Layout(
    "meta",
    (
        _embedding("text_model.tok_embeddings.weight", "text_model.learnable_embedding.weight"),
        *_rules(_M, *_META_LAYERS, _ENCODER, *_META_BLOCKS),
        Rule(_ENCODER + "conv1._linear.weight", _V + "patch_embedding.weight", (Patches(),)),
        *(Rule(f"vision_model.vision_projection.{end}", f"multi_modal_projector.{end}") for end in _ENDS),
        Rule("text_model.norm.weight", "language_model.model.norm.weight"),
        Rule("text_model.output.weight", "language_model.lm_head.weight"),
    ),
    (Ignored("text_model.rope.freqs", _COMPUTED, normal=True),),
    head_always=True,
    source="meta-llama/llama-models models/llama3/multimodal/model.py",
    rank_dims=_META_RANKS,
    oracle=Oracle.CONVERTER,
    numbering="spread",
)
TORCHTUNE = Layout(
    "torchtune",
    (
        _embedding("decoder.tok_embeddings.weight", "decoder.tok_embeddings.fusion_embedding.weight"),
        *_rules(
            _T,
            "decoder.layers.{layer}.",
            "decoder.layers.{layer}.fusion_layer.",
            "encoder.clip.",
            "encoder.clip.layers.{vision_layer}.",
            "encoder.projection.layers.{global_layer}.",
        ),
        Rule("encoder.clip.conv.weight", _V + "patch_embedding.weight"),
        *(Rule(f"encoder.projection.output.{end}", f"multi_modal_projector.{end}") for end in _ENDS),
        Rule("decoder.norm.scale", "language_model.model.norm.weight"),
        Rule("decoder.output.weight", "language_model.lm_head.weight"),
    ),
    source="torchtune 0.6.1 models/llama3_2_vision/_convert_weights.py",
    oracle=Oracle.LOADED,
    program_type="LLAMA3_VISION",
    numbering="beside",
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
        ("mllama",),
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
            META,
            TORCHTUNE,
        ),
        tie_default=False,
        row_order=(("hf", "halves"), ("hf-fused", "halves"), ("meta", "pairs"), ("torchtune", "pairs")),
        source="transformers 4.57 configuration_mllama",
    ),
    Family(
        "mllama-text",
        "Llama 3.2 Vision text",
        ("mllama_text_model",),
        "MllamaForCausalLM",
        TEXT_SLOTS,
        (
            hf_layout(
                TEXT_SLOTS,
                (Ignored("model.layers.{layer}.self_attn.rotary_emb.inv_freq", _COMPUTED),),
                source="transformers 4.57 modeling_mllama",
                oracle=Oracle.SAVED,
            ),
        ),
        tie_default=False,
        row_order=(("hf", "halves"),),
        source="transformers 4.57 configuration_mllama",
    ),
)
