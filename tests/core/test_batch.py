"""A verdict on one checkpoint of many, and the names of the folders that they are written to."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ckpt_gui.core.batch import judge, write_certain
from ckpt_gui.core.batch_names import distinct, short_names, target_folders
from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.export import Target

SAMPLE = Path(__file__).resolve().parents[2] / "resources" / "sample"


def test_the_sample_is_certain_and_clean_once_it_is_written(tmp_path: Path) -> None:
    before = judge(str(SAMPLE / "tiny-llama-compiled.pt"), Target("hf"))
    assert (before.state, before.code, before.kind) == ("certain", "wrapper-prefix", "Llama, Meta layout")
    assert (before.container, before.tensors) == ("torch-zip", 117)
    assert before.sentence.endswith("6 steps, nothing to decide.")
    written = write_certain(before.path, Target("hf"), str(tmp_path / "out"))
    assert (written.tensors, written.verified) == (29, 29)
    after = judge(str(tmp_path / "out"), Target("hf"))
    assert (after.state, after.sentence) == ("clean", "Nothing has to be changed.")
    assert judge(after.path, Target("meta")).state == "certain"
    assert judge(after.path, Target("hf", dtype="fp32")).steps[0] == "Cast to fp32"
    assert judge(after.path, Target("no-such-layout")).state in ("decision", "error")


def test_what_is_not_certain_is_not_written(tmp_path: Path) -> None:
    path = str(shutil.copy(SAMPLE / "tiny-llama-compiled.pt", tmp_path / "lost.pt"))  # no params.json: no heads
    verdict = judge(path, Target("hf"))
    assert (verdict.state, verdict.code) == ("decision", "heads-unknown")
    with pytest.raises(CheckpointError, match="head"):
        write_certain(path, Target("hf"), str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("content", "code"), [(b"", "empty-file"), (b"hello", "not-a-checkpoint"), (None, "not-a-checkpoint")]
)
def test_what_can_not_be_opened_says_why(tmp_path: Path, content: bytes | None, code: str) -> None:
    path = tmp_path / "x.pt"
    if content is not None:
        path.write_bytes(content)
    verdict = judge(str(path), Target("hf"))
    assert (verdict.state, verdict.code) == ("error", code)
    assert "x.pt" in verdict.sentence


def test_a_name_has_as_many_folders_as_tell_it_from_the_others() -> None:
    paths = ["/r/one/x/model", "/r/two/x/model", "/r/two/y/model", "/r/alone", "hf://owner/alone/"]
    names = ["one/x/model", "two/x/model", "y/model", "r/alone", "owner/alone"]
    assert short_names(paths) == dict(zip(paths, names, strict=True))
    assert short_names([]) == {}
    assert short_names(["/"]) == {"/": "/"}
    assert short_names(["/a/b", "/z/a/b"]) == {"/a/b": "a/b", "/z/a/b": "z/a/b"}


def test_no_two_exports_go_to_one_folder_and_none_to_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "b-hf").mkdir()
    paths = ["/a/b.pt", "/c/b.pt", "/d/model.safetensors.index.json"]
    found = target_folders(paths, "hf", str(tmp_path), taken=[str(tmp_path / "b-hf-2")])
    names = [Path(folder).name for folder in found.values()]
    assert names == ["b-hf-3", "b-hf-4", "d-hf"]
    assert target_folders(["/c/b.pt"], "same") == {"/c/b.pt": "/c/b-fixed"}
    far = "https://host/m/far.safetensors?download=true"
    assert target_folders([far], "hf") == {far: str(Path.home() / "far-hf")}


def test_shards_that_are_not_all_named_stand_for_themselves() -> None:
    one = "/m/model-00001-of-00003.safetensors"
    assert distinct([one, one]) == (one,)
    assert distinct([f"/m/model-0000{n}-of-00003.safetensors" for n in (1, 2, 3)]) == ("/m",)
    assert distinct(["s3://bucket/model"]) == ("s3://bucket/model",)
