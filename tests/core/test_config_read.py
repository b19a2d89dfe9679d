"""config.json in the spelling of transformers 4 and 5, and params.json of every release."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.export import Target
from ckpt_gui.core.meta_config import meta_ffn, read_params
from ckpt_gui.core.model_config import read_config
from ckpt_gui.core.retarget import retarget
from tests.core import models

LLAMA3 = {
    "rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}  # fmt: skip
# params.json as released: (content, heads of keys, width, scaling factor, scaling known).
RELEASES: dict[str, tuple[dict[str, Any], int, int, float | None, bool]] = {
    "Llama2-7B": ({"dim": 4096, "multiple_of": 256, "n_heads": 32, "n_layers": 32, "norm_eps": 1e-05, "vocab_size": -1},
                  32, 11008, None, True),
    "Llama2-13B": ({"dim": 5120, "multiple_of": 256, "n_heads": 40, "n_layers": 40, "norm_eps": 1e-05,
                    "vocab_size": -1}, 40, 13824, None, True),
    "Llama2-70B": ({"dim": 8192, "multiple_of": 4096, "ffn_dim_multiplier": 1.3, "n_heads": 64, "n_kv_heads": 8,
                    "n_layers": 80, "norm_eps": 1e-05, "vocab_size": -1}, 8, 28672, None, True),
    "Llama3-8B": ({"dim": 4096, "n_layers": 32, "n_heads": 32, "n_kv_heads": 8, "vocab_size": 128256,
                   "multiple_of": 1024, "ffn_dim_multiplier": 1.3, "norm_eps": 1e-05, "rope_theta": 500000.0},
                  8, 14336, None, True),
    "Llama3-70B": ({"dim": 8192, "ffn_dim_multiplier": 1.3, "multiple_of": 4096, "n_heads": 64, "n_kv_heads": 8,
                    "n_layers": 80, "norm_eps": 1e-05, "vocab_size": 128256, "rope_theta": 500000.0},
                   8, 28672, None, True),
    "Llama3.1-8B": ({"dim": 4096, "n_layers": 32, "n_heads": 32, "n_kv_heads": 8, "vocab_size": 128256,
                     "ffn_dim_multiplier": 1.3, "multiple_of": 1024, "norm_eps": 1e-05, "rope_theta": 500000.0,
                     "use_scaled_rope": True}, 8, 14336, 8.0, True),
    "Llama3.3-70B": ({"dim": 8192, "n_layers": 80, "n_heads": 64, "n_kv_heads": 8, "vocab_size": 128256,
                      "ffn_dim_multiplier": 1.3, "multiple_of": 4096, "norm_eps": 1e-05, "rope_theta": 500000.0,
                      "use_scaled_rope": True}, 8, 28672, 8.0, True),
    "Llama3.1-405B": ({"dim": 16384, "ffn_dim_multiplier": 1.2, "multiple_of": 4096, "n_heads": 128, "n_kv_heads": 8,
                       "n_layers": 126, "norm_eps": 1e-05, "vocab_size": 128256, "rope_theta": 500000.0,
                       "use_scaled_rope": True}, 8, 53248, 8.0, True),
    "Llama3.2-1B": ({"dim": 2048, "n_layers": 16, "n_heads": 32, "n_kv_heads": 8, "vocab_size": 128256,
                     "ffn_dim_multiplier": 1.5, "multiple_of": 256, "norm_eps": 1e-05, "rope_theta": 500000.0,
                     "use_scaled_rope": True}, 8, 8192, 32.0, True),
    "Llama3.2-3B": ({"dim": 3072, "n_layers": 28, "n_heads": 24, "n_kv_heads": 8, "vocab_size": 128256,
                     "ffn_dim_multiplier": 1.0, "multiple_of": 256, "norm_eps": 1e-05, "rope_theta": 500000.0,
                     "use_scaled_rope": True}, 8, 8192, 32.0, True),
    "of unknown size": ({"dim": 1024, "n_layers": 5, "n_heads": 16, "n_kv_heads": 8, "vocab_size": 128256,
                         "multiple_of": 256, "use_scaled_rope": True}, 8, 2816, None, False),
    "pruned": ({"dim": 2048, "n_layers": 12, "n_heads": 32, "n_kv_heads": 8, "hidden_dim": 6400, "multiple_of": 256,
                "ffn_dim_multiplier": 1.5, "vocab_size": 128256}, 8, 6400, None, True),
}  # fmt: skip


@pytest.mark.parametrize("name", RELEASES)
@pytest.mark.parametrize("nested", [False, True])
def test_params_of_every_release(name: str, nested: bool) -> None:
    raw, kv_heads, ffn, factor, known = RELEASES[name]
    read = read_params({"model": raw} if nested else raw)
    assert read.dims["hidden"] == raw["dim"]
    assert read.dims["layers"] == raw["n_layers"]
    assert read.dims["heads"] == raw["n_heads"]
    assert read.dims["kv_heads"] == kv_heads
    assert read.dims["head_dim"] == raw["dim"] // raw["n_heads"]
    assert read.dims["ffn"] == ffn
    assert read.dims.get("vocab") == (raw["vocab_size"] if raw["vocab_size"] > 0 else None)
    assert (read.rope_scaling or {}).get("factor") == factor
    assert read.rope_unknown is not known
    assert read.rope_theta == raw.get("rope_theta")
    assert read.tie_flag(default=False) == (None, "")
    if factor:
        assert read.rope_scaling == LLAMA3 | {"factor": factor}
        assert read.max_positions == 131072


def test_an_unknown_factor_blocks_where_it_is_needed() -> None:
    plan = models.plan(models.state("meta"), None, models.params(use_scaled_rope=True))
    for target in ("hf", "torchtune"):
        found = next(f for f in retarget(plan, Target(target)).blocked)
        assert found.code == "config-mismatch"
        assert "factor" in found.message
        assert "rope_scaling_factor" in (found.fix or "")
    assert not retarget(plan, Target("same")).blocked
    told = models.plan(models.state("meta"), None, models.params(use_scaled_rope=True, rope_scaling_factor=16))
    written = json.loads(retarget(told, Target("hf")).texts["config.json"])
    assert written["rope_scaling"] == LLAMA3 | {"factor": 16.0}


@pytest.mark.parametrize(
    ("fields", "theta", "scaling"),
    [
        ({}, None, None),
        ({"rope_theta": 500000.0}, 500000.0, None),
        ({"rope_theta": 500000}, 500000.0, None),
        ({"rope_theta": 500000.0, "rope_scaling": LLAMA3}, 500000.0, LLAMA3),
        ({"rope_theta": 1e4, "rope_scaling": {"type": "linear", "factor": 2.0}}, 1e4,
         {"type": "linear", "factor": 2.0, "rope_type": "linear"}),
        ({"rope_scaling": None, "rope_theta": 1e4}, 1e4, None),
        ({"rope_scaling": {}}, None, None),
        ({"rope_parameters": {"rope_type": "default", "rope_theta": 1e6}}, 1e6, None),
        ({"rope_parameters": {"rope_theta": 1e6}}, 1e6, None),
        ({"rope_parameters": LLAMA3 | {"rope_theta": 500000.0}}, 500000.0, LLAMA3),
        ({"rope_parameters": LLAMA3 | {"rope_theta": 5e5}, "rope_theta": 5e5, "rope_scaling": LLAMA3}, 5e5, LLAMA3),
        ({"rope_parameters": None}, None, None),
    ],
)  # fmt: skip
@pytest.mark.parametrize("nested", [False, True])
def test_rotary_frequencies(fields: dict[str, Any], theta: float | None, scaling: Any, nested: bool) -> None:
    base = models.config(rope_theta=...)
    read = read_config(base | {"text_config": fields} if nested else base | fields)
    assert read.rope_theta == theta
    assert read.rope_scaling == scaling


@pytest.mark.parametrize(
    ("fields", "dtype"),
    [
        ({"torch_dtype": "bfloat16"}, "bf16"),
        ({"dtype": "float16"}, "fp16"),
        ({"dtype": "torch.float32"}, "fp32"),
        ({"dtype": "bfloat16", "torch_dtype": "float32"}, "bf16"),
        ({"torch_dtype": "auto"}, None),
        ({"torch_dtype": None}, None),
        ({"torch_dtype": ["x"]}, None),
        ({}, None),
    ],
)
def test_element_types(fields: dict[str, Any], dtype: str | None) -> None:
    assert read_config(models.config(torch_dtype=...) | fields).dtype == dtype


def test_defaults_of_heads() -> None:
    read = read_config({"num_attention_heads": 4, "hidden_size": 32})
    assert dict(read.dims) == {"hidden": 32, "heads": 4, "kv_heads": 4, "head_dim": 8}
    assert dict(read_config({}).dims) == {}
    explicit = read_config({"num_attention_heads": 4, "hidden_size": 32, "head_dim": None, "num_key_value_heads": None})
    assert dict(explicit.dims) == {"hidden": 32, "heads": 4, "kv_heads": 4, "head_dim": 8}


def test_the_text_model_decides() -> None:
    text = {"model_type": "mistral", "hidden_size": 24, "tie_word_embeddings": False}
    read = read_config({"model_type": "mistral3", "hidden_size": 9, "tie_word_embeddings": True, "text_config": text})
    assert read.model_type == "mistral"
    assert read.dims["hidden"] == 24
    assert read.tie_flag(default=True) == (False, "text_config.tie_word_embeddings in config.json")


@pytest.mark.parametrize("raw", [{}, {"text_config": None}, {"text_config": [1]}, {"tie_word_embeddings": "yes"}])
def test_flags_that_are_none(raw: dict[str, Any]) -> None:
    flag, where = read_config(raw).tie_flag(default=False)
    assert flag is False
    assert "default" in where


@pytest.mark.parametrize("value", ["4096", 4096.0, True, [1], {}, 2**60, -(2**60), 10**400])
def test_sizes_must_be_whole_numbers_that_a_model_can_have(value: Any) -> None:
    for read, field in ((read_config, "hidden_size"), (read_params, "dim")):
        with pytest.raises(CheckpointError) as caught:
            read({field: value})
        assert caught.value.code == "config-mismatch"
        assert field in caught.value.message
        assert len(caught.value.message) < 200
        assert "--config" in (caught.value.fix or "")


@pytest.mark.parametrize("multiplier", [float("inf"), float("nan"), -1.5, 0, "1.3", None, True, 1e300, 10**400])
@pytest.mark.parametrize("multiple_of", [256, 0, -1, None, "256", 2**80])
@pytest.mark.parametrize("hidden", [4096, 1, 0, -5, 2**53])
def test_the_formula_survives_odd_numbers(hidden: int, multiple_of: Any, multiplier: Any) -> None:
    assert isinstance(meta_ffn(hidden, multiple_of, multiplier), int)
