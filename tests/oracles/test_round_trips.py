"""Folders that transformers saved go to Meta's and torchtune's layout and come back as the same model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.oracle
pytest.importorskip("transformers")

import torch

from ckpt_gui.core.export import Target
from ckpt_gui.core.retarget import retarget
from tests.oracles import tiny

KINDS: dict[str, dict[str, Any]] = {
    "llama-untied": {},
    "llama-tied": {"tied": True},
    "llama-attention-bias": {"attention_bias": True},
    "llama-mlp-bias": {"mlp_bias": True, "tied": True},
    "llama-all-biases": {"attention_bias": True, "mlp_bias": True},
    "llama-scaled": {"scaling": tiny.LLAMA3, "tied": True},
    "llama-linear": {"scaling": tiny.LINEAR},
    "llama-yarn": {"scaling": tiny.YARN, "max_position_embeddings": 64},
    "llama-dynamic": {"scaling": tiny.DYNAMIC, "max_position_embeddings": 20},
    "llama-all-heads": {"num_key_value_heads": 6, "head_dim": 8},
    "mistral-untied": {"kind": "mistral", "sliding_window": None},
    "mistral-tied": {"kind": "mistral", "tied": True},
    "mistral-window": {"kind": "mistral", "sliding_window": 12},
}
# What decides the logits; params.json says no more of a model.
ARCHITECTURE = (
    *("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads"),
    *("head_dim", "vocab_size", "rms_norm_eps", "rope_theta", "rope_scaling", "rope_parameters", "sliding_window"),
    *("tie_word_embeddings", "attention_bias", "mlp_bias", "hidden_act", "model_type", "architectures"),
)
DTYPES = {"llama-untied": torch.bfloat16, "llama-tied": torch.float16}


@pytest.fixture(params=list(KINDS))
def saved(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A folder written by `save_pretrained`."""
    model = tiny.make_model(tiny.make_config(**KINDS[request.param]))
    folder = tmp_path / "saved"
    model.to(DTYPES.get(request.param, torch.float32)).save_pretrained(folder)
    return folder


def assert_same_model(folder: Path, saved: Path) -> None:
    assert tiny.differing(tiny.read(folder), tiny.read(saved)) == []
    assert tiny.config_of(folder) == tiny.config_of(saved)
    assert tiny.logits_equal(folder, saved)
    assert tiny.load(folder).dtype == tiny.load(saved).dtype


def test_what_transformers_saves_is_clean(saved: Path) -> None:
    tiny.assert_clean(saved)


def test_hf_export_is_the_same_model(saved: Path, tmp_path: Path) -> None:
    out = tiny.export(saved, tmp_path / "out")
    tiny.assert_clean(out)
    assert_same_model(out, saved)


def test_generation_config_is_carried(saved: Path, tmp_path: Path) -> None:
    there = tiny.export(saved, tmp_path / "there", "meta")
    back = tiny.export(there, tmp_path / "back")
    name = "generation_config.json"
    assert (back / name).read_bytes() == (saved / name).read_bytes()


@pytest.mark.parametrize("layout", ["meta", "torchtune"])
def test_there_and_back(saved: Path, tmp_path: Path, layout: str) -> None:
    there = tiny.export(saved, tmp_path / "there", layout)
    tiny.assert_clean(there)
    back = tiny.export(there, tmp_path / "back")
    tiny.assert_clean(back)
    assert_same_model(back, saved)


def test_meta_to_torchtune_and_back(saved: Path, tmp_path: Path) -> None:
    """No step of the way needs the other rows: the bytes of q and k stay."""
    meta = tiny.export(saved, tmp_path / "meta", "meta")
    tune = tiny.export(meta, tmp_path / "tune", "torchtune")
    back = tiny.export(tune, tmp_path / "back", "meta")
    assert tiny.differing(tiny.read(back), tiny.read(meta)) == []
    assert_same_model(tiny.export(back, tmp_path / "hf"), saved)


def test_shards_of_transformers(saved: Path, tmp_path: Path) -> None:
    sharded = tmp_path / "sharded"
    tiny.load(saved).save_pretrained(sharded, max_shard_size="50KB")
    assert len(list(sharded.glob("*.safetensors"))) > 2
    tiny.assert_clean(sharded)
    assert_same_model(tiny.export(sharded, tmp_path / "out"), saved)


def test_our_shards(saved: Path, tmp_path: Path) -> None:
    out = tiny.export(saved, tmp_path / "out", max_shard_bytes=50_000)
    assert len(list(out.glob("*.safetensors"))) > 2
    tiny.assert_clean(out)
    assert_same_model(out, saved)


def test_bin_of_torch(saved: Path, tmp_path: Path) -> None:
    """`pytorch_model.bin` as version 4 writes it: tied names share a storage."""
    model, folder = tiny.load(saved), tmp_path / "bin"
    folder.mkdir()
    model.config.save_pretrained(folder)
    torch.save(model.state_dict(), folder / "pytorch_model.bin")
    if not tiny.V5:
        model.save_pretrained(tmp_path / "own", safe_serialization=False)
        assert tiny.differing(tiny.read(folder), tiny.read(tmp_path / "own")) == []
    assert_same_model(tiny.export(folder, tmp_path / "out"), saved)


def test_our_bin(saved: Path, tmp_path: Path) -> None:
    out = tiny.export(saved, tmp_path / "out", container="torch")
    assert (out / "pytorch_model.bin").exists()
    tiny.assert_clean(out)
    assert_same_model(out, saved)


def test_our_sharded_bin(saved: Path, tmp_path: Path) -> None:
    out = tiny.export(saved, tmp_path / "out", container="torch", max_shard_bytes=50_000)
    assert (out / "pytorch_model.bin.index.json").exists()
    assert_same_model(out, saved)


@pytest.mark.parametrize("layout", ["meta", "torchtune"])
def test_back_without_our_report(saved: Path, tmp_path: Path, layout: str) -> None:
    """What others read is enough: params.json or config.json alone give the same model back."""
    there = tiny.export(saved, tmp_path / "there", layout)
    (there / "EXPORT_REPORT.json").unlink()
    back = tiny.export(there, tmp_path / "back")
    assert tiny.differing(tiny.read(back), tiny.read(saved)) == []
    wanted, found = tiny.config_of(saved), tiny.config_of(back)
    told = [name for name in ARCHITECTURE if name in wanted]
    assert {name: found[name] for name in told} == {name: wanted[name] for name in told}
    assert tiny.logits_equal(back, saved)


def test_meta_says_that_it_knows_no_linear_scaling(tmp_path: Path) -> None:
    tiny.make_model(tiny.make_config(scaling=tiny.LINEAR)).save_pretrained(tmp_path / "saved")
    export = retarget(tiny.plan_of(tmp_path / "saved"), Target("meta"))
    assert [f.message for f in export.findings if f.code == "config-mismatch" and "linear" in f.message]


@pytest.mark.parametrize("dtype", ["bf16", "fp16", "fp32"])
def test_casts_are_torchs(tmp_path: Path, dtype: str) -> None:
    kind = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}[dtype]
    model = tiny.make_model(tiny.make_config())
    model.save_pretrained(tmp_path / "saved")
    out = tiny.export(tmp_path / "saved", tmp_path / "out", dtype=dtype)
    wanted = {key: value.to(kind) for key, value in tiny.read(tmp_path / "saved").items()}
    assert tiny.differing(tiny.read(out), wanted) == []
    assert tiny.load(out).dtype == kind
