"""Tiny models of the dense families, made by transformers itself: norms and biases random, each with its own values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor

IDS = torch.tensor([[3, 1, 4, 1, 5, 9, 2, 6, 5, 35, 8, 79, 7, 32, 38, 46] * 2])
SIZES: dict[str, Any] = {
    "hidden_size": 48,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "intermediate_size": 112,
    "num_hidden_layers": 3,
    "vocab_size": 80,
    "max_position_embeddings": 512,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
SMALL = {"head_dim": 8}  # hidden ÷ heads: where the config class has no head_dim
# Name: (family, changes of the config).
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("llama", {"tie_word_embeddings": False}),
    "llama-tied": ("llama", {"tie_word_embeddings": True}),
    "llama-biased": ("llama", {"attention_bias": True, "mlp_bias": True}),
    "mistral": ("mistral", {"tie_word_embeddings": False, "sliding_window": None}),
    "mistral-tied": ("mistral", {"tie_word_embeddings": True}),
    "qwen2": ("qwen2", SMALL),
    "qwen2-tied": ("qwen2", {**SMALL, "tie_word_embeddings": True}),
    "qwen2-window": ("qwen2", {**SMALL, "use_sliding_window": True, "sliding_window": 8, "max_window_layers": 1}),
    "qwen3": ("qwen3", {}),
    "qwen3-tied": ("qwen3", {"tie_word_embeddings": True}),
    "qwen3-bias": ("qwen3", {"attention_bias": True}),
    "gemma": ("gemma", {"hidden_activation": "gelu_pytorch_tanh"}),
    "gemma-biased": ("gemma", {"attention_bias": True}),
    "gemma-untied": ("gemma", {"tie_word_embeddings": False}),
    "gemma2": ("gemma2", {"query_pre_attn_scalar": 16, "sliding_window": 8}),
    "gemma2-uncapped": ("gemma2", {"query_pre_attn_scalar": 16, "sliding_window": 8, "final_logit_softcapping": None}),
    "gemma2-untied": ("gemma2", {"tie_word_embeddings": False}),
    "gemma3": ("gemma3_text", {"query_pre_attn_scalar": 16, "sliding_window": 8, "sliding_window_pattern": 2}),
    "gemma3-untied": ("gemma3_text", {"tie_word_embeddings": False}),
    "smollm3": ("smollm3", {"num_hidden_layers": 5}),
    "smollm3-untied": ("smollm3", {"tie_word_embeddings": False, "attention_bias": True, "mlp_bias": True}),
    "olmo2": ("olmo2", SMALL),
    "olmo2-biased": ("olmo2", {**SMALL, "attention_bias": True}),
    "olmo2-tied": ("olmo2", {**SMALL, "tie_word_embeddings": True}),
    "cohere": ("cohere", SMALL),
    "cohere-qk-norm": ("cohere", {**SMALL, "use_qk_norm": True}),
    "cohere-untied": ("cohere", {**SMALL, "tie_word_embeddings": False, "attention_bias": True}),
    "cohere2": ("cohere2", {**SMALL, "sliding_window": 8, "num_hidden_layers": 5}),
    "cohere2-biased": ("cohere2", {**SMALL, "attention_bias": True, "tie_word_embeddings": False}),
    "starcoder2": ("starcoder2", SMALL),
    "starcoder2-untied": ("starcoder2", {**SMALL, "tie_word_embeddings": False}),
    "starcoder2-without-biases": ("starcoder2", {**SMALL, "use_bias": False}),
}


def make(kind: str) -> Any:
    """Return a model with random norms and biases."""
    model_type, changes = KINDS[kind]
    sizes = {**SIZES, **changes}
    if sizes.get("head_dim") == 8:
        del sizes["head_dim"]
    config = transformers.AutoConfig.for_model(model_type, **sizes)
    model = transformers.AutoModelForCausalLM.from_config(config).eval()
    generator = torch.Generator().manual_seed(sum(map(ord, kind)))
    with torch.no_grad():
        for parameter in model.parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            big = parameter.ndim == 2 and parameter.shape[0] != config.vocab_size
            parameter.copy_(noise * 0.3 if big else noise if parameter.ndim == 2 else 0.5 + 0.2 * noise)
    return model


def logits_of(folder: Path) -> Tensor:
    """Return the logits for fixed tokens, by the slow way that caps what Gemma 2 caps."""
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager").eval()
    with torch.no_grad():
        return model(IDS).logits  # type: ignore[no-any-return]
