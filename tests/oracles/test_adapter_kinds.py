"""Adapters beyond pairs: trained biases and rows of embeddings are merged as PEFT computes, other kinds are named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.oracle
peft = pytest.importorskip("peft")

import torch
from safetensors.torch import load_file

from ckpt_gui import normalise, open_checkpoint, write
from ckpt_gui.cli.main import main
from ckpt_gui.core.normalise import understand
from ckpt_gui.core.policy import Policy
from tests.oracles import dense, tiny
from tests.oracles.test_adapters import (
    ALPHA,
    LINEAR,
    RANK,
    adapted,
    assert_near,
    assert_same_logits,
    logits_of,
    lora,
    merged,
)

BIASED = {"attention_bias": True, "mlp_bias": True}
ROWS = [3, 79, 5, 0]


@pytest.fixture(autouse=True)
def _quiet(capsys: pytest.CaptureFixture[str]) -> Any:
    yield
    capsys.readouterr()


def both(model: Any, config: Any, folder: Path) -> Any:
    """Save a model and an adapter of it; return the adapted model."""
    model.save_pretrained(folder / "base")
    trained = adapted(model, config)
    trained.save_pretrained(folder / "adapter")
    return trained


# ------------------------------------------------------------------------------------------------------ trained biases


@pytest.mark.parametrize("targets", [LINEAR, ["q_proj", "down_proj"]], ids=["all", "some"])
def test_a_bias_of_the_pair_is_scaled_as_the_pair(targets: list[str], tmp_path: Path) -> None:
    """As PEFT computes while it trains; its own merge (0.15) adds it without the scale, and is wrong."""
    model = tiny.make_model(tiny.make_config(**BIASED), scale=0.3)
    trained = both(model, lora(target_modules=targets, lora_bias=True), tmp_path)
    wanted = logits_of(trained)
    out = merged(tmp_path / "base", tmp_path / "adapter", tmp_path / "out")
    assert_same_logits(logits_of(tiny.load(out)), wanted)
    assert (logits_of(trained.merge_and_unload()) - wanted).abs().max() > 0.01


def test_a_base_without_biases_can_not_take_one(tmp_path: Path) -> None:
    both(tiny.make_model(tiny.make_config()), lora(target_modules=["q_proj"], lora_bias=True), tmp_path)
    plan = tiny.plan_of(tmp_path / "base")
    with pytest.raises(Exception, match="lora_bias"):
        write(plan, tmp_path / "out", "hf", adapter=tmp_path / "adapter")


@pytest.mark.parametrize("bias", ["all", "lora_only"])
@pytest.mark.parametrize("kind", ["qwen2", "llama"])
def test_the_bases_own_biases_may_be_trained(kind: str, bias: str, tmp_path: Path) -> None:
    model = dense.make(kind) if kind == "qwen2" else tiny.make_model(tiny.make_config(**BIASED), scale=0.3)
    trained = both(model, lora(target_modules=["q_proj", "v_proj"], bias=bias), tmp_path)
    out = merged(tmp_path / "base", tmp_path / "adapter", tmp_path / "out")
    again = peft.PeftModel.from_pretrained(tiny.load(tmp_path / "base"), tmp_path / "adapter").eval()
    assert_same_logits(logits_of(tiny.load(out)), logits_of(again))  # what the adapter's files hold
    if bias == "all":
        assert_same_logits(logits_of(again), logits_of(trained))


# ---------------------------------------------------------------------------------------------------------- rows


@pytest.mark.parametrize("tied", [False, True], ids=["untied", "tied"])
@pytest.mark.parametrize("stated", [ROWS, {"embed_tokens": ROWS}], ids=["list", "by-name"])
@pytest.mark.parametrize("stored", ["hf", "meta", "torchtune"])
def test_trained_rows(stored: str, stated: Any, tied: bool, tmp_path: Path) -> None:
    model = tiny.make_model(tiny.make_config(tied=tied), scale=0.3)
    trained = both(model, lora(target_modules=["q_proj"], trainable_token_indices=stated), tmp_path)
    base = tiny.export(tmp_path / "base", tmp_path / stored, stored)
    out = merged(base, tmp_path / "adapter", tmp_path / "out", to=stored)
    back = tiny.export(out, tmp_path / "back")
    assert_same_logits(logits_of(tiny.load(back)), logits_of(trained))
    assert tiny.raw_config(back)["tie_word_embeddings"] is tied
    wanted = trained.merge_and_unload().state_dict()
    for name, tensor in tiny.read(back).items():
        assert_near(tensor, wanted[name])


def test_rows_alone(tmp_path: Path) -> None:
    """PEFT's own kind for it, without pairs; merged from a script."""
    model = tiny.make_model(tiny.make_config(), scale=0.3)
    config = peft.TrainableTokensConfig(token_indices=ROWS, target_modules=["embed_tokens"], task_type="CAUSAL_LM")
    trained = both(model, config, tmp_path)
    assert tiny.plan_of(tmp_path / "adapter").status == "clean"
    write(tiny.plan_of(tmp_path / "base"), tmp_path / "out", "hf", adapter=tmp_path / "adapter")
    assert_same_logits(logits_of(tiny.load(tmp_path / "out")), logits_of(trained))


@pytest.mark.parametrize("tied", [False, True], ids=["untied", "tied"])
def test_rows_of_an_unmerged_model(tied: bool, tmp_path: Path) -> None:
    model = tiny.make_model(tiny.make_config(tied=tied), scale=0.3)
    trained = adapted(model, lora(target_modules=LINEAR, trainable_token_indices=ROWS))
    whole = tmp_path / "whole"
    model.config.save_pretrained(whole)
    trained.peft_config["default"].save_pretrained(whole)
    torch.save(trained.state_dict(), whole / "model.pt")
    assert main(["fix", str(whole), "-o", str(tmp_path / "out"), "--to", "hf"]) == 0
    assert_same_logits(logits_of(tiny.load(tmp_path / "out")), logits_of(trained))


# --------------------------------------------------------------------------------------------------------- other kinds

OTHERS: dict[str, Any] = {
    "IA3": lambda: peft.IA3Config(target_modules=["k_proj", "down_proj"], feedforward_modules=["down_proj"]),
    "LOHA": lambda: peft.LoHaConfig(r=2, target_modules=["q_proj"]),
    "LOKR": lambda: peft.LoKrConfig(r=2, target_modules=["q_proj"]),
    "VERA": lambda: peft.VeraConfig(r=2, target_modules=["q_proj"]),
    "OFT": lambda: peft.OFTConfig(r=2, oft_block_size=0, target_modules=["q_proj"]),
    "FOURIERFT": lambda: peft.FourierFTConfig(n_frequency=10, target_modules=["q_proj"]),
    "HRA": lambda: peft.HRAConfig(r=2, target_modules=["q_proj"]),
    "VBLORA": lambda: peft.VBLoRAConfig(r=2, num_vectors=8, vector_length=8, target_modules=["q_proj"]),
    "BONE": lambda: peft.BoneConfig(r=8, target_modules=["o_proj"]),
    "LN_TUNING": lambda: peft.LNTuningConfig(target_modules=["input_layernorm"]),
    "ADALORA": lambda: peft.AdaLoraConfig(init_r=2, target_r=2, total_step=10, target_modules=["q_proj"]),
    "PROMPT_TUNING": lambda: peft.PromptTuningConfig(num_virtual_tokens=4),
    "PREFIX_TUNING": lambda: peft.PrefixTuningConfig(num_virtual_tokens=4),
    "P_TUNING": lambda: peft.PromptEncoderConfig(num_virtual_tokens=4, encoder_hidden_size=16),
}
LIKE = {"PREFIX_TUNING": "PROMPT_TUNING", "P_TUNING": "PROMPT_TUNING"}  # by their names alone
NAMELESS = ("LN_TUNING",)  # whole norms, under the names that any trained norm has


@pytest.mark.parametrize("kind", OTHERS)
def test_other_kinds_are_named_and_refused(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = tiny.make_model(tiny.make_config())
    model.save_pretrained(tmp_path / "base")
    config = OTHERS[kind]()
    config.task_type = "CAUSAL_LM"
    peft.get_peft_model(model, config).save_pretrained(tmp_path / "adapter")
    plan = tiny.plan_of(tmp_path / "adapter")
    assert plan.adapter is not None
    assert plan.adapter.kind == kind
    assert [(f.code, f.severity) for f in plan.findings] == [("adapter-unmatched", "warning")]
    assert kind in plan.findings[0].message
    words = ["fix", str(tmp_path / "base"), "--adapter", str(tmp_path / "adapter"), "-o", str(tmp_path / "out")]
    assert main([*words, "--to", "hf"]) == 1
    assert kind in capsys.readouterr().err
    same = tiny.export(tmp_path / "adapter", tmp_path / "same", "same")
    saved = load_file(tmp_path / "adapter" / "adapter_model.safetensors")
    assert tiny.differing(tiny.read(same), saved) == []
    assert json.loads((same / "adapter_config.json").read_text())["peft_type"] == kind
    if kind not in NAMELESS:
        with open_checkpoint(tmp_path / "adapter" / "adapter_model.safetensors") as source:
            bare = normalise(source.replace(sidecars=type(source.sidecars)()))
        assert bare.adapter is not None
        assert bare.adapter.kind == LIKE.get(kind, kind)


def test_other_kinds_around_their_base_are_refused(tmp_path: Path) -> None:
    model = tiny.make_model(tiny.make_config())
    model.config.save_pretrained(tmp_path)
    state = peft.get_peft_model(model, OTHERS["IA3"]()).state_dict()
    torch.save(state, tmp_path / "model.pt")
    found = [f for f in tiny.plan_of(tmp_path).findings if f.code == "adapter-unmatched"]
    assert [f.blocking for f in found] == [True]
    assert "IA3" in found[0].message


@pytest.mark.parametrize("whole", [False, True], ids=["pairs", "with-base"])
def test_litgpts_pairs_are_named(whole: bool, tmp_path: Path) -> None:
    """Its pairs of q, k and v are fused, and which of the three have one stands in its hyperparameters alone."""
    litgpt = pytest.importorskip("litgpt.lora")
    config = litgpt.Config(
        n_layer=2, n_embd=32, n_head=4, n_query_groups=2, vocab_size=64, padded_vocab_size=64, block_size=64,
        lora_r=RANK, lora_alpha=ALPHA, lora_query=True, lora_value=True, lora_projection=True, lora_mlp=True,
    )  # fmt: skip
    state = litgpt.GPT(config).state_dict()
    kept = state if whole else {k: v for k, v in state.items() if litgpt.lora_filter(k, v)}
    torch.save({"model": kept}, tmp_path / "lit_model.pth.lora")
    with open_checkpoint(tmp_path / "lit_model.pth.lora") as source:
        plan = understand(source, Policy())
    found = [f for f in plan.findings if f.code == "adapter-unmatched"]
    assert len(found) == 1
    assert found[0].blocking is whole
    assert "litgpt" in found[0].message
