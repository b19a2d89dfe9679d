"""Classifiers, reward models and backbones of every family: clean as saved, and written as they are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.oracle
transformers = pytest.importorskip("transformers")

import torch

from ckpt_gui.core.export import Target
from ckpt_gui.core.families.registry import for_model_type
from ckpt_gui.core.retarget import retarget
from tests.oracles import moe, tiny

BASE = {**moe.BASE, "pad_token_id": 0}
EXPERTS = {
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 20,
    "shared_expert_intermediate_size": 40,
}
SIZES: dict[str, dict[str, Any]] = {
    **dict.fromkeys(("llama", "mistral", "qwen2", "qwen3", "gemma", "gemma2", "gemma3_text", "phi", "phi3"), BASE),
    **dict.fromkeys(("smollm3", "starcoder2", "cohere", "olmo2"), BASE),
    "gpt2": {"n_embd": 48, "n_head": 6, "n_layer": 3, "vocab_size": 80, "n_positions": 64, "pad_token_id": 0},
    "gpt_neox": {**BASE, "num_key_value_heads": 6},
    "mixtral": {**BASE, "num_local_experts": 4},
    "qwen2_moe": {**BASE, **EXPERTS},
    "qwen3_moe": {**BASE, **EXPERTS},
    "deepseek_v3": {**moe.MLA, "q_lora_rank": 24, "pad_token_id": 0},
    "gpt_oss": {**BASE, "num_local_experts": 4},
}
KINDS = {
    "AutoModelForSequenceClassification": {"num_labels": 3},
    "AutoModelForTokenClassification": {"num_labels": 5},
    "AutoModel": {},
}


def known(kind: str, model_type: str) -> bool:
    """Return True if this version of transformers has such a class."""
    config = type(transformers.AutoConfig.for_model(model_type))
    return config in getattr(transformers, kind)._model_mapping


CASES = [(kind, model_type) for model_type in SIZES for kind in KINDS if known(kind, model_type)]


def save(kind: str, model_type: str, folder: Path, **changes: Any) -> Path:
    """Write a random model with `save_pretrained`."""
    config = transformers.AutoConfig.for_model(model_type, **SIZES[model_type], **KINDS[kind])
    for name, value in changes.items():
        setattr(config, name, value)
    torch.manual_seed(4)
    model = getattr(transformers, kind).from_config(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            noise = torch.randn(parameter.shape)
            parameter.copy_(noise * 0.3 if parameter.ndim > 1 else 1 + 0.2 * noise)
    model.save_pretrained(folder)
    return folder


def answer(kind: str, folder: Path) -> torch.Tensor:
    """Return what a folder's model computes for fixed tokens; every key must be used and found."""
    model, info = getattr(transformers, kind).from_pretrained(folder, output_loading_info=True)
    assert not any(info[name] for name in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    with torch.no_grad():
        return model.eval()(tiny.IDS)[0]  # type: ignore[no-any-return]


@pytest.mark.parametrize(("kind", "model_type"), CASES)
def test_clean_and_written_as_they_are(kind: str, model_type: str, tmp_path: Path) -> None:
    saved = save(kind, model_type, tmp_path / "saved")
    plan = tiny.plan_of(saved)
    assert plan.findings == ()
    assert plan.family is not None
    assert plan.family.name == getattr(for_model_type(model_type), "name", "")
    assert plan.unmapped == plan.missing == ()
    out = tiny.export(saved, tmp_path / "out")
    assert tiny.plan_of(out).findings == ()
    assert tiny.differing(tiny.read(out), tiny.read(saved)) == []
    assert tiny.raw_config(out)["architectures"] == tiny.raw_config(saved)["architectures"]
    assert torch.equal(answer(kind, out), answer(kind, saved))


@pytest.mark.parametrize("kind", KINDS)
def test_other_layouts_have_no_place_for_them(kind: str, tmp_path: Path) -> None:
    plan = tiny.plan_of(save(kind, "llama", tmp_path / "saved"))
    assert [f.code for f in retarget(plan, Target("meta")).blocked] == ["unknown-layout"]


def test_a_tied_backbone_is_a_whole_model(tmp_path: Path) -> None:
    saved = save("AutoModel", "gemma", tmp_path / "saved")
    tune = tiny.export(saved, tmp_path / "tune", "torchtune")
    back = tiny.export(tune, tmp_path / "back")
    assert torch.equal(answer("AutoModel", back), answer("AutoModel", saved))
    assert tiny.load(back).lm_head.weight.shape == (80, 48)


@pytest.mark.parametrize("tied", [False, True])
def test_a_model_of_sentence_transformers(tied: bool, tmp_path: Path) -> None:
    """Its config names the language model that it was, and no head is stored."""
    saved = tmp_path / "saved"
    transformers.Qwen3ForCausalLM(transformers.Qwen3Config(**BASE, tie_word_embeddings=tied)).save_pretrained(saved)
    state = {key: value for key, value in tiny.read(saved).items() if key != "lm_head.weight"}
    from safetensors.torch import save_file

    save_file(state, saved / "model.safetensors", metadata={"format": "pt"})
    assert tiny.plan_of(saved).status == ("clean" if tied else "blocked")
    assert tiny.plan_of(saved, tie="none").status == "clean"
    (saved / "modules.json").write_text("[]")
    assert tiny.plan_of(saved).findings == ()
    out = tiny.export(saved, tmp_path / "out")
    assert tiny.differing(tiny.read(out), state) == []
    assert tiny.raw_config(out)["tie_word_embeddings"] is tied
    assert torch.equal(answer("AutoModel", out), answer("AutoModel", saved))


# ------------------------------------------------------------------------------------------------------------ torchtune


@pytest.mark.parametrize(("model_type", "theta"), [("llama", 10000), ("llama", 500000), ("mistral", 10000)])
@pytest.mark.parametrize("labels", [1, 3])
def test_torchtunes_reward_models(model_type: str, theta: int, labels: int, tmp_path: Path) -> None:
    utils = pytest.importorskip("torchtune.rlhf.utils")
    from torchtune.models import llama2, mistral

    kind = "AutoModelForSequenceClassification"
    changes: dict[str, Any] = {"rope_theta": float(theta)}
    changes |= {"sliding_window": None} if model_type == "mistral" else {}
    saved = save(kind, model_type, tmp_path / "saved", num_labels=labels, **changes)
    sizes = {"num_heads": 6, "num_kv_heads": 2, "dim": 48}
    wanted = utils.reward_hf_to_tune(tiny.read(saved), **sizes)
    out = tiny.export(saved, tmp_path / "tune", "torchtune")
    assert tiny.differing(tiny.read(out), wanted) == []
    assert tiny.differing(utils.reward_tune_to_hf(wanted, **sizes), tiny.read(saved)) == []
    used = json.loads((out / "EXPORT_REPORT.json").read_text())["use_with"]
    (out / "EXPORT_REPORT.json").unlink()
    assert tiny.plan_of(out).findings == ()
    back = tiny.export(out, tmp_path / "back")
    assert tiny.differing(tiny.read(back), tiny.read(saved)) == []
    config = transformers.AutoConfig.from_pretrained(saved)
    plain = model_type == "llama" and theta == 10000  # its builder of Llama 2's classifiers takes no other
    builder = llama2.llama2_classifier if plain else mistral.mistral_classifier
    assert (used["torchtune_model_type"], f" {builder.__name__}(" in used["builder"]) == ("REWARD", True)
    model = builder(
        num_classes=labels, vocab_size=80, num_layers=3, num_heads=6, num_kv_heads=2, embed_dim=48, max_seq_len=64,
        intermediate_dim=56, norm_eps=config.rms_norm_eps, **({} if plain else {"rope_base": theta}),
    ).eval()  # fmt: skip
    model.load_state_dict(wanted)
    with torch.no_grad():
        last = model(tiny.IDS)[:, -1]
    answered = answer(kind, saved)
    assert (last - answered).abs().max() <= 1e-5 * answered.abs().max().clamp(min=1)
