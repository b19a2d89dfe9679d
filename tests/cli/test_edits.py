"""Renaming, fields and plans on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ckpt_gui.cli.main import main
from tests.core import models


def broken(folder: Path) -> Path:
    tensors = {k.replace(".self_attn.", ".attn."): t for k, t in models.state("hf").items()}
    return models.save(folder, tensors, config=models.config())


def test_a_checkpoint_is_mended_by_rules_and_again_by_the_plan_that_was_saved(tmp_path: Path, capsys) -> None:
    odd = broken(tmp_path / "odd")
    good = models.save(tmp_path / "good", models.state("hf"), config=models.config())
    rule = "model.layers.{n}.attn.q_proj.weight=model.layers.{n}.self_attn.q_proj.weight"
    words = ["--rename", rule, "--rename-re", r"\.attn\.(\w)_proj=.self_attn.\1_proj", "--set-metadata", "run=7"]
    plan = tmp_path / "plan.json"
    assert main(["fix", str(odd), "-o", str(tmp_path / "a"), "--to", "meta", *words, "--save-plan", str(plan)]) == 0
    assert main(["fix", str(odd), "-o", str(tmp_path / "b"), "--plan", str(plan)]) == 0
    assert main(["fix", str(good), "-o", str(tmp_path / "c"), "--to", "meta"]) == 0
    expected = models.opened(tmp_path / "c")
    assert models.opened(tmp_path / "a") == expected
    assert models.opened(tmp_path / "b") == expected
    assert main(["fix", str(odd), "-o", str(tmp_path / "d"), "--plan", str(plan), "--to", "hf"]) == 0
    assert (tmp_path / "d/model.safetensors").exists()  # the command line comes before the plan

    capsys.readouterr()
    assert main(["check", str(odd), "--plan", str(plan), "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["status"] == "clean"


def test_a_plan_applied_to_another_checkpoint_says_what_does_not_fit(tmp_path: Path, capsys) -> None:
    odd = broken(tmp_path / "odd")
    good = models.save(tmp_path / "good", models.state("hf"), config=models.config())
    plan = tmp_path / "plan.json"
    words = ["--rename-re", r"\.attn\.=.self_attn.", "--save-plan", str(plan), "--dry-run"]
    assert main(["fix", str(odd), *words]) == 0
    capsys.readouterr()
    assert main(["fix", str(good), "--dry-run", "--plan", str(plan)]) == 0
    assert "fits no tensor of this checkpoint" in capsys.readouterr().out.replace("\n", " ").replace("  ", " ")


@pytest.mark.parametrize(
    "words", [["--rename", "a"], ["--rename", "a.{n}=b.{m}"], ["--rename-re", "(a=b"], ["--set-config", "=3"]]
)
def test_an_edit_that_can_not_be_used_is_a_mistake_of_usage(tmp_path: Path, capsys, words: list[str]) -> None:
    odd = broken(tmp_path / "odd")
    assert main(["fix", str(odd), "-o", str(tmp_path / "x"), *words]) == 2
    told = capsys.readouterr().err
    assert "Traceback" not in told
    assert told.count("\n") <= 2
    assert not (tmp_path / "x").exists()


def test_a_plan_that_is_none_is_one_sentence(tmp_path: Path, capsys) -> None:
    odd = broken(tmp_path / "odd")
    (tmp_path / "plan.json").write_text("{}")
    assert main(["fix", str(odd), "-o", str(tmp_path / "x"), "--plan", str(tmp_path / "plan.json")]) == 2
    assert "has no schema that is known here" in capsys.readouterr().err.replace("\n", " ")


def test_a_plan_is_not_written_over_the_checkpoint(tmp_path: Path, capsys) -> None:
    odd = broken(tmp_path / "odd")
    before = (odd / "config.json").read_bytes()
    main(["fix", str(odd), "--dry-run", "--save-plan", str(odd / "config.json")])
    assert (odd / "config.json").read_bytes() == before
