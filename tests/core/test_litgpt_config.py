"""litgpt's model_config.yaml: written beside a litgpt export, read where it is the only config."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ckpt_gui.core.export import Target
from ckpt_gui.core.flat_yaml import dump, load
from ckpt_gui.core.formats import open_checkpoint
from ckpt_gui.core.litgpt_config import config_of_lit
from ckpt_gui.core.normalise import understand
from ckpt_gui.core.plan import Plan
from ckpt_gui.core.retarget import retarget
from ckpt_gui.core.writer import write_export
from tests.core import models

LLAMA3 = {
    "rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}  # fmt: skip


def plan_of(path: Path) -> Plan:
    return understand(open_checkpoint(path))


def lit(path: Path, out: Path, **config: Any) -> Path:
    """Write the usual model as litgpt would have it: with its own config alone."""
    plan = plan_of(models.save(path, models.state("hf"), config=models.config(**config)))
    write_export(retarget(plan, Target("litgpt")), out)
    for name in ("config.json", "EXPORT_REPORT.json"):
        (out / name).unlink()
    return out


def test_written_and_read(tmp_path: Path) -> None:
    folder = lit(tmp_path / "in", tmp_path / "lit", rope_scaling=LLAMA3)
    made = load((folder / "model_config.yaml").read_text())
    assert made == {
        "name": "Llama", "block_size": 512, "n_layer": 3, "n_embd": 24, "n_head": 4, "n_query_groups": 2,
        "head_size": 8, "vocab_size": 50, "padded_vocab_size": 50, "intermediate_size": 40,
        "norm_class_name": "RMSNorm", "mlp_class_name": "LLaMAMLP", "bias": False, "parallel_residual": False,
        "rotary_percentage": 1.0, "norm_eps": 1e-6, "rope_base": 500000,
        "rope_adjustments": {
            "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_seq_len": 8192,
        },
    }  # fmt: skip
    plan = plan_of(folder)
    assert (plan.status, plan.family.name, plan.layout.name) == ("clean", "llama", "litgpt")
    assert plan.config.origin == "model_config.yaml"
    assert plan.dims_from["heads"] == "model_config.yaml"
    write_export(retarget(plan, Target("hf")), tmp_path / "hf")
    assert models.opened(tmp_path / "hf") == models.as_bytes(models.state("hf"))
    config = json.loads((tmp_path / "hf" / "config.json").read_text())
    assert (config["rope_scaling"], config["rope_theta"], config["rms_norm_eps"]) == (LLAMA3, 500000.0, 1e-6)
    assert (config["model_type"], config["num_key_value_heads"], config["head_dim"]) == ("llama", 2, 8)


def test_the_pair_is_judged_by_its_bytes(tmp_path: Path) -> None:
    """litgpt always stores a head, and its config does not say whether it is the embedding."""
    plan = plan_of(models.save(tmp_path / "in", models.state("hf", head="equal"), config=models.config()))
    write_export(retarget(plan, Target("litgpt")), tmp_path / "lit")
    for name in ("config.json", "EXPORT_REPORT.json"):
        (tmp_path / "lit" / name).unlink()
    assert plan_of(tmp_path / "lit").tie.tied is True


def test_an_unknown_scaling_is_told(tmp_path: Path) -> None:
    yarn = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128}
    plan = plan_of(models.save(tmp_path / "in", models.state("hf"), config=models.config(rope_scaling=yarn)))
    export = retarget(plan, Target("litgpt"))
    assert "model_config.yaml" not in export.texts
    assert "no rotary scaling of the kind yarn" in models.finding(export, "config-mismatch").message


def test_a_damaged_file_is_told(tmp_path: Path) -> None:
    folder = lit(tmp_path / "in", tmp_path / "lit")
    (folder / "model_config.yaml").write_text("n_layer: &x 3")
    found = models.finding(plan_of(folder), "config-mismatch")
    assert "line 1 has a kind of value that is not read here" in found.message
    (folder / "model_config.yaml").write_text("n_head: many")
    assert "num_attention_heads = 'many'" in models.finding(plan_of(folder), "config-mismatch").message
    (folder / "model_config.yaml").write_text("# " + "x" * (1 << 20))
    assert "are read at most" in models.finding(plan_of(folder), "config-mismatch").message


@pytest.mark.parametrize(("name", "model_type"), [
    ("Llama-3.2-1B", "llama"), ("CodeLlama-7b-hf", "llama"), ("Gemma-2-9b-it", "gemma2"), ("Gemma-3-1b", "gemma3_text"),
    ("Gemma-2b", "gemma"), ("Qwen2.5-7B", "qwen2"), ("QwQ-32B", "qwen2"), ("Qwen3-4B", "qwen3"), ("Phi-4", "phi3"),
    ("Mistral-7B-v0.1", "mistral"), ("pythia-70m", "gpt_neox"), ("phi-2", "phi"), ("Falcon-x", None),
])  # fmt: skip
def test_families_by_name(name: str, model_type: str | None) -> None:
    assert config_of_lit({"name": name, "n_head": 4}).get("model_type") == model_type
    moe = {"Qwen3-4B": "qwen3_moe"}.get(name)
    if moe:
        assert config_of_lit({"name": name, "n_expert": 4})["model_type"] == moe


def test_padded_vocabulary() -> None:
    assert config_of_lit({"vocab_size": 50254})["vocab_size"] == 50688
    assert config_of_lit({"vocab_size": 50254, "padding_multiple": 64})["vocab_size"] == 50304
    assert config_of_lit({"vocab_size": 50254, "padded_vocab_size": 50304})["vocab_size"] == 50304
    assert load(dump({"a": 1e-7}))["a"] == 1e-7
