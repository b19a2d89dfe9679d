"""Models that see images in the layouts of other programs, derived a second time, with numpy and by hand."""

from __future__ import annotations

import re

import numpy as np

from tests.core.models import State, to_pairs

SHAPES_OF_TWO_TILES = ((1, 1), (1, 2), (2, 1))  # height and width of an image, in the order of its rows
Names = tuple[tuple[str, str], ...]
_TILED = ("tile_embedding.weight", "tile_positional_embedding.embedding.weight")


def of_one_grid(state: State, width: int) -> None:
    """Make what is added to tiles fit together, as it does in every model that came from Meta."""
    for key in state:
        if not key.endswith(_TILED):
            continue
        rows = state[key].reshape(4, 2, -1)
        grid = rows[:2].copy().reshape(2, 2, -1) + 0.5
        grid[1, 1] = 0  # fits no image of two tiles
        rows[:] = 0
        for number, (height, across) in enumerate(SHAPES_OF_TWO_TILES, 1):
            rows[number, : height * across] = grid[:height, :across].reshape(height * across, -1)
        assert rows.shape[-1] % width == 0


def _grid(rows: np.ndarray, width: int) -> np.ndarray:
    """The grid of 2 × 2 tiles that the rows come from."""
    one, wide, high = rows.reshape(4, 2, -1)[1:]
    assert np.array_equal(one[0], wide[0])
    assert np.array_equal(one[0], high[0])
    cells = np.stack([np.stack([wide[0], wide[1]]), np.stack([high[1], np.zeros_like(high[1])])])
    return cells.reshape(2, 2, -1, width)


def _numbers(state: State) -> tuple[list[int], list[int]]:
    """The layers that look at no image, and those that do."""
    layers = {
        int(m[1]): "cross_attn." in key
        for key in state
        if (m := re.search(r"language_model.model.layers\.(\d+)\..*attn\.q_proj", key))
    }
    return sorted(n for n in layers if not layers[n]), sorted(n for n in layers if layers[n])


def _mllama(state: State, names: Names, text: str, crossing: str, extra: str, *, beside: bool) -> State:
    others, looking = _numbers(state)
    made: State = {}
    for key, value in state.items():
        layer = re.match(r"language_model\.model\.layers\.(\d+)\.", key)
        name = key
        if layer:
            number = int(layer[1])
            place = sum(n < number for n in others)
            before = text if number in others else crossing
            shown = place if number in others or beside else looking.index(number)
            name = before.format(shown) + key[layer.end() :]
            if ".self_attn.q_proj" in key or ".self_attn.k_proj" in key:
                value = to_pairs(value, 6 if "q_proj" in key else 2)
        for old, new in names:
            name = re.sub(old, new, name)
        if key.endswith(_TILED):
            value = _grid(value, 18)
        if key.endswith("embed_tokens.weight"):
            made[extra] = value[-8:]
            value = value[:-8]
        made[name] = value
    return made


def mllama_meta(state: State) -> State:
    """Llama 3.2 Vision as Meta has it."""
    names = (
        (r"language_model\.model\.embed_tokens", "text_model.tok_embeddings"),
        (r"language_model\.model\.norm", "text_model.norm"),
        (r"language_model\.lm_head", "text_model.output"),
        (r"(self|cross)_attn\.([qkvo])_proj", r"attention.w\2"),
        (r"cross_attn\.([qk])_norm", r"attention.\1_norm"),
        ("cross_attn_attn_gate", "gate_attn"),
        ("cross_attn_mlp_gate", "gate_ffwd"),
        (r"^(text_model.*)input_layernorm", r"\1attention_norm"),
        (r"^(text_model.*)post_attention_layernorm", r"\1ffn_norm"),
        (r"mlp\.gate_proj", "feed_forward.w1"),
        (r"mlp\.up_proj", "feed_forward.w3"),
        (r"mlp\.down_proj", "feed_forward.w2"),
        (r"^multi_modal_projector", "vision_model.vision_projection"),
        (r"^vision_model\.(?!vision_projection)", "vision_model.vision_encoder."),
        (r"patch_embedding\.", "conv1._linear."),
        (r"gated_positional_embedding\.embedding", "positional_embedding"),
        (r"gated_positional_embedding\.tile_embedding\.weight", "gated_positional_embedding"),
        (r"gated_positional_embedding\.gate", "gated_positional_embedding_gate"),
        (r"(pre|post)_tile_positional_embedding\.embedding\.weight", r"\1_tile_pos_embed.embedding"),
        (r"(pre|post)_tile_positional_embedding\.gate", r"\1_tile_pos_embed.gate"),
        (r"layernorm_(pre|post)", r"ln_\1"),
        (r"transformer\.layers", "transformer.resblocks"),
        (r"self_attn\.([qkvo])_proj", r"attn.w\1"),
        (r"resblocks\.(\d+)\.self_attn", r"resblocks.\1.attn"),
        (r"(resblocks.*)attention\.w", r"\1attn.w"),
        (r"mlp\.fc1", "mlp.c_fc"),
        (r"mlp\.fc2", "mlp.c_proj"),
        (r"(resblocks.*)input_layernorm", r"\1ln_1"),
        (r"(resblocks.*)post_attention_layernorm", r"\1ln_2"),
    )
    made = _mllama(
        state, names, "text_model.layers.{}.", "text_model.cross_attention_layers.{}.",
        "text_model.learnable_embedding.weight", beside=False,
    )  # fmt: skip
    patches = "vision_model.vision_encoder.conv1._linear.weight"
    return made | {patches: made[patches].reshape(len(made[patches]), -1)}


def mllama_torchtune(state: State) -> State:
    """Llama 3.2 Vision as torchtune has it."""
    names = (
        (r"language_model\.model\.embed_tokens", "decoder.tok_embeddings"),
        (r"language_model\.model\.norm.weight", "decoder.norm.scale"),
        (r"language_model\.lm_head", "decoder.output"),
        (r"(decoder.*)(self|cross)_attn\.([qkv])_proj", r"\1attn.\3_proj"),
        (r"(decoder.*)(self|cross)_attn\.o_proj", r"\1attn.output_proj"),
        (r"cross_attn\.([qk])_norm.weight", r"attn.\1_norm.scale"),
        ("cross_attn_attn_gate", "ca_scale.scale"),
        ("cross_attn_mlp_gate", "mlp_scale.scale"),
        (r"(fusion_layer.*)input_layernorm.weight", r"\1ca_norm.scale"),
        (r"^(decoder.*)input_layernorm.weight", r"\1sa_norm.scale"),
        (r"^(decoder.*)post_attention_layernorm.weight", r"\1mlp_norm.scale"),
        (r"mlp\.gate_proj", "mlp.w1"),
        (r"mlp\.up_proj", "mlp.w3"),
        (r"mlp\.down_proj", "mlp.w2"),
        (r"^multi_modal_projector", "encoder.projection.output"),
        (r"^vision_model\.global_transformer\.layers", "encoder.projection.layers"),
        (r"^vision_model\.transformer\.layers", "encoder.clip.layers"),
        (r"^vision_model\.", "encoder.clip."),
        (r"patch_embedding\.", "conv."),
        ("class_embedding", "cls_token_embedding.weight"),
        (r"gated_positional_embedding\.embedding", "token_pos_embedding.local_token_positional_embedding"),
        (
            r"gated_positional_embedding\.tile_embedding\.weight",
            "token_pos_embedding.global_token_positional_embedding",
        ),
        (r"gated_positional_embedding\.gate", "token_pos_embedding.gate"),
        (r"(pre|post)_tile_positional_embedding\.embedding\.weight", r"\1_tile_pos_embed.embedding"),
        (r"(pre|post)_tile_positional_embedding\.gate", r"\1_tile_pos_embed.gate"),
        (r"layernorm_(pre|post)", r"ln_\1"),
        (r"(encoder.*)self_attn\.([qkv])_proj", r"\1attn.\2_proj"),
        (r"(encoder.*)self_attn\.o_proj", r"\1attn.output_proj"),
        (r"mlp\.fc", "mlp.w"),
        (r"(encoder.*)input_layernorm", r"\1sa_norm"),
        (r"(encoder.*)post_attention_layernorm", r"\1mlp_norm"),
        (r"(encoder.*)gate_attn", r"\1sa_scale.scale"),
        (r"(encoder.*)gate_ffn", r"\1mlp_scale.scale"),
    )
    return _mllama(
        state, names, "decoder.layers.{}.", "decoder.layers.{}.fusion_layer.",
        "decoder.tok_embeddings.fusion_embedding.weight", beside=True,
    )  # fmt: skip


def _llama4_experts(state: State, ffn: int) -> State:
    """Gate and up of all experts apart."""
    made: State = {}
    for key, value in state.items():
        if key.endswith("experts.gate_up_proj"):
            made[key.replace("gate_up_proj", "gate_proj")] = value[:, :, :ffn].copy()
            made[key.replace("gate_up_proj", "up_proj")] = value[:, :, ffn:].copy()
        else:
            made[key] = value
    return made


def _substituted(state: State, names: Names) -> State:
    made: State = {}
    for key, value in state.items():
        for old, new in names:
            key = re.sub(old, new, key)
        made[key] = value
    return made


def llama4_meta(state: State) -> State:
    """Llama 4 as Meta has it: with images, or the text model by itself."""
    made = {}
    for key, value in _llama4_experts(state, 20).items():
        if re.search(r"experts\.(gate|up|down)_proj$", key):
            value = value.reshape(-1, value.shape[-1])
        elif key.endswith("router.weight"):
            value = value.T.copy()
        made[key] = value
    return _substituted(
        made,
        (
            (r"^(language_model\.)?model\.embed_tokens", "tok_embeddings"),
            (r"^(language_model\.)?model\.norm", "norm"),
            (r"^(language_model\.)?lm_head", "output"),
            (r"^(language_model\.)?model\.layers", "layers"),
            (r"^(layers.*)input_layernorm", r"\1attention_norm"),
            (r"^(layers.*)post_attention_layernorm", r"\1feed_forward.norm"),
            (r"^(layers.*)self_attn\.(.)_proj", r"\1attention.w\2"),
            (r"router\.weight", "router_DE"),
            (r"experts\.gate_proj", "experts.moe_w_in_eD_F"),
            (r"experts\.up_proj", "experts.moe_w_swiglu_eD_F"),
            (r"experts\.down_proj", "experts.moe_w_out_eF_D"),
            (r"shared_expert\.gate_proj", "w_in_shared_FD"),
            (r"shared_expert\.up_proj", "w_swiglu_FD"),
            (r"shared_expert\.down_proj", "w_out_shared_DF"),
            (r"feed_forward\.gate_proj", "feed_forward.w1"),
            (r"feed_forward\.up_proj", "feed_forward.w3"),
            (r"feed_forward\.down_proj", "feed_forward.w2"),
            (r"^multi_modal_projector\.linear_1", "vision_projection"),
            (r"^vision_model\.vision_adapter\.mlp\.fc1", "vision_embeddings.vision_adapter.mlp.c_fc"),
            (r"^vision_model\.vision_adapter\.mlp\.fc2", "vision_embeddings.vision_adapter.mlp.c_proj"),
            (r"^vision_model\.patch_embedding\.linear", "vision_embeddings.vision_encoder.conv1._linear"),
            (r"^vision_model\.layernorm_(pre|post)", r"vision_embeddings.vision_encoder.ln_\1"),
            (r"^vision_model\.model\.layers", "vision_embeddings.vision_encoder.transformer.resblocks"),
            (r"^vision_model\.", "vision_embeddings.vision_encoder."),
            (r"(resblocks.*)self_attn\.(.)_proj", r"\1attn.w\2"),
            (r"mlp\.fc1", "mlp.c_fc"),
            (r"mlp\.fc2", "mlp.c_proj"),
            (r"(resblocks.*)input_layernorm", r"\1ln_1"),
            (r"(resblocks.*)post_attention_layernorm", r"\1ln_2"),
        ),
    )


def llama4_torchtune(state: State) -> State:
    """The text model of Llama 4 as torchtune has it."""
    return _substituted(
        _llama4_experts(state, 20),
        (
            (r"^(language_model\.)?model\.embed_tokens", "decoder.tok_embeddings"),
            (r"^(language_model\.)?model\.norm\.weight", "decoder.norm.scale"),
            (r"^(language_model\.)?lm_head", "decoder.output"),
            (r"^(language_model\.)?model\.layers", "decoder.layers"),
            (r"^(decoder.*)input_layernorm\.weight", r"\1sa_norm.scale"),
            (r"^(decoder.*)post_attention_layernorm\.weight", r"\1mlp_norm.scale"),
            ("self_attn", "attn"),
            ("o_proj", "output_proj"),
            ("feed_forward", "mlp"),
            (r"router\.weight", "router.gate.weight"),
            (r"^(decoder.*)gate_proj\.weight", r"\1w1.weight"),
            (r"^(decoder.*)up_proj\.weight", r"\1w3.weight"),
            (r"^(decoder.*)down_proj\.weight", r"\1w2.weight"),
        ),
    )
