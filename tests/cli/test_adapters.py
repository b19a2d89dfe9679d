"""Adapters on the command line: what is said, merged, converted, refused."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from tests.cli.conftest import CONFIG, Run, hf_shapes, write_folder, write_safetensors

RANK = 2
CONFIGURED = {"peft_type": "LORA", "r": RANK, "lora_alpha": 8, "target_modules": ["q_proj", "v_proj"]}


def write_adapter(folder: Path, config: Any = CONFIGURED, prefix: str = "base_model.model.") -> Path:
    """Write an adapter on q and v of every layer."""
    shapes: dict[str, tuple[int, ...]] = {}
    for key, shape in hf_shapes().items():
        if key.endswith(("q_proj.weight", "v_proj.weight")):
            name = prefix + key.removesuffix(".weight")
            shapes |= {f"{name}.lora_A.weight": (RANK, shape[1]), f"{name}.lora_B.weight": (shape[0], RANK)}
    write_safetensors(folder / "adapter_model.safetensors", shapes)
    if config is not None:
        (folder / "adapter_config.json").write_text(json.dumps(config))
    return folder


def test_check_says_what_it_is(run: Run, tmp_path: Path) -> None:
    status, out, _ = run("check", write_adapter(tmp_path / "a"))
    assert status == 0
    assert "A PEFT adapter" in out
    assert "on 4 modules (q_proj, v_proj): rank 2, alpha 8, scale 4" in " ".join(out.split())
    value = json.loads(run("check", tmp_path / "a", "--json", "-")[1])
    assert (value["layout"], value["status"]) == ("peft-adapter", "clean")
    assert value["adapter"]["targets"] == ["q_proj", "v_proj"]


def test_alpha_is_asked_for_and_can_be_given(run: Run, tmp_path: Path) -> None:
    folder = write_adapter(tmp_path / "a", None)
    status, out, _ = run("check", folder)
    assert status == 1
    assert "--lora-alpha" in out
    assert run("check", folder, "--lora-alpha", "4")[0] == 0
    status, _, err = run("check", folder, "--lora-alpha", "nan")
    assert status == 2
    assert "no number above 0" in err


def test_merge(run: Run, model: Path, tmp_path: Path) -> None:
    adapter = write_adapter(tmp_path / "a")
    before = (model / "model.safetensors").read_bytes()
    status, out, err = run("fix", model, "--adapter", adapter, "-o", tmp_path / "out", "--to", "hf")
    assert status == 0
    assert "Written and verified: 21/21 tensors" in out
    assert "Merge the adapter (4 tensors, values change): 4 of 4 modules; rank 2, alpha 8, scale 4" in " ".join(
        err.split()
    )
    assert (model / "model.safetensors").read_bytes() == before
    assert not (tmp_path / "out" / "adapter_config.json").exists()
    assert run("check", tmp_path / "out")[0] == 0
    report = json.loads((tmp_path / "out" / "EXPORT_REPORT.json").read_text())
    row = report["tensors"]["model.layers.0.self_attn.q_proj.weight"]
    assert len(row["from"]) == 3
    assert row["ops"] == ["plus 4 · B · A"]
    assert "adapter/adapter_model.safetensors" in [f["name"] for f in report["source"]["files"]]


def test_a_dry_run_of_a_merge(run: Run, model: Path, tmp_path: Path) -> None:
    adapter = write_adapter(tmp_path / "a")
    status, out, _ = run("fix", model, "--adapter", adapter, "--to", "torchtune", "--dry-run")
    assert status == 0
    assert "plus 4 · B · A" in out
    assert set(os.listdir(tmp_path)) == {"a", "model"}


def test_an_adapter_of_another_model(run: Run, model: Path, tmp_path: Path) -> None:
    adapter = write_adapter(tmp_path / "a", prefix="base_model.model.visual.")
    status, out, err = run("fix", model, "--adapter", adapter, "-o", tmp_path / "out")
    assert (status, out) == (1, "")
    assert "0 of 4 modules" in err
    assert run("fix", model, "--adapter", model, "-o", tmp_path / "out")[0] == 1
    assert run("fix", model, "--adapter", tmp_path / "none", "-o", tmp_path / "out")[0] == 2
    assert not (tmp_path / "out").exists()


def test_the_target_may_not_be_the_adapter(run: Run, model: Path, tmp_path: Path) -> None:
    adapter = write_adapter(tmp_path / "a")
    status, _, err = run("fix", model, "--adapter", adapter, "-o", adapter, "--overwrite")
    assert status == 1
    assert "refused" in err.lower() or "source" in err.lower()
    assert (adapter / "adapter_config.json").exists()


def test_convert(run: Run, model: Path, tmp_path: Path) -> None:
    adapter = write_adapter(tmp_path / "a")
    status, _, err = run("fix", adapter, "-o", tmp_path / "no", "--to", "torchtune")
    assert status == 1
    assert "--base" in err or "--family" in err
    status, out, err = run("fix", adapter, "-o", tmp_path / "tune", "--to", "torchtune", "--base", model)
    assert status == 0
    assert "8/8 tensors" in out
    assert {"adapter_model.pt", "adapter_config.json"} <= set(os.listdir(tmp_path / "tune"))
    status, out, _ = run("check", tmp_path / "tune")
    assert status == 0
    assert "torchtune adapter" in out
    assert run("fix", adapter, "-o", tmp_path / "no", "--to", "meta", "--base", model)[0] == 1


def test_a_folder_with_a_model_and_its_adapter(run: Run, tmp_path: Path) -> None:
    """torchtune leaves both in one folder."""
    both = write_folder(tmp_path / "epoch_0", hf_shapes(), CONFIG)
    write_adapter(both)
    assert json.loads(run("check", both, "--json", "-")[1])["layout"] == "hf"
    assert run("fix", both, "--adapter", both, "-o", tmp_path / "out", "--to", "hf")[0] == 0
