"""GGUF files written by gguf-py: our numbers are those of its `dequantize`, our model that of transformers' reader."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.oracle
gguf = pytest.importorskip("gguf")
pytest.importorskip("transformers")

import numpy as np
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from ckpt_gui.core.formats import open_checkpoint
from ckpt_gui.core.formats.ggml_blocks import DECODERS, decode
from tests.oracles import tiny

HEADS, KV, HIDDEN, WIDTH, VOCAB, LAYERS = 8, 4, 256, 512, 48, 2
HEAD_DIM = {"qwen3": 128}  # transformers reads none for Qwen 3 and takes its default
K_QUANTS = ("Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K")


@pytest.mark.parametrize("kind", DECODERS)
def test_numbers_are_those_of_gguf(kind: str) -> None:
    """Any bits whatever, infinite and absurd scales included, bit for bit."""
    which = gguf.GGMLQuantizationType[kind]
    _, size = gguf.GGML_QUANT_SIZES[which]
    raw = np.random.default_rng(5).integers(0, 256, (3000, size), dtype=np.uint8)
    with np.errstate(all="ignore"):
        want = gguf.dequantize(raw, which).reshape(-1)
    assert np.array_equal(decode(raw.reshape(-1), kind, size).view(np.uint32), want.view(np.uint32))


def make_model(arch: str, tied: bool) -> Any:
    config = AutoConfig.for_model(
        arch,
        hidden_size=HIDDEN,
        intermediate_size=WIDTH,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        num_key_value_heads=KV,
        head_dim=HEAD_DIM.get(arch, HIDDEN // HEADS),
        vocab_size=VOCAB,
        max_position_embeddings=128,
        tie_word_embeddings=tied,
        rope_theta=50000.0,
    )
    torch.manual_seed(4)
    model = AutoModelForCausalLM.from_config(config)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.05)
    return model


def permute(weight: np.ndarray, heads: int) -> np.ndarray:
    """llama.cpp's `LlamaModel.permute`."""
    halves = weight.reshape(heads, 2, weight.shape[0] // heads // 2, *weight.shape[1:])
    return halves.swapaxes(1, 2).reshape(weight.shape)


def quantised(array: np.ndarray, kind: str, rng: np.random.Generator) -> np.ndarray:
    which = gguf.GGMLQuantizationType[kind]
    if kind not in K_QUANTS:
        return np.asarray(gguf.quantize(array, which))
    numbers, size = gguf.GGML_QUANT_SIZES[which]  # gguf-py can not make these: any bits, with tame scales
    raw = rng.integers(0, 256, (array.size // numbers, size), dtype=np.uint8)
    at = {"Q2_K": (80, 82), "Q3_K": (108,), "Q4_K": (0, 2), "Q5_K": (0, 2), "Q6_K": (208,)}[kind]
    for place in at:
        raw[:, place : place + 2] = np.frombuffer(np.float16(0.01).tobytes(), np.uint8)
    return raw.reshape(array.shape[0], -1)


def write_gguf(path: Path, model: Any, arch: str, kinds: tuple[str, ...]) -> None:
    writer = gguf.GGUFWriter(path, arch)
    writer.add_context_length(128)
    writer.add_embedding_length(HIDDEN)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(WIDTH)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV)
    writer.add_rope_freq_base(50000.0)
    writer.add_layer_norm_rms_eps(model.config.rms_norm_eps)
    writer.add_vocab_size(VOCAB)
    writer.add_key_length(model.config.head_dim)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH[arch.upper()], LAYERS)
    rng = np.random.default_rng(2)
    matrices = 0
    for key, tensor in model.state_dict().items():
        if key == "lm_head.weight" and model.config.tie_word_embeddings:
            continue
        array = tensor.float().numpy()
        if arch == "llama" and "q_proj" in key:
            array = permute(array, HEADS)
        if arch == "llama" and "k_proj" in key:
            array = permute(array, KV)
        name = names.get_name(key, try_suffixes=(".weight", ".bias"))
        if array.ndim == 1:
            writer.add_tensor(name, array)
            continue
        kind = kinds[matrices % len(kinds)]
        matrices += 1
        if kind in ("F32", "F16"):
            writer.add_tensor(name, array.astype(np.float32 if kind == "F32" else np.float16))
        else:
            writer.add_tensor(name, quantised(array, kind, rng), raw_dtype=gguf.GGMLQuantizationType[kind])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


CASES = [
    ("llama", False, (*K_QUANTS, "F16", "Q8_0")),
    ("llama", True, ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "BF16")),
    ("qwen2", True, ("Q8_0", "Q4_K", "F32")),
    ("qwen3", False, ("Q6_K", "Q4_0", "F16")),
]


@pytest.mark.parametrize(("arch", "tied", "kinds"), CASES)
def test_export_is_what_transformers_reads(arch: str, tied: bool, kinds: tuple[str, ...], tmp_path: Path) -> None:
    model = make_model(arch, tied)
    (tmp_path / "g").mkdir()
    write_gguf(tmp_path / "g/model.gguf", model, arch, kinds)
    with open_checkpoint(tmp_path / "g/model.gguf") as source:
        assert [p.code for p in source.problems] == ["quantised"]
    out = tiny.export(tmp_path / "g", tmp_path / "out", "hf")
    read = AutoModelForCausalLM.from_pretrained(tmp_path / "g", gguf_file="model.gguf", dtype=torch.float32)
    ours = AutoModelForCausalLM.from_pretrained(out, dtype=torch.float32)
    assert tiny.differing(dict(ours.state_dict()), dict(read.state_dict())) == []
    for field in (
        "rope_theta",
        "rms_norm_eps",
        "num_key_value_heads",
        "tie_word_embeddings",
        "max_position_embeddings",
    ):
        assert getattr(ours.config, field) == getattr(model.config, field)
