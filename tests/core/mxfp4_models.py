"""A tiny GPT-OSS with MXFP4 experts, as the hub and as OpenAI has it; decoding is written here a second time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from ckpt_gui.core.families.registry import BY_NAME
from ckpt_gui.core.keys import index_names
from tests import builders
from tests.core.own_layouts import gpt_oss_openai

State = dict[str, np.ndarray]
DIMS = {"hidden": 64, "ffn": 96, "heads": 6, "kv_heads": 2, "head_dim": 8, "vocab": 50, "experts": 3}
LAYERS = 2
CONFIG: dict[str, Any] = {
    "model_type": "gpt_oss", "hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 6,
    "num_key_value_heads": 2, "head_dim": 8, "vocab_size": 50, "num_local_experts": 3, "num_hidden_layers": LAYERS,
    "num_experts_per_tok": 2, "tie_word_embeddings": False, "attention_bias": True,
    "quantization_config": {"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]},
}  # fmt: skip
STEPS = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
RNG = np.random.default_rng(8)
KINDS = {"uint8": "U8", "uint16": "BF16"}  # bf16 is carried as uint16


def packed(shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Random codes and scales of a tensor (…, numbers)."""
    *rows, width = shape
    codes = RNG.integers(0, 256, (*rows, width // 32, 16)).astype(np.uint8)
    return codes, RNG.integers(110, 135, (*rows, width // 32)).astype(np.uint8)


def numbers(codes: np.ndarray, scales: np.ndarray) -> np.ndarray:
    """What they stand for, number by number, as the upper half of fp32."""
    rows = codes.reshape(-1, 16).tolist()
    made = []
    for row, scale in zip(rows, scales.reshape(-1).tolist(), strict=True):
        for byte in row:
            for code in (byte % 16, byte // 16):
                made.append((-1.0 if code > 7 else 1.0) * STEPS[code % 8] * 2.0 ** (scale - 127))
    return halves(np.array(made, dtype=np.float32)).reshape(*codes.shape[:-2], -1)


def halves(values: np.ndarray) -> np.ndarray:
    """fp32 that bf16 holds exactly, as bf16."""
    bits = np.ascontiguousarray(values).view(np.uint32)
    assert not (bits & 0xFFFF).any()
    return (bits >> 16).astype(np.uint16)


def states() -> tuple[State, State]:
    """The hub's files with MXFP4 experts, and the plain model that they stand for."""
    coded: State = {}
    plain: State = {}
    for slot in BY_NAME["gpt-oss"].slots:
        for layer in range(LAYERS) if "layer" in index_names(slot.key) else [0]:
            key = slot.key.format(layer=layer)
            shape = tuple(int(eval(symbol, {}, DIMS)) for symbol in slot.shape)
            if key.endswith(("gate_up_proj", "down_proj")):
                experts, across, out = shape
                codes, scales = packed((experts, out, across))
                coded |= {f"{key}_blocks": codes, f"{key}_scales": scales}
                plain[key] = np.ascontiguousarray(numbers(codes, scales).transpose(0, 2, 1))
            else:
                coded[key] = plain[key] = RNG.integers(0, 0x7F00, shape).astype(np.uint16)
    return coded, plain


def openai_state(coded: State) -> State:
    """The same in OpenAI's names, whose codes lie as the hub's do."""
    rest = {key: value for key, value in coded.items() if not key.endswith(("_blocks", "_scales"))}
    made = gpt_oss_openai(rest)
    for key, value in coded.items():
        for name, own in (("gate_up_proj", "mlp1_weight"), ("down_proj", "mlp2_weight")):
            for end in ("blocks", "scales"):
                if key.endswith(f"{name}_{end}"):
                    made[f"block.{key.split('.')[2]}.mlp.{own}.{end}"] = value
    return made


def save(folder: Path, state: State, config: dict[str, Any] | None = None) -> Path:
    """A folder with one safetensors file."""
    header, data = {}, b""
    for key, value in state.items():
        raw = value.tobytes()
        header[key] = builders.entry(KINDS[value.dtype.name], list(value.shape), len(data), len(data) + len(raw))
        data += raw
    folder.mkdir()
    builders.write(folder / "model.safetensors", builders.raw_safetensors(header, data))
    if config is not None:
        (folder / "config.json").write_text(json.dumps(config))
    return folder
