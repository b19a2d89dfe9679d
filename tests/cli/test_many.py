"""Several checkpoints in one command: each as alone, the worst status for all, a folder each, one JSON for all."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from ckpt_gui.cli.main import main

SAMPLE = Path(__file__).resolve().parents[2] / "resources" / "sample"


@pytest.fixture
def paths(tmp_path: Path) -> list[str]:
    shutil.copy(SAMPLE / "params.json", tmp_path)
    good = [str(shutil.copy(SAMPLE / "tiny-llama-compiled.pt", tmp_path / name)) for name in ("a.pt", "b.pt")]
    bad = tmp_path / "bad.pt"
    bad.write_text("no checkpoint")
    return [*good, str(bad)]


def test_check_of_several(paths: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", *paths, "--json", "-"]) == 2
    printed, said = capsys.readouterr()
    found = json.loads(printed)
    assert found["schema"] == 1
    assert [each["status"] for each in found["checkpoints"]] == ["fixable", "fixable", "unreadable"]
    assert [each["path"] for each in found["checkpoints"]] == paths
    assert said == "ckpt-gui: 3 checkpoints: 2 not clean, 1 unreadable.\n"
    assert main(["check", *paths[:2]]) == 1
    assert capsys.readouterr().out.count("Fixable: ") == 2


def test_fix_of_several_makes_a_folder_each(
    paths: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert main(["fix", *paths, "-o", str(out), "--to", "hf"]) == 2
    assert sorted(path.name for path in out.iterdir()) == ["a-hf", "b-hf"]
    assert "3 checkpoints: 2 written and verified, 1 unreadable." in capsys.readouterr().err
    assert main(["check", str(out / "a-hf"), str(out / "b-hf")]) == 0
    capsys.readouterr()
    assert main(["fix", *paths[:2], "-o", str(out), "--to", "hf"]) == 0
    assert sorted(path.name for path in out.iterdir()) == ["a-hf", "a-hf-2", "b-hf", "b-hf-2"], "nothing is replaced"


def test_a_dry_run_of_several_writes_nothing(paths: list[str], tmp_path: Path) -> None:
    before = sorted(tmp_path.iterdir())
    assert main(["fix", *paths[:2], "--to", "hf", "--dry-run"]) == 0
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("words", [["check", "--report", "r.html"], ["fix", "-o", "out", "--overwrite"]])
def test_what_belongs_to_one_checkpoint_is_refused(
    paths: list[str], words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words[:1], *paths[:2], *words[1:]]) == 2
    assert "belongs to one checkpoint, and 2 are named" in capsys.readouterr().err


def test_a_path_that_is_named_twice_is_one(paths: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", paths[0], paths[0]]) == 1
    assert "1 checkpoint: 1 not clean." in capsys.readouterr().err
