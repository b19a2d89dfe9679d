"""What the metadata of a GGUF file say of the model, in the terms of config.json.

Sources: gguf-py `constants.py` (names of the keys), llama.cpp `convert_hf_to_gguf.py` (what is written into them);
transformers 4.57 reads the same ones (`integrations/ggml.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

# Field of config.json ← key of the metadata behind the name of the architecture.
_FIELDS = (
    ("hidden_size", "embedding_length"),
    ("num_hidden_layers", "block_count"),
    ("intermediate_size", "feed_forward_length"),
    ("num_attention_heads", "attention.head_count"),
    ("num_key_value_heads", "attention.head_count_kv"),
    ("head_dim", "attention.key_length"),
    ("max_position_embeddings", "context_length"),
    ("vocab_size", "vocab_size"),
    ("rms_norm_eps", "attention.layer_norm_rms_epsilon"),
    ("rope_theta", "rope.freq_base"),
)
_TOKENS = (("bos_token_id", "bos_token_id"), ("eos_token_id", "eos_token_id"))


def gguf_config(metadata: Mapping[str, Any], names: Collection[str]) -> Mapping[str, Any] | None:
    """Return what the metadata say, None if they name no architecture.

    Args:
        metadata: Values by key; arrays are descriptions only.
        names: Names of the tensors.
    """
    arch = metadata.get("general.architecture")
    if type(arch) is not str:
        return None
    config: dict[str, Any] = {"model_type": arch, "tie_word_embeddings": "output.weight" not in names}
    found = [(field, metadata.get(f"{arch}.{key}")) for field, key in _FIELDS]
    found += [(field, metadata.get(f"tokenizer.ggml.{key}")) for field, key in _TOKENS]
    config |= {field: _plain(value) for field, value in found if isinstance(value, (int, float))}
    kind = metadata.get(f"{arch}.rope.scaling.type", "none")
    if kind != "none":
        config["rope_scaling"] = {"rope_type": kind, "factor": metadata.get(f"{arch}.rope.scaling.factor")}
    return config


def _plain(value: int | float) -> int | float:
    """Return a number as a person writes it: an fp32 of 1e-5 is 9.99999974e-06 as the fp64 that Python makes of it."""
    return float(f"{value:.7g}") if isinstance(value, float) else value
