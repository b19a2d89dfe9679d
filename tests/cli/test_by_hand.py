"""Options for what is decided by hand, and plans as files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ckpt_gui.cli.main import main
from ckpt_gui.core.formats import open_checkpoint
from tests import builders
from tests.core import models


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A Meta model, its last norm and its gates named as nobody names them."""
    tensors = {k.replace("feed_forward.w1.weight", "ff.gate"): v for k, v in models.state("meta").items()}
    tensors["final"] = tensors.pop("norm.weight")
    path = tmp_path / "m"
    path.mkdir()
    (path / "model.safetensors").write_bytes(builders.safetensors_bytes(tensors, {"note": "old"}))
    (path / "config.json").write_text(json.dumps(models.config()))
    return path


RULES = ["--rename", "final", "norm.weight", "--rename-regex", r"\.ff\.gate$", ".feed_forward.w1.weight"]


def test_names_by_hand(folder: Path, tmp_path: Path) -> None:
    assert main(["fix", str(folder), "-o", str(tmp_path / "bad"), "--to", "hf"]) == 1
    given = [*RULES, "--set", "rope_theta=777.0", "--metadata", "note=new"]
    assert main(["fix", str(folder), "-o", str(tmp_path / "out"), "--to", "hf", *given]) == 0
    assert json.loads((tmp_path / "out" / "config.json").read_text())["rope_theta"] == 777.0
    with open_checkpoint(tmp_path / "out") as source:
        assert dict(source.metadata) == {"format": "pt", "note": "new"}
        assert "model.layers.2.mlp.gate_proj.weight" in {ref.key for ref in source.refs}


def test_a_saved_plan_does_the_same_elsewhere(folder: Path, tmp_path: Path) -> None:
    plan = str(tmp_path / "plan.json")
    given = ["--to", "hf", "--dtype", "bf16", *RULES, "--save-plan", plan]
    assert main(["fix", str(folder), "-o", str(tmp_path / "a"), *given]) == 0
    assert main(["fix", str(folder), "-o", str(tmp_path / "b"), "--plan", plan]) == 0
    assert (tmp_path / "a" / "model.safetensors").read_bytes() == (tmp_path / "b" / "model.safetensors").read_bytes()
    assert main(["fix", str(folder), "-o", str(tmp_path / "c"), "--plan", plan, "--dtype", "fp16"]) == 0
    with open_checkpoint(tmp_path / "c") as source:
        assert {ref.dtype for ref in source.refs} == {"fp16"}, "what is given beside the plan wins"


@pytest.mark.parametrize(
    "given", [["--rename-regex", "(", "x"], ["--set", "a=b"], ["--metadata", "=x"], ["--rename", "a.{x}", "b.{y}"]]
)
def test_what_can_not_be_read_is_refused(folder: Path, given: list[str]) -> None:
    assert main(["fix", str(folder), "--dry-run", *given]) == 2


def test_what_is_no_plan_is_refused(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "p.json").write_text("{}")
    assert main(["fix", str(folder), "--dry-run", "--plan", str(tmp_path / "p.json")]) == 2
    assert "no fix plan" in capsys.readouterr().err
