"""Models to measure with: Llama-3.2-1B's shape by default, filled with numbers as weights have them.

Random bytes would not do: they hold infinities and numbers of every size, for which no shortcut works.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from ckpt_gui.core.dtypes import BY_NAME
from ckpt_gui.core.formats import safetensors
from ckpt_gui.core.tensors import TensorSpec

# hidden, layers, heads, kv_heads, head_dim, ffn, vocab
SHAPES = {
    "mini": (64, 2, 16, 4, 8, 128, 512),
    "tiny": (256, 4, 8, 2, 32, 1024, 32000),
    "135m": (576, 30, 9, 3, 64, 1536, 49152),
    "1b": (2048, 16, 32, 8, 64, 8192, 128256),
    "3b": (3072, 28, 24, 8, 128, 8192, 128256),
    "8b": (4096, 32, 32, 8, 128, 14336, 128256),
    "70b": (8192, 80, 64, 8, 128, 28672, 128256),
    "405b": (16384, 126, 128, 8, 128, 53248, 128256),
    # of no model: as many tensors as 1B, in 1, 10 and 100 GB
    "1gb": (1024, 16, 16, 4, 64, 5504, 128256),
    "10gb": (4096, 16, 32, 8, 128, 17664, 128256),
    "100gb": (16384, 16, 128, 8, 128, 46464, 128256),
}
NOISE = 16 << 20  # bytes, which are repeated


def specs(size: str, dtype: str = "bf16") -> Iterator[TensorSpec]:
    """Yield the tensors of a tied Llama of that size under Hugging Face names."""
    hidden, layers, heads, kv_heads, head_dim, ffn, vocab = SHAPES[size]
    yield TensorSpec("model.embed_tokens.weight", dtype, (vocab, hidden))
    parts = {
        "input_layernorm": (hidden,),
        "self_attn.q_proj": (heads * head_dim, hidden),
        "self_attn.k_proj": (kv_heads * head_dim, hidden),
        "self_attn.v_proj": (kv_heads * head_dim, hidden),
        "self_attn.o_proj": (hidden, heads * head_dim),
        "post_attention_layernorm": (hidden,),
        "mlp.gate_proj": (ffn, hidden),
        "mlp.up_proj": (ffn, hidden),
        "mlp.down_proj": (hidden, ffn),
    }
    for layer in range(layers):
        for name, shape in parts.items():
            yield TensorSpec(f"model.layers.{layer}.{name}.weight", dtype, shape)
    yield TensorSpec("model.norm.weight", dtype, (hidden,))


def config(size: str) -> dict[str, object]:
    """Return the config of that size."""
    hidden, layers, heads, kv_heads, head_dim, ffn, vocab = SHAPES[size]
    return {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": heads, "num_key_value_heads": kv_heads, "head_dim": head_dim, "intermediate_size": ffn,
        "vocab_size": vocab, "rms_norm_eps": 1e-5, "rope_theta": 500000.0, "tie_word_embeddings": True,
        "max_position_embeddings": 8192, "torch_dtype": "bfloat16",
    }  # fmt: skip


def normal_noise(nbytes: int, dtype: str = "bf16") -> bytes:
    """Return numbers in bf16 or fp32 as weights have them: normal, with a deviation of 0.02."""
    import numpy as np

    values = np.random.default_rng(0).normal(0, 0.02, nbytes // BY_NAME[dtype].itemsize).astype(np.float32)
    return values.tobytes() if dtype == "fp32" else (values.view(np.uint32) >> 16).astype(np.uint16).tobytes()


def nbytes(size: str) -> int:
    """Return the bytes of all tensors of that size."""
    return sum(spec.nbytes for spec in specs(size))


def tensor_count(size: str) -> int:
    """Return the number of its tensors."""
    return sum(1 for _ in specs(size))


def make_hf(folder: Path, size: str, dtype: str = "bf16") -> Path:
    """Write a Hugging Face folder; one that exists is kept."""
    path = folder / "model.safetensors"
    if path.exists():
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    layout = safetensors.layout(list(specs(size, dtype)), {"format": "pt"})
    block = normal_noise(min(NOISE, layout.nbytes // 4 * 4), dtype)
    part = path.with_suffix(".part")  # an interrupted run leaves nothing that looks whole
    with part.open("wb") as file:
        for start in range(0, layout.nbytes, len(block)):
            file.write(block[: min(len(block), layout.nbytes - start)])
        for offset, data in layout.patches({}):
            file.seek(offset)
            file.write(data)
    part.rename(path)
    (folder / "config.json").write_text(json.dumps(config(size)))
    return folder
