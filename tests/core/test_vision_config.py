"""params.json of models that see images, and their config.json."""

from __future__ import annotations

from typing import Any

from ckpt_gui.core.config_write import hf_config, meta_params
from ckpt_gui.core.families.registry import BY_NAME
from ckpt_gui.core.meta_config import read_params
from ckpt_gui.core.model_config import read_config
from ckpt_gui.core.vision_config import unknown_encoder

# As Meta's file of Llama-3.2-11B-Vision says.
PARAMS_11B = {
    "dim": 4096, "n_layers": 32, "n_heads": 32, "n_kv_heads": 8, "vocab_size": 128256, "ffn_dim_multiplier": 1.3,
    "multiple_of": 1024, "norm_eps": 1e-05, "rope_theta": 500000.0, "use_scaled_rope": True, "vision_chunk_size": 560,
    "vision_max_num_chunks": 4, "vision_num_cross_attention_layers": 8,
}  # fmt: skip
TENSORS_11B = {
    "hidden": 4096, "layers": 40, "heads": 32, "kv_heads": 8, "head_dim": 128, "ffn": 14336, "vocab": 128256,
    "vision_hidden": 1280, "vision_ffn": 5120, "vision_layers": 32, "global_layers": 8, "vision_patch": 14,
    "vision_channels": 3, "vision_out": 7680,
}  # fmt: skip
# What transformers' own converter writes for it.
RATIOS = [[1, 1], [1, 2], [1, 3], [1, 4], [2, 1], [2, 2], [3, 1], [4, 1]]
MLLAMA = BY_NAME["mllama"]


def fresh(params: dict[str, Any], dims: dict[str, int]) -> dict[str, Any]:
    return hf_config(MLLAMA, read_params(params), dims, dtype="bf16", tied=False, biases=frozenset())


def test_layers_are_counted_as_hugging_face_counts_them() -> None:
    config = read_params(PARAMS_11B)
    assert config.dims["layers"] == 40
    assert (config.rope_scaling or {})["factor"] == 8.0  # of 32 layers and 4,096


def test_a_config_for_the_11b() -> None:
    made = fresh(PARAMS_11B, TENSORS_11B)
    text, vision = made["text_config"], made["vision_config"]
    assert made["architectures"] == ["MllamaForConditionalGeneration"]
    assert (made["model_type"], made["image_token_index"]) == ("mllama", 128256)
    assert text["model_type"] == "mllama_text_model"
    assert text["cross_attention_layers"] == [3, 8, 13, 18, 23, 28, 33, 38]
    assert (text["num_hidden_layers"], text["intermediate_size"], text["pad_token_id"]) == (40, 14336, 128004)
    assert (text["rope_theta"], text["max_position_embeddings"]) == (500000.0, 131072)
    assert vision["intermediate_layers_indices"] == [3, 7, 15, 23, 30]
    assert vision["supported_aspect_ratios"] == RATIOS
    assert (vision["image_size"], vision["attention_heads"], vision["vision_output_dim"]) == (560, 16, 7680)
    assert not unknown_encoder(MLLAMA, read_params(PARAMS_11B), TENSORS_11B)


def test_an_encoder_of_other_sizes_is_not_known() -> None:
    assert "image encoder" in unknown_encoder(MLLAMA, read_params(PARAMS_11B), TENSORS_11B | {"vision_out": 3840})
    assert not unknown_encoder(MLLAMA, read_config({"model_type": "mllama"}), {})
    assert not unknown_encoder(BY_NAME["llama"], read_params(PARAMS_11B), {})


def test_params_there_and_back() -> None:
    config = read_config(fresh(PARAMS_11B, TENSORS_11B))
    made = meta_params(MLLAMA, config, TENSORS_11B)
    scaling = {"rope_scaling_factor": 8.0, "rope_low_freq_factor": 1.0, "rope_high_freq_factor": 4.0}
    assert made == PARAMS_11B | scaling | {"original_max_position_embeddings": 8192}
    again = meta_params(MLLAMA, read_params(PARAMS_11B), TENSORS_11B)
    assert again["n_layers"] == 32
