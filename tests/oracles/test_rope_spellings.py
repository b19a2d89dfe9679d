"""The config.json that is written gives the same rotary frequencies in transformers 4.57 and 5.

What they are is computed here a third time, from the papers' formulas, so that the two versions are held against the
same numbers without meeting. Each source is spelled as either version writes it.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.oracle
pytest.importorskip("transformers")

import torch
import transformers
from torch import Tensor

from ckpt_gui.core.config_write import hf_config
from ckpt_gui.core.families.registry import for_model_type
from ckpt_gui.core.model_config import read_config

SIZES = {
    "hidden_size": 48, "num_hidden_layers": 6, "num_attention_heads": 6, "num_key_value_heads": 2,
    "intermediate_size": 64, "vocab_size": 80, "rms_norm_eps": 1e-6, "max_position_embeddings": 4096,
    "tie_word_embeddings": False, "pad_token_id": 0,
}  # fmt: skip
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 64}  # fmt: skip
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024}
DEEP = {"rope_type": "yarn", "factor": 40.0, "original_max_position_embeddings": 64, "beta_fast": 32.0,
        "beta_slow": 1.0, "mscale": 1.0, "mscale_all_dim": 1.0}  # fmt: skip
SHORT, LONG = [1.0, 1.1, 1.2, 1.3], [2.0, 3.0, 4.0, 5.0]


def plain(theta: float, dim: int) -> Tensor:
    return 1.0 / theta ** (torch.arange(0, dim, 2, dtype=torch.float64) / dim)


def llama3(theta: float, dim: int) -> Tensor:
    made = []
    for f in plain(theta, dim).tolist():
        length = 2 * math.pi / f
        smooth = (64 / length - 1.0) / (4.0 - 1.0)
        made.append(f / 8 if length > 64 / 1.0 else f if length < 64 / 4.0 else (1 - smooth) * f / 8 + smooth * f)
    return torch.tensor(made, dtype=torch.float64)


def yarn(theta: float, dim: int, factor: float, length: int) -> Tensor:
    def turns(count: float) -> float:
        return dim * math.log(length / (count * 2 * math.pi)) / (2 * math.log(theta))

    low, high = max(math.floor(turns(32)), 0), min(math.ceil(turns(1)), dim - 1)
    ramp = ((torch.arange(dim // 2, dtype=torch.float64) - low) / max(high - low, 0.001)).clamp(0, 1)
    return plain(theta, dim) / factor * ramp + plain(theta, dim) * (1 - ramp)


def nested(theta: float, scaling: dict[str, Any]) -> dict[str, Any]:
    """Version 5's spelling of one base and one scaling."""
    return {"rope_parameters": {"rope_type": "default", **scaling, "rope_theta": theta}}


GEMMA5 = {
    "rope_parameters": {
        "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
        "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
    }
}
GEMMA4 = {"rope_theta": 1e6, "rope_local_base_freq": 1e4, "rope_scaling": {"rope_type": "linear", "factor": 8.0}}
LATENT = {
    "q_lora_rank": 24, "kv_lora_rank": 16, "qk_nope_head_dim": 8, "qk_rope_head_dim": 8, "v_head_dim": 8,
    "n_routed_experts": 4, "n_shared_experts": 1, "num_experts_per_tok": 2, "moe_intermediate_size": 16, "n_group": 1,
    "topk_group": 1, "first_k_dense_replace": 1, "num_key_value_heads": 6,
}  # fmt: skip
PHI = {"original_max_position_embeddings": 4096}
# Kind: fields, version 4's spelling, version 5's, frequencies.
KINDS: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any], list[Tensor]]] = {
    "llama": (
        {"head_dim": 16}, {"rope_theta": 5e5, "rope_scaling": LLAMA3}, nested(5e5, LLAMA3), [llama3(5e5, 16)],
    ),
    "qwen3": (
        {"head_dim": 16}, {"rope_theta": 1e6, "rope_scaling": YARN}, nested(1e6, YARN), [yarn(1e6, 16, 4.0, 1024)],
    ),
    "gemma3_text": (
        {"head_dim": 16, "sliding_window": 8, "query_pre_attn_scalar": 16}, GEMMA4, GEMMA5,
        [plain(1e6, 16) / 8, plain(1e4, 16)],
    ),
    "phi3": (
        PHI, {"rope_theta": 1e4, "rope_scaling": {"type": "longrope", "short_factor": SHORT, "long_factor": LONG}},
        nested(1e4, {"rope_type": "longrope", "short_factor": SHORT, "long_factor": LONG, **PHI}),
        [plain(1e4, 8) / torch.tensor(SHORT, dtype=torch.float64)],
    ),
    "deepseek_v3": (
        LATENT, {"rope_theta": 1e4, "rope_scaling": DEEP}, nested(1e4, DEEP), [yarn(1e4, 8, 40.0, 64)],
    ),
}  # fmt: skip


def frequencies(folder: Path) -> list[list[float]]:
    """Return the rotary frequencies of the model that this version builds."""
    config = transformers.AutoConfig.from_pretrained(folder)
    model = transformers.AutoModelForCausalLM.from_config(config)
    named = {n: b for n, b in model.named_buffers() if n.endswith("inv_freq") and "original" not in n}
    return sorted(b.double().tolist() for b in named.values())


@pytest.mark.parametrize("spelling", [4, 5])
@pytest.mark.parametrize("kind", KINDS)
def test_read_alike(tmp_path: Path, kind: str, spelling: int) -> None:
    fields, four, five, wanted = KINDS[kind]
    raw = {"model_type": kind, **SIZES, **fields, **(four if spelling == 4 else five)}
    family, config = for_model_type(kind), read_config(raw)
    assert family is not None
    made = hf_config(family, config, config.dims, dtype="fp32", tied=False, biases=frozenset())
    (tmp_path / "config.json").write_text(json.dumps(made))
    found = frequencies(tmp_path)
    expected = sorted(row.tolist() for row in wanted)
    assert len(found) == len(expected)
    for row, other in zip(found, expected, strict=True):
        assert row == pytest.approx(other, rel=1e-6)
