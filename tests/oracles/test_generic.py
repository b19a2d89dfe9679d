"""Families without a table: what transformers saves is what is expected, ties, buffers and fused experts included."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.oracle
pytest.importorskip("transformers")

import torch
import transformers

from ckpt_gui import open_checkpoint
from ckpt_gui.core.families import generic, generic_child
from ckpt_gui.core.normalise import normalise
from ckpt_gui.core.passes.detect import lacks_table
from tests.oracles import tiny

SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 64, "intermediate_size": 48}
# Model type: fields of its config that make it small.
MODELS: dict[str, dict[str, Any]] = {
    "bloom": {"hidden_size": 32, "n_layer": 2, "n_head": 4, "vocab_size": 64},
    "opt": SMALL | {"ffn_dim": 48, "word_embed_proj_dim": 32, "max_position_embeddings": 32},
    "gptj": {"n_embd": 32, "n_layer": 2, "n_head": 4, "vocab_size": 64, "rotary_dim": 8, "n_positions": 32},
    "falcon": SMALL,
    "stablelm": SMALL | {"num_key_value_heads": 2},
    "olmoe": SMALL | {"num_key_value_heads": 2, "num_experts": 4, "num_experts_per_tok": 2},
    "phimoe": SMALL | {"num_key_value_heads": 2, "num_local_experts": 4},
    "glm4_moe": SMALL | {"num_key_value_heads": 2, "head_dim": 8, "n_routed_experts": 4, "moe_intermediate_size": 16,
                         "num_experts_per_tok": 2, "first_k_dense_replace": 1, "n_group": 1, "topk_group": 1},
    "mamba": {"hidden_size": 32, "num_hidden_layers": 2, "vocab_size": 64, "state_size": 4},
    "t5": {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4, "vocab_size": 64},
    "bert": SMALL,
    "vit": SMALL | {"image_size": 16, "patch_size": 8},
}  # fmt: skip
KINDS = [name for name in MODELS if name in transformers.CONFIG_MAPPING]


def save(kind: str, folder: Path) -> Any:
    config = transformers.CONFIG_MAPPING[kind](**MODELS[kind])
    causal = transformers.MODEL_FOR_CAUSAL_LM_MAPPING
    auto = transformers.AutoModelForCausalLM if type(config) in causal else transformers.AutoModel
    torch.manual_seed(0)
    auto.from_config(config).save_pretrained(folder)
    return config


@pytest.fixture
def inside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask in this process: the child's own start is tested once, below."""
    monkeypatch.setattr(generic, "_ask", lambda text, *_: generic_child.describe(json.loads(text)))


@pytest.mark.parametrize("kind", KINDS)
def test_what_transformers_saves_is_clean(kind: str, tmp_path: Path, inside: None) -> None:
    save(kind, tmp_path / "in")
    if not lacks_table(normalise(open_checkpoint(tmp_path / "in"))):
        pytest.skip("has a table by now")
    plan = tiny.plan_of(tmp_path / "in")
    assert [f for f in plan.findings if f.severity != "info"] == []
    assert plan.family is not None
    assert (plan.family.name, len(plan.entries)) == (kind, len(tiny.read(tmp_path / "in")))
    tiny.export(tmp_path / "in", tmp_path / "out")
    assert tiny.differing(tiny.read(tmp_path / "in"), tiny.read(tmp_path / "out")) == []


@pytest.mark.parametrize("kind", ["opt", "olmoe"])
def test_a_lost_tensor_is_missed(kind: str, tmp_path: Path, inside: None) -> None:
    from safetensors.torch import load_file, save_file

    save(kind, tmp_path / "in")
    path = tmp_path / "in" / "model.safetensors"
    state = load_file(path)
    lost = next(key for key in state if ".1." in key)
    del state[lost]
    save_file(state, path, {"format": "pt"})
    plan = tiny.plan_of(tmp_path / "in")
    assert {f.code: f.keys for f in plan.findings if f.severity != "info"} == {"missing-tensor": (lost,)}


def test_the_child_process(tmp_path: Path) -> None:
    save("olmoe", tmp_path / "in")
    plan = tiny.plan_of(tmp_path / "in")
    assert plan.status == "clean", plan.findings
    assert any("transformers" in sentence for sentence in plan.evidence_text)
    again = tiny.plan_of(tmp_path / "in")  # from the cache
    assert again.evidence.saved == plan.evidence.saved


def test_a_type_that_transformers_does_not_know(tmp_path: Path) -> None:
    save("opt", tmp_path / "in")
    tiny.write_config(tmp_path / "in", tiny.raw_config(tmp_path / "in") | {"model_type": "never-heard-of"})
    plan = tiny.plan_of(tmp_path / "in")
    (found,) = [f for f in plan.findings if f.code == "unknown-layout"]
    assert "transformers could not build it" in found.message


def test_buffers_of_the_model_are_no_surprise(tmp_path: Path, inside: None) -> None:
    """A state dict with what `save_pretrained` leaves out, as `torch.save(dict(named_buffers))` beside it makes."""
    from safetensors.torch import load_file, save_file

    save("stablelm", tmp_path / "in")
    path = tmp_path / "in" / "model.safetensors"
    model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "in")
    buffers = {name: tensor.clone() for name, tensor in model.named_buffers()}
    assert buffers
    save_file({**load_file(path), **buffers}, path, {"format": "pt"})
    plan = tiny.plan_of(tmp_path / "in")
    assert [f.code for f in plan.findings if f.severity != "info"] == ["computed-buffer"]


def wrapped(kind: str, *, tied: bool) -> Any:
    """A model of images around one of text, with every weight random: an untied head is another matrix."""
    text = SMALL | {"num_key_value_heads": 2, "tie_word_embeddings": tied}
    if kind == "qwen2_vl":
        rope = {"rope_type": "default", "mrope_section": [1, 1, 2], "rope_theta": 10000.0}
        text |= {"rope_parameters": rope} if tiny.V5 else {"rope_scaling": rope}
        vision = {"depth": 1, "embed_dim": 16, "hidden_size": 32, "num_heads": 2, "patch_size": 4}
        config = transformers.Qwen2VLConfig(text_config=text, vision_config=vision, tie_word_embeddings=tied)
        model = transformers.Qwen2VLForConditionalGeneration(config)
    else:
        vision = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1, "num_attention_heads": 2,
                  "image_size": 8, "patch_size": 4}  # fmt: skip
        config = transformers.LlavaConfig(
            text_config=transformers.LlamaConfig(**text), vision_config=transformers.CLIPVisionConfig(**vision)
        )
        model = transformers.LlavaForConditionalGeneration(config)
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.2)
    return model.eval()


@pytest.mark.parametrize("kind", ["llava", "qwen2_vl"])
def test_the_head_of_a_wrapped_text_model_stays_its_own(kind: str, tmp_path: Path, inside: None) -> None:
    """The text's flag decides, and version 4 has the head under another name on disk than in memory."""
    model = wrapped(kind, tied=False)
    model.save_pretrained(tmp_path / "in")
    plan = tiny.plan_of(tmp_path / "in")
    assert [f for f in plan.findings if f.severity != "info"] == []
    assert (plan.tie.state, plan.tie.tied) == ("different", False)
    tiny.export(tmp_path / "in", tmp_path / "out")
    again = type(model).from_pretrained(tmp_path / "out").eval()
    ids = torch.tensor([[3, 1, 4, 1, 5, 9, 2, 6]])
    with torch.no_grad():
        assert torch.equal(again(input_ids=ids).logits, model(input_ids=ids).logits)
