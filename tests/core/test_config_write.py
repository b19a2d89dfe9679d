"""What is written is read as the same model by every reader."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckpt_gui.core.config_write import ffn_formula, hf_config, meta_params
from ckpt_gui.core.export import Target
from ckpt_gui.core.families.registry import BY_NAME
from ckpt_gui.core.meta_config import meta_ffn, read_params
from ckpt_gui.core.model_config import ModelConfig, read_config
from ckpt_gui.core.retarget import retarget
from tests.core import models
from tests.core.test_config_read import LLAMA3, RELEASES

LLAMA, MISTRAL = BY_NAME["llama"], BY_NAME["mistral"]
TRUE = {"hidden": 24, "layers": 3, "heads": 4, "kv_heads": 2, "head_dim": 8, "ffn": 40, "vocab": 50}


def hf(config: ModelConfig, **more: Any) -> dict[str, Any]:
    options = {"dtype": "fp32", "tied": False, "biases": frozenset()} | more
    return hf_config(LLAMA, config, TRUE, **options)


@pytest.mark.parametrize(
    "raw",
    [
        models.config(),
        models.config(rope_scaling=LLAMA3, torch_dtype="bfloat16"),
        models.config(torch_dtype=..., dtype="float32"),
        models.config(rope_theta=..., rope_parameters=LLAMA3 | {"rope_theta": 500000.0}),
        models.config(rope_theta=..., rope_parameters={"rope_type": "default", "rope_theta": 500000.0}),
        models.config(custom={"a": [1, None]}, quantization=None),
    ],
)
def test_a_config_keeps_what_it_says(raw: dict[str, Any]) -> None:
    before = read_config(raw)
    written = hf(before)
    after = read_config(written)
    assert (after.rope_theta, after.rope_scaling, after.norm_eps) == (
        before.rope_theta,
        before.rope_scaling,
        before.norm_eps,
    )
    assert dict(after.dims) == TRUE
    assert not {"rope_parameters", "dtype"} & set(written)  # transformers 4 would not read them
    assert written["torch_dtype"] == "float32"
    for field in set(raw) - {"rope_parameters", "dtype", "torch_dtype", "rope_scaling"}:
        assert written[field] == raw[field]
    assert hf(after) == written
    assert "raw" not in written


def test_sizes_follow_the_tensors() -> None:
    written = hf(read_config(models.config(vocab_size=9, num_key_value_heads=4, head_dim=...)), tied=True, dtype="bf16")
    assert (written["vocab_size"], written["num_key_value_heads"], written["head_dim"]) == (50, 2, 8)
    assert written["tie_word_embeddings"] is True
    assert written["torch_dtype"] == "bfloat16"


@pytest.mark.parametrize("tied", [True, False])
def test_every_level(tied: bool) -> None:
    raw = {"model_type": "x", "dtype": "bfloat16", "tie_word_embeddings": not tied,
           "text_config": models.config(tie_word_embeddings=not tied)}  # fmt: skip
    written = hf(read_config(raw), tied=tied, biases=frozenset(["mlp_bias"]))
    assert written["tie_word_embeddings"] is tied
    assert written["text_config"]["tie_word_embeddings"] is tied
    assert written["text_config"]["mlp_bias"] is True
    assert "hidden_size" not in written
    assert raw["text_config"]["tie_word_embeddings"] is not tied  # the source's own dict is not touched


def test_from_params() -> None:
    written = hf(read_params(models.params()), biases=frozenset(["attention_bias"]))
    assert written["architectures"] == ["LlamaForCausalLM"]
    assert written["model_type"] == "llama"
    assert written["hidden_act"] == "silu"
    assert written["attention_bias"] is True
    assert written["rope_theta"] == 500000.0
    assert written["rms_norm_eps"] == 1e-5
    assert written["max_position_embeddings"] == 8192
    old = hf(read_params(models.params(rope_theta=...)))
    assert (old["rope_theta"], old["max_position_embeddings"]) == (10000.0, 4096)


@pytest.mark.parametrize("name", [name for name, row in RELEASES.items() if row[4]])
def test_params_there_and_back(name: str) -> None:
    raw = RELEASES[name][0]
    before = read_params(raw)
    dims = dict(before.dims) | {"vocab": 32000 if raw["vocab_size"] < 0 else raw["vocab_size"]}
    config = read_config(hf_config(LLAMA, before, dims, dtype="bf16", tied=False, biases=frozenset()))
    again = read_params(meta_params(LLAMA, config, dims))
    assert dict(again.dims) == dims
    assert again.rope_scaling == before.rope_scaling
    assert again.rope_theta == (before.rope_theta or 10000.0)
    assert again.norm_eps == (before.norm_eps or 1e-6 if before.norm_eps else again.norm_eps)
    same = meta_params(LLAMA, before, dims)
    fits = meta_ffn(raw["dim"], raw["multiple_of"], raw.get("ffn_dim_multiplier")) == dims["ffn"]
    for field in set(raw) - ({"vocab_size"} if fits else {"vocab_size", "multiple_of", "ffn_dim_multiplier"}):
        assert same[field] == raw[field]


def test_a_base_that_the_config_leaves_to_transformers_is_written() -> None:
    """Llama 3's program takes 500,000 where params.json is silent; transformers takes 10,000."""
    written = meta_params(LLAMA, read_config(models.config(rope_theta=...)), TRUE)
    assert written["rope_theta"] == 10000.0


def test_mistral_stays_mistral() -> None:
    plan = models.plan(models.state("hf"), models.mistral_config())
    written = json.loads(retarget(plan, Target("meta")).texts["params.json"])
    assert written["sliding_window"] == 4096
    assert (written["hidden_dim"], written["head_dim"]) == (40, 8)
    assert "multiple_of" not in written
    back = models.plan(models.state("meta"), None, written)
    assert back.family is MISTRAL
    config = json.loads(retarget(back, Target("hf")).texts["config.json"])
    assert config["model_type"] == "mistral"
    assert config["sliding_window"] == 4096
    assert config["architectures"] == ["MistralForCausalLM"]


SIZES = {
    4096: (11008, 14336, 12288), 5120: (13824, 17408, 27648), 8192: (28672, 22016), 16384: (53248,), 2048: (8192, 5632),
    3072: (8192, 24576), 576: (1536,), 896: (4864,), 1536: (8960,), 3584: (18944, 14336), 12288: (28672,),
    6144: (16384,), 24: (40, 41), 1: (1,), 128: (512,),
}  # fmt: skip


@pytest.mark.parametrize(("hidden", "ffn"), [(h, f) for h, widths in SIZES.items() for f in widths])
def test_the_formula_both_ways(hidden: int, ffn: int) -> None:
    multiple_of, multiplier = ffn_formula(hidden, ffn)
    assert meta_ffn(hidden, multiple_of, multiplier) == ffn
    # As Meta's program has it.
    width = int(2 * (4 * hidden) / 3)
    if multiplier is not None:
        width = int(multiplier * width)
    assert multiple_of * ((width + multiple_of - 1) // multiple_of) == ffn
    assert multiplier is None or len(repr(multiplier)) < 16


@given(st.integers(2, 40000), st.integers(1, 200000))
def test_the_formula_for_any_size(hidden: int, ffn: int) -> None:
    assert meta_ffn(hidden, *ffn_formula(hidden, ffn)) == ffn


def test_configs_are_plain_ascii_json() -> None:
    plan = models.plan(models.state("meta"), models.config(note="größe \u202e"))
    text = retarget(plan, Target("hf")).texts["config.json"]
    assert re.fullmatch(r"[\x20-\x7e\n]+", text)
    assert json.loads(text)["note"] == "größe \u202e"


def test_sections_of_a_head_are_kept_though_nothing_is_scaled() -> None:
    rope = {"rope_type": "default", "rope_theta": 1e6, "mrope_section": [16, 24, 24]}
    written = hf(read_config(models.config(rope_theta=..., rope_parameters=rope)))
    assert written["rope_theta"] == 1e6
    assert written["rope_scaling"] == {"rope_type": "default", "mrope_section": [16, 24, 24]}
