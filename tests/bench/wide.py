"""Models of very many small tensors: as headers and holes, to be listed; and one file with bytes, to be read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ckpt_gui.core.tensors import TensorSpec
from tests.bench.sparse import write_holes

HIDDEN, EXPERT, VOCAB, HEADS, KV_HEADS, HEAD_DIM = 64, 32, 1024, 8, 2, 16
# about so many tensors → layers, experts
WIDE = {"100k": (100, 330), "123k": (80, 512), "500k": (320, 518)}

TENSORS = 122_880  # of the file with bytes
NBYTES = 128  # of each


def tensors(size: str) -> Iterator[TensorSpec]:
    """Yield the tensors of a mixture of experts under Hugging Face's names for Qwen 3."""
    layers, experts = WIDE[size]
    yield TensorSpec("model.embed_tokens.weight", "bf16", (VOCAB, HIDDEN))
    parts = {
        "input_layernorm": (HIDDEN,),
        "self_attn.q_proj": (HEADS * HEAD_DIM, HIDDEN),
        "self_attn.k_proj": (KV_HEADS * HEAD_DIM, HIDDEN),
        "self_attn.v_proj": (KV_HEADS * HEAD_DIM, HIDDEN),
        "self_attn.o_proj": (HIDDEN, HEADS * HEAD_DIM),
        "self_attn.q_norm": (HEAD_DIM,),
        "self_attn.k_norm": (HEAD_DIM,),
        "post_attention_layernorm": (HIDDEN,),
        "mlp.gate": (experts, HIDDEN),
    }
    expert = {"gate_proj": (EXPERT, HIDDEN), "up_proj": (EXPERT, HIDDEN), "down_proj": (HIDDEN, EXPERT)}
    for layer in range(layers):
        at = f"model.layers.{layer}"
        for name, shape in parts.items():
            yield TensorSpec(f"{at}.{name}.weight", "bf16", shape)
        for number in range(experts):
            for name, shape in expert.items():
                yield TensorSpec(f"{at}.mlp.experts.{number}.{name}.weight", "bf16", shape)
    yield TensorSpec("model.norm.weight", "bf16", (HIDDEN,))
    yield TensorSpec("lm_head.weight", "bf16", (VOCAB, HIDDEN))


def configuration(size: str) -> dict[str, Any]:
    """Return the model's config.json."""
    layers, experts = WIDE[size]
    return {
        "architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "hidden_size": HIDDEN,
        "num_hidden_layers": layers, "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS,
        "head_dim": HEAD_DIM, "intermediate_size": 128, "moe_intermediate_size": EXPERT, "num_experts": experts,
        "num_experts_per_tok": 8, "decoder_sparse_step": 1, "mlp_only_layers": [], "norm_topk_prob": True,
        "vocab_size": VOCAB, "rms_norm_eps": 1e-6, "rope_theta": 1000000.0, "tie_word_embeddings": False,
        "torch_dtype": "bfloat16", "max_position_embeddings": 40960,
    }  # fmt: skip


def make_wide(folder: Path, size: str) -> Path:
    """Write a folder of eight shards with an index; one that exists is kept."""
    return write_holes(folder, list(tensors(size)), 8, configuration(size))


def count(size: str) -> int:
    """Return the number of its tensors, without making them: 9 and 3 an expert in each layer, and 3 beside."""
    layers, experts = WIDE[size]
    return layers * (9 + 3 * experts) + 3


def make_many(path: Path, count: int = TENSORS) -> None:
    """Write a safetensors file of very many small tensors; one that exists is kept."""
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    header = {
        f"model.layers.{n // 1024}.mlp.experts.{n % 1024}.gate_proj.weight": {
            "dtype": "BF16", "shape": [8, NBYTES // 16], "data_offsets": [n * NBYTES, (n + 1) * NBYTES],
        }
        for n in range(count)
    }  # fmt: skip
    text = json.dumps({"__metadata__": {"format": "pt"}, **header}).encode()
    text += b" " * (-len(text) % 8)
    data = bytes(i * 7 % 251 for i in range(NBYTES)) * count
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)
