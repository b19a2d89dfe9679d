"""Fused families and mixtures of experts: what transformers saves is clean, and comes back from every layout.

Every parameter and buffer has random values of its own, so that gates, norms, biases and experts that are swapped are
seen; the number of experts, of heads and of key/value heads are all different.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.oracle
pytest.importorskip("transformers")

import torch
import transformers

from ckpt_gui.core.families.registry import BY_NAME
from tests.oracles import tiny

BASE: dict[str, Any] = {
    "hidden_size": 48,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "num_hidden_layers": 3,
    "vocab_size": 80,
    "max_position_embeddings": 64,
    "intermediate_size": 56,
}
ALL_HEADS = {**BASE, "num_key_value_heads": 6}
MOE = {**BASE, "moe_intermediate_size": 20, "num_experts_per_tok": 2, "head_dim": 16}
MLA = {
    **ALL_HEADS,
    "moe_intermediate_size": 20,
    "num_experts_per_tok": 2,
    "n_routed_experts": 4,
    "n_shared_experts": 2,
    "first_k_dense_replace": 1,
    "kv_lora_rank": 12,
    "qk_nope_head_dim": 8,
    "qk_rope_head_dim": 4,
    "v_head_dim": 10,
    "n_group": 1,
    "topk_group": 1,
}
# (class of the config, its fields, our family)
CASES: dict[str, tuple[str, dict[str, Any], str]] = {
    "phi": ("PhiConfig", BASE, "phi"),
    "phi-norms": ("PhiConfig", {**BASE, "qk_layernorm": True}, "phi"),
    "phi3": ("Phi3Config", {**BASE, "pad_token_id": 0}, "phi3"),
    "phi3-all-heads": ("Phi3Config", {**ALL_HEADS, "pad_token_id": 0}, "phi3"),
    "phi3-tied": ("Phi3Config", {**BASE, "pad_token_id": 0, "tie_word_embeddings": True}, "phi3"),
    "gpt2": ("GPT2Config", {"n_embd": 48, "n_head": 6, "n_layer": 3, "vocab_size": 80, "n_positions": 64}, "gpt2"),
    "gpt2-untied": (
        "GPT2Config",
        {"n_embd": 48, "n_head": 6, "n_layer": 3, "vocab_size": 80, "n_positions": 64, "n_inner": 56}
        | {"tie_word_embeddings": False},
        "gpt2",
    ),
    "gpt-neox": ("GPTNeoXConfig", ALL_HEADS, "gpt-neox"),
    "gpt-neox-base": ("GPTNeoXConfig", {**ALL_HEADS, "rotary_pct": 0.5, "rotary_emb_base": 5000}, "gpt-neox"),
    "gpt-neox-no-bias": ("GPTNeoXConfig", {**ALL_HEADS, "attention_bias": False}, "gpt-neox"),
    "mixtral": ("MixtralConfig", {**BASE, "num_local_experts": 4, "head_dim": 16}, "mixtral"),
    "qwen2-moe": (
        "Qwen2MoeConfig",
        {**BASE, "num_experts": 4, "moe_intermediate_size": 20, "shared_expert_intermediate_size": 40}
        | {"mlp_only_layers": [1], "num_experts_per_tok": 2},
        "qwen2-moe",
    ),
    "qwen3-moe": ("Qwen3MoeConfig", {**MOE, "num_experts": 4, "mlp_only_layers": [1]}, "qwen3-moe"),
    "qwen3-moe-biases": ("Qwen3MoeConfig", {**MOE, "num_experts": 4, "attention_bias": True}, "qwen3-moe"),
    "deepseek-v2": ("DeepseekV2Config", {**MLA, "q_lora_rank": 24}, "deepseek-v2"),
    "deepseek-v2-lite": ("DeepseekV2Config", {**MLA, "q_lora_rank": None}, "deepseek-v2"),
    "deepseek-v3": ("DeepseekV3Config", {**MLA, "q_lora_rank": 24}, "deepseek-v3"),
    "deepseek-v3-biases": (
        "DeepseekV3Config",
        {**MLA, "q_lora_rank": 24, "attention_bias": True},
        "deepseek-v3",
    ),
    "gpt-oss": ("GptOssConfig", {**BASE, "num_local_experts": 4, "head_dim": 16, "num_experts_per_tok": 2}, "gpt-oss"),
    "llama4": (
        "Llama4TextConfig",
        {**BASE, "num_local_experts": 4, "intermediate_size_mlp": 72, "head_dim": 16, "interleave_moe_layer_step": 2},
        "llama4",
    ),
}
SEVERAL = [(case, layout.name) for case, (_, _, family) in CASES.items() for layout in BY_NAME[family].layouts[1:]]
SEVERAL.remove(("phi-norms", "litgpt"))


def random_model(case: str, scale: float = 0.3) -> Any:
    """Return a model of which every parameter and float buffer that is saved is random."""
    name, fields, _ = CASES[case]
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(getattr(transformers, name)(**fields)).eval()
    generator = torch.Generator().manual_seed(1)
    kept = dict(model.state_dict(keep_vars=True))
    with torch.no_grad():
        for value in {id(v): v for v in kept.values() if v.is_floating_point()}.values():
            noise = torch.randn(value.shape, generator=generator)
            value.copy_(noise * scale if value.ndim > 1 else 1 + 0.2 * noise)
    return model


@pytest.fixture(params=list(CASES))
def case(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Folders written by `save_pretrained`, one a case."""

    @lru_cache
    def of(case: str) -> Path:
        folder = tmp_path_factory.mktemp(case) / "saved"
        random_model(case).save_pretrained(folder)
        return folder

    return of


def assert_nothing_found(folder: Path) -> None:
    """Not even an info, but that no tokenizer is there."""
    plan = tiny.plan_of(folder)
    assert [(f.code, f.message) for f in plan.findings] == []
    assert plan.status == "clean"


def config_of(folder: Path) -> dict[str, Any]:
    """The config as transformers reads it; what version 5 takes into `rope_parameters` may also stand beside them."""
    aside = {"partial_rotary_factor", "rotary_pct", "rotary_emb_base"} if tiny.V5 else set()
    return {name: value for name, value in tiny.config_of(folder).items() if name not in aside}


def assert_same_model(folder: Path, saved: Path) -> None:
    assert tiny.differing(tiny.read(folder), tiny.read(saved)) == []
    assert config_of(folder) == config_of(saved)
    logits = tiny.logits_of(tiny.load(saved))
    assert logits.isfinite().all()
    assert torch.equal(tiny.logits_of(tiny.load(folder)), logits)


def test_what_transformers_saves_is_clean(case: str, folders: Any) -> None:
    plan = tiny.plan_of(folders(case))
    assert plan.family is BY_NAME[CASES[case][2]]
    assert plan.layout is plan.family.layouts[0]
    assert plan.missing == plan.unmapped == ()
    assert_nothing_found(folders(case))


def test_hf_export_is_the_same_model(case: str, folders: Any, tmp_path: Path) -> None:
    out = tiny.export(folders(case), tmp_path / "out")
    assert_nothing_found(out)
    assert_same_model(out, folders(case))


@pytest.mark.parametrize(("name", "layout"), SEVERAL)
def test_there_and_back(name: str, layout: str, folders: Any, tmp_path: Path) -> None:
    there = tiny.export(folders(name), tmp_path / "there", layout)
    plan = tiny.plan_of(there)
    assert plan.layout is not None
    assert plan.layout.name == layout
    tiny.assert_clean(there)
    back = tiny.export(there, tmp_path / "back")
    assert_nothing_found(back)
    assert_same_model(back, folders(name))
    again = tiny.export(back, tmp_path / "again", layout)
    assert tiny.differing(tiny.read(again), tiny.read(there)) == []
