"""Folders whose index and shards disagree, mended from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from ckpt_gui.cli.main import main
from ckpt_gui.core.formats import open_checkpoint
from tests import builders as b
from tests.core import models

Capsys = pytest.CaptureFixture[str]
FIRST, SECOND = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"


@pytest.fixture
def state() -> models.State:
    return models.state("hf")


def folder_of(folder: Path, shards: dict[str, models.State], weight_map: dict[str, str] | None) -> Path:
    folder.mkdir()
    for name, tensors in shards.items():
        b.write(folder / name, b.safetensors_bytes(tensors, {"format": "pt"}))
    (folder / "config.json").write_text(json.dumps(models.config()))
    if weight_map is not None:
        b.write(folder / "model.safetensors.index.json", b.index_bytes(weight_map))
    return folder


def halves(state: models.State) -> tuple[models.State, models.State]:
    keys = list(state)
    return {k: state[k] for k in keys[:9]}, {k: state[k] for k in keys[9:]}


def read(folder: Path) -> dict[str, bytes]:
    with open_checkpoint(folder) as source:
        assert source.problems == ()
        return {ref.key: source.read(ref) for ref in source.refs}


def fix(folder: Path, out: Path, *more: str) -> int:
    return main(["fix", str(folder), "-o", str(out), "--to", "same", "--max-shard-size", "20KB", *more])


@pytest.mark.parametrize("wrong", ["missing", "stale"])
def test_a_new_index_is_written(state: models.State, tmp_path: Path, capsys: Capsys, wrong: str) -> None:
    first, second = halves(state)
    places = (
        None if wrong == "missing" else dict.fromkeys(first, SECOND) | dict.fromkeys(second, FIRST) | {"ghost": FIRST}
    )
    folder = folder_of(tmp_path / "m", {FIRST: first, SECOND: second}, places)
    assert main(["check", str(folder)]) == 1
    assert "--to same" in capsys.readouterr().out
    assert fix(folder, tmp_path / "out") == 0
    assert "an index that fit together" in " ".join(capsys.readouterr().err.split())
    assert read(tmp_path / "out") == {key: array.tobytes() for key, array in state.items()}
    written = json.loads((tmp_path / "out/model.safetensors.index.json").read_text())
    assert written["weight_map"].keys() == state.keys()
    assert written["metadata"]["total_size"] == sum(array.nbytes for array in state.values())


def test_only_what_the_index_assigns(state: models.State, tmp_path: Path, capsys: Capsys) -> None:
    first, second = halves(state)
    places = dict.fromkeys(first, FIRST) | dict.fromkeys(second, SECOND)
    twice, extra = next(iter(first)), {"left.over": np.ones(4, np.float32)}
    folder = folder_of(tmp_path / "m", {FIRST: first, SECOND: second | {twice: first[twice] + 1} | extra}, places)
    assert main(["check", str(folder)]) == 1
    out = " ".join(capsys.readouterr().out.split())
    assert "duplicate-tensor" in out
    words = " ".join(out.split())
    assert f"stands in {FIRST} and {SECOND}; which of them is meant is not known" in words
    assert "--drop" not in words, "it would drop both"
    assert "--assigned-only takes each tensor from the shard that the index names" in out
    assert fix(folder, tmp_path / "out") == 1
    capsys.readouterr()
    assert main(["check", str(folder), "--assigned-only"]) == 0
    assert fix(folder, tmp_path / "out", "--assigned-only") == 0
    said = " ".join(capsys.readouterr().err.split())
    assert "Leave out 2 tensors that the index does not assign" in said
    assert read(tmp_path / "out") == {key: array.tobytes() for key, array in state.items()}


def test_without_an_index_nothing_is_assigned(state: models.State, tmp_path: Path, capsys: Capsys) -> None:
    first, second = halves(state)
    folder = folder_of(tmp_path / "m", {FIRST: first, SECOND: second}, None)
    assert fix(folder, tmp_path / "out", "--assigned-only") == 1
    assert "There is no index" in " ".join(capsys.readouterr().err.split())


def test_another_model_of_the_folder_is_taken(state: models.State, tmp_path: Path) -> None:
    first, second = halves(state)
    places = dict.fromkeys(first, FIRST) | dict.fromkeys(second, SECOND)
    folder = folder_of(tmp_path / "m", {FIRST: first, SECOND: second}, places)
    fresh = {key: array + 1 for key, array in state.items()}
    b.write(folder / "model.safetensors", b.safetensors_bytes(fresh, {"format": "pt"}))
    assert fix(folder, tmp_path / "out", "--take", "model.safetensors") == 0
    assert read(tmp_path / "out") == {key: array.tobytes() for key, array in fresh.items()}


def test_the_command_to_run_next_says_what_was_chosen(state: models.State, tmp_path: Path, capsys: Capsys) -> None:
    first, second = halves(state)
    folder = folder_of(tmp_path / "m", {FIRST: first, SECOND: second}, None)
    assert main(["check", str(folder), "--take", FIRST]) == 1
    assert f"--to hf --take {FIRST}" in " ".join(capsys.readouterr().out.split())
