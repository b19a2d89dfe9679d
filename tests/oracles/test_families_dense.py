"""Dense families: what transformers saves is clean and goes to each layout and back; other converters agree."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.oracle
pytest.importorskip("transformers")

import torch
import transformers

from ckpt_gui.core.families.registry import BY_NAME
from tests.oracles import tiny

SIZES: dict[str, Any] = {
    "hidden_size": 48,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "intermediate_size": 112,
    "num_hidden_layers": 3,
    "vocab_size": 80,
    "max_position_embeddings": 512,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
SMALL = {"head_dim": 8}  # hidden ÷ heads: where the config class has no head_dim
NAMES = ("input_layernorm", "post_attention_layernorm")
FOUR = (*NAMES, "pre_feedforward_layernorm", "post_feedforward_layernorm")
# Name: (family, changes of the config).
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("llama", {"tie_word_embeddings": False}),
    "llama-tied": ("llama", {"tie_word_embeddings": True}),
    "mistral": ("mistral", {"tie_word_embeddings": False, "sliding_window": None}),
    "qwen2": ("qwen2", SMALL),
    "qwen2-tied": ("qwen2", {**SMALL, "tie_word_embeddings": True}),
    "qwen2-window": ("qwen2", {**SMALL, "use_sliding_window": True, "sliding_window": 8, "max_window_layers": 1}),
    "qwen3": ("qwen3", {}),
    "qwen3-tied": ("qwen3", {"tie_word_embeddings": True}),
    "qwen3-bias": ("qwen3", {"attention_bias": True}),
    "gemma": ("gemma", {"hidden_activation": "gelu_pytorch_tanh"}),
    "gemma-untied": ("gemma", {"tie_word_embeddings": False}),
    "gemma2": ("gemma2", {"query_pre_attn_scalar": 16, "sliding_window": 8}),
    "gemma2-untied": ("gemma2", {"tie_word_embeddings": False}),
    "gemma3": ("gemma3_text", {"query_pre_attn_scalar": 16, "sliding_window": 8, "sliding_window_pattern": 2}),
    "gemma3-untied": ("gemma3_text", {"tie_word_embeddings": False}),
    "smollm3": ("smollm3", {"num_hidden_layers": 5}),
    "smollm3-untied": ("smollm3", {"tie_word_embeddings": False, "attention_bias": True, "mlp_bias": True}),
    "olmo2": ("olmo2", SMALL),
    "olmo2-tied": ("olmo2", {**SMALL, "tie_word_embeddings": True}),
    "cohere": ("cohere", SMALL),
    "cohere-qk-norm": ("cohere", {**SMALL, "use_qk_norm": True}),
    "cohere-untied": ("cohere", {**SMALL, "tie_word_embeddings": False, "attention_bias": True}),
    "starcoder2": ("starcoder2", SMALL),
    "starcoder2-untied": ("starcoder2", {**SMALL, "tie_word_embeddings": False}),
    "starcoder2-without-biases": ("starcoder2", {**SMALL, "use_bias": False}),
}
# Tensors of one layer, and beside the layers, of a tied model (FORMATS of the README).
COUNTS = {
    "llama-tied": (9, 2), "mistral": (9, 3), "qwen2-tied": (12, 2), "qwen3-tied": (11, 2), "gemma": (9, 2),
    "gemma2": (11, 2), "gemma3": (13, 2), "smollm3": (9, 2), "olmo2-tied": (11, 2), "cohere": (8, 2),
    "cohere-qk-norm": (10, 2), "starcoder2": (16, 3),
}  # fmt: skip


def layouts_of(kind: str) -> list[str]:
    """Return the layouts of a kind's family beside Hugging Face's."""
    family = next(f for f in BY_NAME.values() if KINDS[kind][0] in f.model_types)
    return [layout.name for layout in family.layouts if layout.name != "hf"]


def make(kind: str) -> Any:
    """Return a model with random norms and biases."""
    model_type, changes = KINDS[kind]
    sizes = {**SIZES, **changes}
    if sizes.get("head_dim") == 8:
        del sizes["head_dim"]
    config = transformers.AutoConfig.for_model(model_type, **sizes)
    model = transformers.AutoModelForCausalLM.from_config(config).eval()
    generator = torch.Generator().manual_seed(sum(map(ord, kind)))
    with torch.no_grad():
        for parameter in model.parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            big = parameter.ndim == 2 and parameter.shape[0] != config.vocab_size
            parameter.copy_(noise * 0.3 if big else noise if parameter.ndim == 2 else 0.5 + 0.2 * noise)
    return model


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    """The name of a tiny model."""
    return str(request.param)


@pytest.fixture
def saved(kind: str, tmp_path: Path) -> Path:
    """A folder written by `save_pretrained`."""
    make(kind).save_pretrained(tmp_path / "saved")
    return tmp_path / "saved"


def test_what_transformers_saves_has_no_findings(kind: str, saved: Path) -> None:
    plan = tiny.plan_of(saved)
    assert plan.findings == ()
    assert plan.family is not None
    assert KINDS[kind][0] in plan.family.model_types
    if kind in COUNTS:
        per_layer, beside = COUNTS[kind]
        assert len(plan.entries) == per_layer * plan.dims["layers"] + beside


def test_hf_export_is_the_same_model(saved: Path, tmp_path: Path) -> None:
    out = tiny.export(saved, tmp_path / "out")
    tiny.assert_clean(out)
    assert tiny.differing(tiny.read(out), tiny.read(saved)) == []
    assert tiny.config_of(out) == tiny.config_of(saved)
    assert tiny.logits_equal(out, saved)


WAYS = [(kind, layout) for kind in KINDS for layout in layouts_of(kind)]
BIASED = {"llama-biased", "qwen3-bias"}


@pytest.mark.parametrize(("kind", "layout"), WAYS)
def test_there_and_back(kind: str, layout: str, tmp_path: Path) -> None:
    saved = tmp_path / "saved"
    make(kind).save_pretrained(saved)
    if kind in BIASED and layout.startswith("torchtitan"):
        export = tiny.plan_of(saved)
        with pytest.raises(Exception, match="no name for"):
            tiny.write(export, tmp_path / "there", layout)
        return
    there = tiny.export(saved, tmp_path / "there", layout)
    tiny.assert_clean(there)
    read = tiny.plan_of(there)
    assert read.layout is not None
    assert read.layout.name == layout
    back = tiny.export(there, tmp_path / "back")
    tiny.assert_clean(back)
    assert tiny.differing(tiny.read(back), tiny.read(saved)) == []
    assert tiny.config_of(back) == tiny.config_of(saved)
    assert tiny.logits_equal(back, saved)
    again = tiny.export(back, tmp_path / "again", layout)
    assert tiny.differing(tiny.read(again), tiny.read(there)) == []
