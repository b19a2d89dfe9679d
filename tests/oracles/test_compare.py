"""What a fine-tune touched, as peft made it: which tensors, how far, and of what rank."""

from __future__ import annotations

from pathlib import Path

import pytest

pytestmark = pytest.mark.oracle
pytest.importorskip("transformers")
pytest.importorskip("peft")

import torch
from peft import LoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM

from ckpt_gui.core.compare import Comparison, by_layer, by_role, compare, opened_sides, with_ranks

LAYERS, RANK = 4, 8


def base(dtype: torch.dtype) -> LlamaForCausalLM:
    torch.manual_seed(0)
    config = LlamaConfig(
        hidden_size=192, intermediate_size=320, num_hidden_layers=LAYERS, num_attention_heads=6, num_key_value_heads=2,
        head_dim=48, vocab_size=200, tie_word_embeddings=True, initializer_range=0.05,
    )  # fmt: skip
    return LlamaForCausalLM(config).to(dtype)


def tuned(folder: Path, dtype: torch.dtype) -> Comparison:
    """Train q and v of the last two layers with peft, merge, save; compare with the base."""
    base(dtype).save_pretrained(folder / "base")
    wanted = LoraConfig(r=RANK, lora_alpha=16, target_modules=["q_proj", "v_proj"], layers_to_transform=[2, 3])
    model = get_peft_model(base(dtype), wanted)
    for name, weight in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(weight, std=0.05)
    model.merge_and_unload().save_pretrained(folder / "tuned")
    with opened_sides(str(folder / "base"), str(folder / "tuned"), values=True) as (a, b):
        found = compare(a, b, values=True)
        return with_ranks(found, [row for row in found.rows if row.state == "differs"])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_a_merged_adapter(tmp_path: Path, dtype: torch.dtype) -> None:
    found = tuned(tmp_path, dtype)
    touched = {f"model.layers.{n}.self_attn.{part}_proj.weight" for n in (2, 3) for part in "qv"}
    assert {row.key for row in found.rows if not row.is_same} == touched
    assert [c.name for c in by_layer(found.rows) if c.different] == ["model.layers.2", "model.layers.3"]
    assert {c.name.split(".")[-2] for c in by_role(found.rows) if c.different} == {"q_proj", "v_proj"}
    assert {rank.key: rank.rank for rank in found.ranks} == dict.fromkeys(touched, RANK)
    models = (LlamaForCausalLM.from_pretrained(tmp_path / name, dtype=dtype) for name in ("base", "tuned"))
    states = [model.state_dict() for model in models]
    for row in found.rows:
        if row.delta is not None:
            one, two = (state[row.key].double() for state in states)
            assert row.delta.relative == pytest.approx(float((two - one).norm() / one.norm()), rel=1e-9)
            assert row.delta.max_diff == float((two - one).abs().max())
