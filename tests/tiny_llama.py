"""A Llama forward pass in numpy over the Hugging Face layout: the tests' independent judge of an exported model.

It shares no code with the application: it has its own safetensors reader and its own rotary embedding (by halves), so
that a model which gives the expected loss here was renamed, reordered and written correctly.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]
Weights = dict[str, Array]

_PLAIN_TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2"}


def load_safetensors(path: Path | str) -> Weights:
    """Read every tensor of one safetensors file as float32.

    Args:
        path: The file. Its tensors are of type BF16, F16, F32 or F64.

    Returns:
        The tensors by name.

    Raises:
        ValueError: A tensor has another type, or its bytes do not fit its shape.
    """
    data = Path(path).read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:start])
    header.pop("__metadata__", None)
    return {name: _tensor(entry, data[start:]) for name, entry in header.items()}


def load_folder(folder: Path | str) -> tuple[Weights, dict[str, Any]]:
    """Read a Hugging Face folder, sharded or not.

    Args:
        folder: A folder with `config.json` and one or more `*.safetensors`.

    Returns:
        All tensors by name, and the config.
    """
    weights: Weights = {}
    for path in sorted(Path(folder).glob("*.safetensors")):
        weights.update(load_safetensors(path))
    return weights, json.loads((Path(folder) / "config.json").read_text(encoding="utf-8"))


def loss(weights: Weights, config: dict[str, Any], text_bytes: bytes) -> float:
    """Return the mean cross-entropy (nats) of each byte of a text given those before it.

    Args:
        weights: Tensors under Hugging Face names; without `lm_head.weight` the embedding is used for the output.
        config: The content of `config.json`.
        text_bytes: The text, two bytes or more; a token is a byte.

    Returns:
        The loss; its float32 rounding is far below 1e-4.
    """
    tokens = np.frombuffer(text_bytes, dtype=np.uint8)
    logits = forward(weights, config, tokens[:-1]).astype(np.float64)
    top = logits.max(axis=-1, keepdims=True)
    log_sum = np.log(np.exp(logits - top).sum(axis=-1)) + top[:, 0]
    return float((log_sum - logits[np.arange(len(logits)), tokens[1:]]).mean())


def forward(weights: Weights, config: dict[str, Any], tokens: NDArray[np.uint8]) -> Array:
    """Return the logits `[time, vocabulary]` of the token that follows each position."""
    eps = float(config["rms_norm_eps"])
    embedding = weights["model.embed_tokens.weight"]
    x = embedding[tokens]
    for number in range(config["num_hidden_layers"]):
        prefix = f"model.layers.{number}."
        layer = {name.removeprefix(prefix): value for name, value in weights.items() if name.startswith(prefix)}
        x = x + _attention(layer, config, _norm(x, layer["input_layernorm.weight"], eps))
        x = x + _feed_forward(layer, _norm(x, layer["post_attention_layernorm.weight"], eps))
    x = _norm(x, weights["model.norm.weight"], eps)
    return x @ weights.get("lm_head.weight", embedding).T


def _tensor(entry: dict[str, Any], data: bytes) -> Array:
    """Decode one tensor from its header entry and the data section."""
    begin, end = entry["data_offsets"]
    raw, kind = data[begin:end], entry["dtype"]
    if kind == "BF16":
        flat = (np.frombuffer(raw, dtype="<u2").astype(np.uint32) << 16).view(np.float32)
    elif kind in _PLAIN_TYPES:
        flat = np.frombuffer(raw, dtype=_PLAIN_TYPES[kind]).astype(np.float32)
    else:
        raise ValueError(f"unsupported type {kind}")
    return flat.reshape(entry["shape"])


def _norm(x: Array, weight: Array, eps: float) -> Array:
    """Scale each position to unit root mean square, then by the weight."""
    scale = np.sqrt((x * x).mean(axis=-1, keepdims=True) + np.float32(eps))
    return x / scale * weight


def _theta(config: dict[str, Any]) -> float:
    """Return the rotary base, which newer configs keep in `rope_parameters`."""
    return float(config["rope_theta"] if "rope_theta" in config else config["rope_parameters"]["rope_theta"])


def _rotate_halves(x: Array, theta: float) -> Array:
    """Apply the rotary embedding to the pairs (i, i + head_dim/2) of `[heads, time, head_dim]`."""
    time, half = x.shape[1], x.shape[2] // 2
    angles = np.outer(np.arange(time), theta ** (-np.arange(half) / half))
    cos, sin = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
    first, second = x[..., :half], x[..., half:]
    return np.concatenate((first * cos - second * sin, second * cos + first * sin), axis=-1)


def _heads(x: Array, weight: Array, count: int) -> Array:
    """Project `[time, dim]` and split it into `[heads, time, head_dim]`."""
    return (x @ weight.T).reshape(len(x), count, -1).transpose(1, 0, 2)


def _attention(layer: Weights, config: dict[str, Any], x: Array) -> Array:
    """Mix the positions of `[time, dim]`, each with those before it."""
    queries = int(config["num_attention_heads"])
    keys = int(config.get("num_key_value_heads") or queries)
    size = int(config.get("head_dim") or config["hidden_size"] // queries)
    q = _rotate_halves(_heads(x, layer["self_attn.q_proj.weight"], queries), _theta(config))
    k = _rotate_halves(_heads(x, layer["self_attn.k_proj.weight"], keys), _theta(config))
    v = _heads(x, layer["self_attn.v_proj.weight"], keys)
    if q.shape[-1] != size or k.shape[-1] != size:
        raise ValueError(f"head_dim is {size} in the config, {q.shape[-1]} and {k.shape[-1]} in the weights")
    k, v = k.repeat(queries // keys, axis=0), v.repeat(queries // keys, axis=0)
    scores = q @ k.transpose(0, 2, 1) / np.float32(np.sqrt(size))
    scores = np.where(np.tri(len(x), dtype=bool), scores, np.float32(-np.inf))
    shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
    mixed = (shares / shares.sum(axis=-1, keepdims=True)) @ v
    return mixed.transpose(1, 0, 2).reshape(len(x), -1) @ layer["self_attn.o_proj.weight"].T


def _feed_forward(layer: Weights, x: Array) -> Array:
    """Transform each position on its own (gated, SiLU)."""
    gate = x @ layer["mlp.gate_proj.weight"].T
    gate = gate * (0.5 + 0.5 * np.tanh(0.5 * gate))  # gate / (1 + exp(-gate)) without overflow
    return (gate * (x @ layer["mlp.up_proj.weight"].T)) @ layer["mlp.down_proj.weight"].T
