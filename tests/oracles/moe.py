"""Tiny models of fused families and mixtures of experts, made by transformers itself.

Every parameter and buffer has random values of its own, so that gates, norms, biases and experts that are swapped are
seen; the numbers of experts, of heads and of key/value heads are all different.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor

from tests.oracles import tiny

THETA = 5432.0
BASE: dict[str, Any] = {
    "hidden_size": 48,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "num_hidden_layers": 3,
    "vocab_size": 80,
    "max_position_embeddings": 64,
    "intermediate_size": 56,
    "rope_theta": THETA,
}
ALL_HEADS = {**BASE, "num_key_value_heads": 6}
MOE = {**BASE, "moe_intermediate_size": 20, "num_experts_per_tok": 2, "head_dim": 16}
MLA = {
    **ALL_HEADS,
    "moe_intermediate_size": 20,
    "num_experts_per_tok": 2,
    "n_routed_experts": 4,
    "n_shared_experts": 2,
    "first_k_dense_replace": 1,
    "kv_lora_rank": 12,
    "qk_nope_head_dim": 8,
    "qk_rope_head_dim": 4,
    "v_head_dim": 10,
    "n_group": 1,
    "topk_group": 1,
}
MLLAMA_TEXT: dict[str, Any] = {
    **BASE,
    "num_hidden_layers": 6,
    "cross_attention_layers": [1, 4],
    "pad_token_id": 0,
    "rope_scaling": {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 16,
    },
}
MLLAMA_VISION: dict[str, Any] = {
    "hidden_size": 32,
    "attention_heads": 4,
    "num_hidden_layers": 3,
    "num_global_layers": 2,
    "intermediate_size": 128,
    "vision_output_dim": 96,
    "intermediate_layers_indices": [0, 1],
    "image_size": 28,
    "patch_size": 14,
    "max_num_tiles": 4,
    "supported_aspect_ratios": [[1, 1], [1, 2], [1, 3], [1, 4], [2, 1], [2, 2], [3, 1], [4, 1]],
}
# (class of the config, its fields, our family)
CASES: dict[str, tuple[str, dict[str, Any], str]] = {
    "phi": ("PhiConfig", BASE, "phi"),
    "phi-norms": ("PhiConfig", {**BASE, "qk_layernorm": True}, "phi"),
    "phi-tied": ("PhiConfig", {**BASE, "tie_word_embeddings": True}, "phi"),
    "phi3": ("Phi3Config", {**BASE, "pad_token_id": 0}, "phi3"),
    "phi3-all-heads": ("Phi3Config", {**ALL_HEADS, "pad_token_id": 0}, "phi3"),
    "phi3-long": (
        "Phi3Config",
        {**BASE, "pad_token_id": 0, "original_max_position_embeddings": 16}
        | {
            "rope_scaling": {
                "type": "longrope",
                "short_factor": [1.0, 1.1, 1.2, 1.3],
                "long_factor": [2.0, 3.0, 4.0, 5.0],
            }
        },
        "phi3",
    ),
    "phi3-tied": ("Phi3Config", {**BASE, "pad_token_id": 0, "tie_word_embeddings": True}, "phi3"),
    "gpt2": ("GPT2Config", {"n_embd": 48, "n_head": 6, "n_layer": 3, "vocab_size": 80, "n_positions": 64}, "gpt2"),
    "gpt2-untied": (
        "GPT2Config",
        {"n_embd": 48, "n_head": 6, "n_layer": 3, "vocab_size": 80, "n_positions": 64, "n_inner": 56}
        | {"tie_word_embeddings": False},
        "gpt2",
    ),
    "gpt-neox": ("GPTNeoXConfig", ALL_HEADS, "gpt-neox"),
    "gpt-neox-base": ("GPTNeoXConfig", {**ALL_HEADS, "rotary_pct": 0.5, "rotary_emb_base": 5000}, "gpt-neox"),
    "gpt-neox-no-bias": ("GPTNeoXConfig", {**ALL_HEADS, "attention_bias": False}, "gpt-neox"),
    "gpt-neox-tied": ("GPTNeoXConfig", {**ALL_HEADS, "tie_word_embeddings": True}, "gpt-neox"),
    "mixtral-tied": (
        "MixtralConfig",
        {**BASE, "num_local_experts": 4, "head_dim": 16, "tie_word_embeddings": True},
        "mixtral",
    ),
    "mixtral": ("MixtralConfig", {**BASE, "num_local_experts": 4, "head_dim": 16}, "mixtral"),
    "qwen2-moe": (
        "Qwen2MoeConfig",
        {**BASE, "num_experts": 4, "moe_intermediate_size": 20, "shared_expert_intermediate_size": 40}
        | {"mlp_only_layers": [1], "num_experts_per_tok": 2},
        "qwen2-moe",
    ),
    "qwen2-moe-every-second": (
        "Qwen2MoeConfig",
        {**BASE, "num_experts": 4, "moe_intermediate_size": 20, "shared_expert_intermediate_size": 40}
        | {"decoder_sparse_step": 2, "qkv_bias": False, "num_experts_per_tok": 2},
        "qwen2-moe",
    ),
    "qwen3-moe": ("Qwen3MoeConfig", {**MOE, "num_experts": 4, "mlp_only_layers": [1]}, "qwen3-moe"),
    "qwen3-moe-biases": ("Qwen3MoeConfig", {**MOE, "num_experts": 4, "attention_bias": True}, "qwen3-moe"),
    "qwen3-moe-all": ("Qwen3MoeConfig", {**MOE, "num_experts": 4, "norm_topk_prob": True}, "qwen3-moe"),
    "deepseek-v2": ("DeepseekV2Config", {**MLA, "q_lora_rank": 24}, "deepseek-v2"),
    "deepseek-v2-lite": ("DeepseekV2Config", {**MLA, "q_lora_rank": None}, "deepseek-v2"),
    "deepseek-v3": ("DeepseekV3Config", {**MLA, "q_lora_rank": 24}, "deepseek-v3"),
    "deepseek-v3-biases": (
        "DeepseekV3Config",
        {**MLA, "q_lora_rank": 24, "attention_bias": True},
        "deepseek-v3",
    ),
    "gpt-oss": ("GptOssConfig", {**BASE, "num_local_experts": 4, "head_dim": 16, "num_experts_per_tok": 2}, "gpt-oss"),
    "llama4": (
        "Llama4TextConfig",
        {**BASE, "num_local_experts": 4, "intermediate_size_mlp": 72, "head_dim": 16, "interleave_moe_layer_step": 2},
        "llama4",
    ),
    "llama4-vision": (
        "Llama4Config",
        {
            "text_config": {
                **BASE,
                "num_local_experts": 4,
                "intermediate_size_mlp": 72,
                "head_dim": 16,
                "interleave_moe_layer_step": 2,
            },
            "vision_config": {
                "hidden_size": 32,
                "num_hidden_layers": 2,
                "num_attention_heads": 4,
                "intermediate_size": 128,
                "vision_output_dim": 48,
                "image_size": 28,
                "patch_size": 14,
                "projector_input_dim": 48,
                "projector_output_dim": 48,
            },
        },
        "llama4-vision",
    ),
    "mllama": ("MllamaConfig", {"text_config": MLLAMA_TEXT, "vision_config": MLLAMA_VISION}, "mllama"),
    "mllama-text": ("MllamaTextConfig", MLLAMA_TEXT, "mllama-text"),
}
# Models that see images too, and text models that no Auto class knows: the class that makes them.
WHOLE = {
    "llama4-vision": "Llama4ForConditionalGeneration",
    "mllama": "MllamaForConditionalGeneration",
    "mllama-text": "MllamaForCausalLM",
}


def config_class(name: str) -> Any:
    """Return a class of config; some are not offered at the top."""
    return getattr(transformers, name, None) or getattr(transformers.models.mllama.configuration_mllama, name)


def random_model(case: str, scale: float = 0.3) -> Any:
    """Return a model of which every parameter and float buffer that is saved is random."""
    name, fields, _ = CASES[case]
    torch.manual_seed(0)
    config = config_class(name)(**fields)
    if case in WHOLE:
        model = getattr(transformers, WHOLE[case])(config).eval()
    else:
        model = transformers.AutoModelForCausalLM.from_config(config).eval()
    generator = torch.Generator().manual_seed(1)
    kept = dict(model.state_dict(keep_vars=True))
    with torch.no_grad():
        for value in {id(v): v for v in kept.values() if v.is_floating_point()}.values():
            noise = torch.randn(value.shape, generator=generator)
            value.copy_(noise * scale if value.ndim > 1 else 1 + 0.2 * noise)
        for name, value in kept.items():
            if name.endswith(("tile_embedding.weight", "tile_positional_embedding.embedding.weight")):
                _of_one_grid(value, config.vision_config.max_num_tiles)
    return model


def _of_one_grid(rows: Tensor, tiles: int) -> None:
    """Make the rows those of one grid, as they are in every model that came from Meta; row 0 is padding."""
    table = rows.view(len(rows), tiles, -1)
    grid = torch.randn(tiles, tiles, table.shape[-1], generator=torch.Generator().manual_seed(2))
    table.zero_()
    shapes = [(h, w) for h in range(1, tiles + 1) for w in range(1, tiles + 1) if h * w <= tiles]
    for row, (height, width) in enumerate(shapes, 1):
        table[row, : height * width] = grid[:height, :width].reshape(height * width, -1)


def load(case: str, folder: Path) -> Any:
    """Load a folder as its user would; every key must be used and found."""
    if case not in WHOLE:
        return tiny.load(folder)
    kind = getattr(transformers, WHOLE[case])
    model, info = kind.from_pretrained(folder, dtype="auto", output_loading_info=True)
    assert not any(info[name] for name in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    return model.eval()


def logits_of(case: str, folder: Path) -> Tensor:
    """Load a folder and return the logits for fixed tokens."""
    model = load(case, folder)
    return tiny.logits_of(model.language_model if case == "llama4-vision" else model)  # version 5 wants an image there


def save(case: str, folder: Path) -> Path:
    """Write a model with `save_pretrained` and return the folder."""
    random_model(case).save_pretrained(folder)
    return folder


def json_of(path: Path) -> dict[str, Any]:
    """Read a small file."""
    return dict(json.loads(path.read_text(encoding="utf-8")))
