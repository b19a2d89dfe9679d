"""Small models made by hand: two layers of Llama, as the command line meets them."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

HIDDEN, HEADS, KV_HEADS, FFN, VOCAB = 8, 2, 1, 16, 32
HEAD_DIM = HIDDEN // HEADS
CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": HIDDEN,
    "intermediate_size": FFN,
    "num_hidden_layers": 2,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KV_HEADS,
    "vocab_size": VOCAB,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "tie_word_embeddings": False,
    "torch_dtype": "float32",
}
Shapes = dict[str, tuple[int, ...]]
_LAYER = {
    "input_layernorm.weight": (HIDDEN,),
    "self_attn.q_proj.weight": (HIDDEN, HIDDEN),
    "self_attn.k_proj.weight": (KV_HEADS * HEAD_DIM, HIDDEN),
    "self_attn.v_proj.weight": (KV_HEADS * HEAD_DIM, HIDDEN),
    "self_attn.o_proj.weight": (HIDDEN, HIDDEN),
    "post_attention_layernorm.weight": (HIDDEN,),
    "mlp.gate_proj.weight": (FFN, HIDDEN),
    "mlp.up_proj.weight": (FFN, HIDDEN),
    "mlp.down_proj.weight": (HIDDEN, FFN),
}
_META = {
    "input_layernorm.weight": "attention_norm.weight",
    "self_attn.q_proj.weight": "attention.wq.weight",
    "self_attn.k_proj.weight": "attention.wk.weight",
    "self_attn.v_proj.weight": "attention.wv.weight",
    "self_attn.o_proj.weight": "attention.wo.weight",
    "post_attention_layernorm.weight": "ffn_norm.weight",
    "mlp.gate_proj.weight": "feed_forward.w1.weight",
    "mlp.up_proj.weight": "feed_forward.w3.weight",
    "mlp.down_proj.weight": "feed_forward.w2.weight",
}


def hf_shapes(layers: int = 2) -> Shapes:
    """Return the tensors of a model in the Hugging Face layout."""
    inner = {f"model.layers.{n}.{name}": shape for n in range(layers) for name, shape in _LAYER.items()}
    outer = {"model.embed_tokens.weight": (VOCAB, HIDDEN)}
    return outer | inner | {"model.norm.weight": (HIDDEN,), "lm_head.weight": (VOCAB, HIDDEN)}


def meta_shapes(layers: int = 2) -> Shapes:
    """Return the tensors of the same model in Meta's layout."""
    inner = {f"layers.{n}.{_META[name]}": shape for n in range(layers) for name, shape in _LAYER.items()}
    outer = {"tok_embeddings.weight": (VOCAB, HIDDEN)}
    return outer | inner | {"norm.weight": (HIDDEN,), "output.weight": (VOCAB, HIDDEN)}


def fill(key: str, shape: tuple[int, ...]) -> bytes:
    """Return fp32 values that differ from tensor to tensor."""
    count, seed = 1, sum(map(ord, key)) % 97
    for size in shape:
        count *= size
    return struct.pack(f"<{count}f", *((seed + i) / 64 for i in range(count)))


def write_safetensors(
    path: Path, shapes: Mapping[str, tuple[int, ...]], data: Mapping[str, bytes] | None = None, dtype: str = "F32"
) -> Path:
    """Write a file by hand: no library may be needed to check one."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    body = b""
    for key, shape in shapes.items():
        values = (data or {}).get(key) or fill(key, shape)
        header[key] = {"dtype": dtype, "shape": list(shape), "data_offsets": [len(body), len(body) + len(values)]}
        body += values
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(struct.pack("<Q", len(text)) + text + body)
    return path


def write_folder(folder: Path, shapes: Mapping[str, tuple[int, ...]], config: Mapping[str, Any] | None = None) -> Path:
    """Write a model folder: weights and config."""
    write_safetensors(folder / "model.safetensors", shapes)
    (folder / "config.json").write_text(json.dumps(CONFIG if config is None else config))
    return folder


@pytest.fixture(autouse=True)
def _no_lines_are_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write sentences in one line each: where they are broken hangs on the length of the path of this test's folder."""
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.setattr("ckpt_gui.cli.terminal.PIPE_WIDTH", 10_000)
    monkeypatch.setattr("ckpt_gui.cli.terminal.WIDEST", 10_000)


Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the command line; return status, standard output and standard error."""
    from ckpt_gui.cli.main import main

    def call(*words: object) -> tuple[int, str, str]:
        status = main([str(word) for word in words])
        out, err = capsys.readouterr()
        assert "Traceback" not in out + err
        return status, out, err

    return call


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A clean model folder."""
    return write_folder(tmp_path / "model", hf_shapes())


@pytest.fixture
def compiled(tmp_path: Path) -> Path:
    """Meta's layout, saved from a compiled model, without a config."""
    return write_safetensors(tmp_path / "last.safetensors", {f"_orig_mod.{k}": s for k, s in meta_shapes().items()})
