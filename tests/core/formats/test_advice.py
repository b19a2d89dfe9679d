"""What a message about a broken file has to say beside the fault: what is whole of it, and what can be done."""

from __future__ import annotations

import gzip
import json

import numpy as np
import pytest

from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.formats import open_checkpoint
from tests import builders as b

TENSORS = {f"layers.{i}.weight": np.arange(600, dtype=np.float32) + i for i in range(8)}
CALL = b.call(b.name("os", "system"), b.text("true"))


def error_of(path):
    with pytest.raises(CheckpointError) as caught:
        open_checkpoint(path)
    return caught.value


@pytest.mark.case(71)
def test_a_cut_archive_says_what_is_whole(tmp_path):
    data = b.state_dict_bytes(TENSORS)
    error = error_of(b.write(tmp_path / "x.pt", data[: len(data) // 2]))
    assert error.code == "truncated"
    with open_checkpoint(tmp_path / "x.pt", salvage=True) as source:
        whole = len(source.refs)
    assert 0 < whole < 8
    assert f"{whole} of 8 tensors are whole; the first that is not is `layers.{whole}.weight`." in error.message
    assert f"({len(data) // 2:,} bytes are there)" in error.message
    assert "--salvage" in error.fix
    error = error_of(b.write(tmp_path / "x.pt", data[:-1]))
    assert error.message.endswith("8 of 8 tensors are whole.")


@pytest.mark.case(71)
@pytest.mark.parametrize("size", [4, 20, 100, 300])
def test_where_nothing_is_whole_nothing_is_promised(tmp_path, size):
    error = error_of(b.write(tmp_path / "x.pt", b.state_dict_bytes(TENSORS)[:size]))
    assert error.message.endswith("No tensor can be listed.")
    assert error.fix == "Download or copy it again."


@pytest.mark.case(54, 71)
def test_a_cut_archive_that_is_an_attack_is_called_that(tmp_path):
    body = b.dict_of({"w": b.tensor("0", [600]), "e": CALL})
    data = b.torch_bytes(body, {"0": TENSORS["layers.0.weight"]})
    error = error_of(b.write(tmp_path / "x.pt", data[:-60]))
    assert error.code == "unsafe-pickle"
    assert "os.system" in error.message
    assert "cut short" in error.message


@pytest.mark.case(54, 71)
@pytest.mark.parametrize("sized", [True, False], ids=["size before the data", "size behind it"])
def test_an_attack_that_is_cut_within_its_pickle_is_called_that(tmp_path, sized):
    body = b.dict_of({"e": CALL, "t": b.text("x" * 900), "w": b.tensor("0", [600])})
    data = bytearray(b.torch_bytes(body, {"0": TENSORS["layers.0.weight"]}))
    at = data.index(b"archive/data.pkl") - 30
    assert data[at : at + 4] == b"PK\3\4"
    if not sized:  # as torch writes it
        data[at + 6] |= 8
        data[at + 18 : at + 26] = bytes(8)
    path = b.write(tmp_path / "x.pt", bytes(data[: at + 500]))
    for salvage in (False, True):
        with pytest.raises(CheckpointError, match=r"os\.system") as caught:
            open_checkpoint(path, salvage=salvage)
        assert caught.value.code == "unsafe-pickle"


@pytest.mark.case(82)
@pytest.mark.parametrize(
    ("data", "words", "advice"),
    [
        (b'{"error": "Repository not found"}', "Repository not found", "Download it again"),
        (b"<?xml version='1.0'?><Error><Code>AccessDenied</Code></Error>", "AccessDenied", "Download it again"),
        (b"<!DOCTYPE html><html></html>", "a web page (HTML)", "Download it again"),
        (b"Access denied, please log in\n", "Access denied, please log in", "Download it again"),
        (gzip.compress(b"x" * 100), "a gzip archive", "Unpack it"),
        (b"\x89HDF\r\n\x1a\n" + bytes(50), "an HDF5 file", "Open the file with the model's weights"),
        (b"\xff\xfe\x12\x13" * 9, "not in any known format", "Download or copy it again"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:ab", "it names no whole oid", "git lfs pull"),
    ],
    ids=["json", "xml", "html", "text", "gzip", "hdf5", "noise", "pointer"],
)
def test_what_is_no_checkpoint(tmp_path, data, words, advice):
    error = error_of(b.write(tmp_path / "model.bin", data))
    assert words in error.message
    assert advice in error.fix


@pytest.mark.case(45)
@pytest.mark.parametrize("index", ["{", "[]", json.dumps({"weight_map": None}), json.dumps({"weight_map": {}})])
def test_an_index_that_is_damaged_says_how_to_do_without(tmp_path, index):
    b.write(tmp_path / "model-00001-of-00001.safetensors", b.safetensors_bytes(TENSORS))
    path = b.write(tmp_path / "model.safetensors.index.json", index.encode())
    assert "move it away" in error_of(tmp_path).fix
    path.unlink()
    with open_checkpoint(tmp_path) as source:
        assert len(source.refs) == 8


@pytest.mark.case(2)
@pytest.mark.parametrize(("size", "words"), [(1, "has 1 byte;"), (7, "has 7 bytes;"), (8, "it has 8 (")])
def test_the_shortest_stumps(tmp_path, size, words):
    data = b.safetensors_bytes(TENSORS)
    error = error_of(b.write(tmp_path / "model.safetensors", data[:size]))
    assert error.code == "truncated"
    assert words in error.message
    assert error.fix


def test_limits_of_nesting_name_the_file(tmp_path):
    body = b.number(1)
    for _ in range(120):
        body = b.dict_of({"a": body})
    error = error_of(b.write(tmp_path / "deep.pt", b.torch_bytes(body, {})))
    assert error.message == "The pickle in deep.pt nests values more than 100 levels deep."


@pytest.mark.case(42)
def test_a_shard_that_is_a_link_to_nothing_is_missing(tmp_path):
    names = [f"model-0000{i}-of-00002.safetensors" for i in (1, 2)]
    b.write(tmp_path / names[0], b.safetensors_bytes({"a": TENSORS["layers.0.weight"]}))
    b.write(tmp_path / "model.safetensors.index.json", b.index_bytes({"a": names[0], "c": names[1]}))
    (tmp_path / names[1]).symlink_to("../../blobs/lost")
    with open_checkpoint(tmp_path) as source:
        assert [ref.key for ref in source.refs] == ["a"]
        [found] = [p for p in source.problems if p.code == "shard-missing"]
        assert found.keys == ("c",)
        assert f"{names[1]} is a link to a file that is not there" in found.message
        assert "run it again" in found.fix


@pytest.mark.case(80)
def test_a_pickle_that_is_larger_than_any_model_needs(tmp_path, monkeypatch):
    monkeypatch.setattr("ckpt_gui.core.formats.torch_zip.MAX_PICKLE", 100)
    body = b.dict_of({"w": b.tensor("0", [600]), "t": b.text("x" * 200)})
    data = b.torch_bytes(body, {"0": TENSORS["layers.0.weight"]})
    error = error_of(b.write(tmp_path / "x.pt", data))
    assert error.code == "limit-exceeded"
    assert "data.pkl" in error.message


def test_every_damage_has_advice(tmp_path):
    cases = {
        "a.safetensors": b.raw_safetensors({"w": b.entry("F32", [-2], 0, 8)}, bytes(8)),
        "b.safetensors": b.raw_safetensors("[]"),
        "c.pt": b.state_dict_bytes(TENSORS).replace(b"\x80\x02", b"\x80\x09", 1),
    }
    for name, data in cases.items():
        assert error_of(b.write(tmp_path / name, data)).fix, name
