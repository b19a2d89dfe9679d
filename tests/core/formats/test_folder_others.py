"""Several models in one folder: what is shown, what is said of the others, and how another is chosen."""

from __future__ import annotations

import numpy as np
import pytest

from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.formats import open_checkpoint
from tests import builders as b


def shard(key, number=1):
    return b.safetensors_bytes({key: np.full(3, number, np.float32)}, {"format": "pt"})


def index(**places):
    return b.index_bytes(places)


def make(folder, contents):
    for name, data in contents.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        b.write(folder / name, data)
    return folder


NEW = {"model-00001-of-00002.safetensors": shard("a"), "model-00002-of-00002.safetensors": shard("b")}
OLD = {f"model-0000{n}-of-00003.safetensors": shard(k, 9) for n, k in ((1, "a"), (2, "b"), (3, "c"))}
INDEX = {
    "model.safetensors.index.json": index(a="model-00001-of-00002.safetensors", b="model-00002-of-00002.safetensors")
}


def found(source):
    return [(p.code, p.severity) for p in source.problems]


def test_two_sets_of_shards_with_an_index(tmp_path):
    folder = make(tmp_path, NEW | OLD | INDEX)
    with open_checkpoint(folder) as source:
        assert {r.file for r in source.refs} == {*NEW}
        assert found(source) == [("several-models", "warning")]
        assert "3 shards such as model-00001-of-00003.safetensors lie" in source.problems[0].message
    with open_checkpoint(folder, take="model-00002-of-00003.safetensors") as source:
        assert {r.file for r in source.refs} == {*OLD}
        assert found(source) == [("index-missing", "warning"), ("several-models", "warning")]
    with open_checkpoint(folder, take="model.safetensors.index.json") as source:
        assert {r.file for r in source.refs} == {*NEW}


def test_of_two_sets_without_an_index_the_whole_one_is_shown(tmp_path):
    half = {name: data for name, data in NEW.items() if "00001" in name[:11]}
    with open_checkpoint(make(tmp_path, half | OLD)) as source:
        assert {r.file for r in source.refs} == {*OLD}
        assert ("several-models", "warning") in found(source)


def test_a_shard_that_the_index_does_not_name(tmp_path):
    extra = {"model-00003-of-00002.safetensors": shard("z")}
    with open_checkpoint(make(tmp_path, NEW | INDEX | extra)) as source:
        assert found(source) == [("shard-unindexed", "warning")]
        assert "model-00003-of-00002.safetensors lies" in source.problems[0].message


def test_another_container_is_told_of(tmp_path):
    bins = {f"pytorch_model-0000{n}-of-00002.bin": b.state_dict_bytes({"a": np.ones(3, np.float32)}) for n in (1, 2)}
    with open_checkpoint(make(tmp_path, NEW | INDEX | bins)) as source:
        assert found(source) == [("several-models", "info")]
        first = "2 files such as pytorch_model-00001-of-00002.bin lie beside what is shown, in another container"
        assert source.problems[0].message.startswith(first)
    for name in bins:
        (tmp_path / name).unlink()
    make(tmp_path, {"pytorch_model.bin": b.state_dict_bytes({"z": np.ones(3, np.float32)}), "notes.bin": b"x"})
    with open_checkpoint(tmp_path) as source:
        assert found(source) == [("several-models", "info")]
        assert source.problems[0].message.startswith("pytorch_model.bin lies beside")
        assert [r.key for r in source.refs] == ["a", "b"]
    with open_checkpoint(tmp_path, take="pytorch_model.bin") as source:
        assert [r.key for r in source.refs] == ["z"]
        assert found(source) == [("several-models", "info")]
        assert source.problems[0].message.startswith("2 files such as model-00001-of-00002.safetensors lie")


def test_a_shard_that_is_a_folder(tmp_path):
    folder = make(tmp_path, NEW | INDEX)
    name = "model-00002-of-00002.safetensors"
    (folder / name).unlink()
    (folder / name).mkdir()
    with open_checkpoint(folder) as source:
        [problem] = source.problems
        assert (problem.code, problem.blocking, problem.keys) == ("shard-missing", True, ("b",))
        assert problem.message.endswith(f": {name}. {name} is a folder, not a file.")
        assert problem.fix.startswith("Look into the folder")


def test_a_single_file_beside_shards_can_be_taken(tmp_path):
    folder = make(tmp_path, NEW | INDEX | {"model.safetensors": shard("s")})
    with open_checkpoint(folder) as source:
        assert found(source) == [("several-models", "warning")]
    with open_checkpoint(folder, take="model.safetensors") as source:
        assert [r.key for r in source.refs] == ["s"]
        assert found(source) == [("several-models", "warning")]


def test_several_files_that_may_each_be_the_model(tmp_path):
    folder = make(tmp_path, {"a.safetensors": shard("a"), "b.safetensors": shard("b")})
    with pytest.raises(CheckpointError) as caught:
        open_checkpoint(folder)
    assert (caught.value.code, "--take" in caught.value.fix) == ("several-models", True)
    with open_checkpoint(folder, take="b.safetensors") as source:
        assert [r.key for r in source.refs] == ["b"]


@pytest.mark.parametrize("name", ["other.safetensors", "../model.safetensors", "inside"])
def test_what_is_taken_must_be_a_file_of_the_folder(tmp_path, name):
    folder = make(tmp_path / "m", NEW | {"inside/x": b""})
    b.write(tmp_path / "model.safetensors", shard("s"))
    with pytest.raises(CheckpointError) as caught:
        open_checkpoint(folder, take=name)
    assert caught.value.code == "not-a-checkpoint"


def test_checkpoints_of_a_run(tmp_path):
    steps = {f"checkpoint-{n}/model.safetensors": shard("w", n) for n in (9, 10, 100, 1000)}
    with open_checkpoint(make(tmp_path / "both", steps | {"model.safetensors": shard("w")})) as source:
        assert found(source) == [("several-models", "info")]
        assert "checkpoint-10, checkpoint-100, checkpoint-1000 and 1 more" in source.problems[0].message
    with pytest.raises(CheckpointError) as caught:
        open_checkpoint(make(tmp_path / "only", steps))
    assert (
        "4 folders can be opened: checkpoint-1000, checkpoint-100, checkpoint-10, checkpoint-9" in caught.value.message
    )
    assert "checkpoint-1000" in caught.value.fix
