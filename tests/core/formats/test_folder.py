"""Folders, indices, sidecars, and files that are no checkpoints."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys

import numpy as np
import pytest

from ckpt_gui.core.errors import Cancelled, CheckpointError
from ckpt_gui.core.formats import files, open_checkpoint, shard_index
from ckpt_gui.core.formats.sidecars import read_sidecars
from tests import builders as b

ONES = np.ones(2, np.float32)
PT = {"format": "pt"}
SHARDS = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")


def shard(*keys):
    return b.safetensors_bytes(dict.fromkeys(keys, ONES), PT)


def make(folder, found):
    folder.mkdir(exist_ok=True)
    for name, data in found.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(data)
    return folder


def sharded(folder, weight_map=None, total=16, **more):
    weight_map = {"a": SHARDS[0], "b": SHARDS[1]} if weight_map is None else weight_map
    index = {"model.safetensors.index.json": b.index_bytes(weight_map, total)}
    return make(folder, {SHARDS[0]: shard("a"), SHARDS[1]: shard("b"), **index, **more})


def problems(source):
    return [(p.code, p.severity, p.blocking) for p in source.problems]


def test_shards_with_an_index(tmp_path):
    folder = sharded(tmp_path / "m")
    calls = []
    with open_checkpoint(folder, progress=lambda *a: calls.append(a)) as source:
        assert [(r.key, r.file) for r in source.refs] == [("a", SHARDS[0]), ("b", SHARDS[1])]
        assert source.problems == ()
        assert source.is_folder
        assert source.read(source.refs[1]) == ONES.tobytes()
    assert calls == [("opening", 1, 2), ("opening", 2, 2)]
    with open_checkpoint(folder / "model.safetensors.index.json") as source:
        assert len(source.refs) == 2


def test_cancel(tmp_path):
    with pytest.raises(Cancelled):
        open_checkpoint(sharded(tmp_path / "m"), cancelled=lambda: True)


@pytest.mark.case(44)
@pytest.mark.parametrize("total", [[], {}, "16", True, 1e300, -1.5, 10**400, [[[]]]])
def test_a_total_that_is_none(tmp_path, total):
    with open_checkpoint(sharded(tmp_path / "m", total=total)) as source:
        assert problems(source) == [("index-stale", "warning", False)]


INDEX_CASES = {
    "ghost key": ({"a": SHARDS[0], "b": SHARDS[1], "c": SHARDS[1]}, 16, ("index-stale", "warning", False)),
    "wrong shard": ({"a": SHARDS[1], "b": SHARDS[1], "x": SHARDS[0]}, None, ("index-stale", "warning", False)),
    "wrong total": ({"a": SHARDS[0], "b": SHARDS[1]}, 17, ("index-stale", "warning", False)),
    "negative total": ({"a": SHARDS[0], "b": SHARDS[1]}, -1, ("index-stale", "warning", False)),
    "missing shard": ({"a": SHARDS[0], "b": "gone.safetensors"}, 16, ("shard-missing", "error", True)),
}


@pytest.mark.case(42, 43, 44)
@pytest.mark.parametrize(("weight_map", "total", "problem"), INDEX_CASES.values(), ids=INDEX_CASES)
def test_index_that_disagrees(tmp_path, weight_map, total, problem):
    with open_checkpoint(sharded(tmp_path / "m", weight_map, total)) as source:
        assert problem in problems(source)
        assert "a" in [r.key for r in source.refs]


@pytest.mark.case(42)
def test_missing_shard_names_its_keys(tmp_path):
    folder = sharded(tmp_path / "m")
    (folder / SHARDS[1]).unlink()
    with open_checkpoint(folder) as source:
        assert [p.keys for p in source.problems] == [("b",)]
        assert "1 of 2 shards" in source.problems[0].message


@pytest.mark.case(43)
def test_key_outside_the_index(tmp_path):
    folder = sharded(tmp_path / "m", total=None, **{SHARDS[1]: shard("b", "extra")})
    with open_checkpoint(folder) as source:
        assert [(p.code, p.keys) for p in source.problems] == [("shard-unindexed", ("extra",))]


@pytest.mark.case(43)
def test_key_in_two_shards(tmp_path):
    folder = sharded(tmp_path / "m", **{SHARDS[1]: shard("b", "a")})
    with open_checkpoint(folder) as source:
        assert ("duplicate-tensor", "error", True) in problems(source)


def test_damaged_shard_beside_good_ones(tmp_path):
    folder = sharded(tmp_path / "m", **{SHARDS[1]: b.LFS_POINTER})
    with open_checkpoint(folder) as source:
        assert [r.key for r in source.refs] == ["a"]
        assert problems(source) == [("lfs-pointer", "error", True)]


def test_all_shards_gone(tmp_path):
    folder = make(tmp_path / "m", {"model.safetensors.index.json": b.index_bytes({"a": SHARDS[0]})})
    with pytest.raises(CheckpointError) as caught:
        open_checkpoint(folder)
    assert caught.value.code == "shard-missing"


UNSAFE = [
    "../../etc/passwd",
    "/etc/passwd",
    "..\\x",
    "C:\\x",
    "a/../b",
    "%2e%2e/",
    "",
    ".",
    "..",
    "a\0b",
    "nul",
    "CON.bin",
]
UNSAFE += ["a:b", " a", "a.", "x\x1b[0m", "a" * 300]


@pytest.mark.case(40)
@pytest.mark.parametrize("name", UNSAFE)
def test_unsafe_shard_names_are_refused_before_any_open(tmp_path, name, monkeypatch):
    folder = sharded(tmp_path / "m", {"a": SHARDS[0], "b": name})
    opened = []
    real = files.open_regular
    monkeypatch.setattr(files, "open_regular", lambda path: opened.append(os.path.basename(path)) or real(path))
    with pytest.raises(CheckpointError) as caught:
        open_checkpoint(folder)
    assert caught.value.code == "index-unsafe"
    assert opened == ["model.safetensors.index.json"]


WATCHED = """
import os, sys
from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.formats import open_checkpoint
from ckpt_gui.core.formats import folder_opening  # what is imported late would be opened too
seen = []
sys.addaudithook(lambda event, args: seen.append(str(args[0])) if event == "open" else None)
try:
    open_checkpoint(sys.argv[1])
except CheckpointError as error:
    print(error.code, *[os.path.basename(name) for name in seen if not name.endswith((".py", ".pyc"))])
"""


@pytest.mark.case(40)
def test_the_system_is_asked_for_no_shard_of_an_unsafe_index(tmp_path):
    folder = sharded(tmp_path / "m", {"a": SHARDS[0], "b": "../secret"})
    b.write(tmp_path / "secret", b"x")
    words = [sys.executable, "-c", WATCHED, str(folder)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["index-unsafe", "model.safetensors.index.json"], done.stderr


@pytest.mark.case(41)
@pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege there")
def test_links(tmp_path):
    cache = tmp_path / "cache"
    (cache / "blobs").mkdir(parents=True)
    (cache / "snapshots").mkdir()
    folder = sharded(cache / "snapshots" / "rev1")
    (folder / SHARDS[1]).rename(cache / "blobs" / "0123")
    (folder / SHARDS[1]).symlink_to("../../blobs/0123")
    with open_checkpoint(folder) as source:
        assert len(source.refs) == 2
    (cache / "blobs" / "0123").rename(tmp_path / "elsewhere")
    (folder / SHARDS[1]).unlink()
    (folder / SHARDS[1]).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(CheckpointError) as caught:
        open_checkpoint(folder)
    assert caught.value.code == "index-unsafe"


@pytest.mark.case(45)
@pytest.mark.parametrize(
    "text",
    ["[]", "{}", '{"weight_map": null}', '{"weight_map": []}', '{"weight_map": {"a": 1}}', "{", '{"weight_map": {}}'],
)
def test_index_that_is_no_index(tmp_path, text):
    folder = make(tmp_path / "m", {"model.safetensors.index.json": text.encode()})
    with pytest.raises(CheckpointError) as caught:
        open_checkpoint(folder)
    assert caught.value.code == "damaged"


@pytest.mark.parametrize("piece", [1, 2, 5, 1 << 20])
def test_an_index_is_read_in_pieces_whatever_they_cut(tmp_path, piece, monkeypatch):
    monkeypatch.setattr(shard_index, "PIECE", piece)
    name, key = "model.safetensors.index.json", "läyers.0.wéight"
    (tmp_path / name).write_text(json.dumps({"weight_map": {key: "a.safetensors"}}, ensure_ascii=False), "utf-8")
    assert shard_index.read_index(str(tmp_path), name).weight_map == {key: "a.safetensors"}
    (tmp_path / name).write_bytes(b'{"weight_map": {"a\xff": "a.safetensors"}}')
    with pytest.raises(CheckpointError, match="position 18") as caught:
        shard_index.read_index(str(tmp_path), name)
    assert caught.value.code == "damaged"


def test_stale_single_file_beside_shards(tmp_path):
    with open_checkpoint(sharded(tmp_path / "m", **{"model.safetensors": shard("old")})) as source:
        assert problems(source) == [("several-models", "warning", False)]
        assert [r.key for r in source.refs] == ["a", "b"]


TORCH = b.state_dict_bytes({"t": ONES})
CHOICES = {
    "single": ({"model.safetensors": shard("s"), "pytorch_model.bin": TORCH}, "s", ["several-models"]),
    "bin": ({"pytorch_model.bin": TORCH, "optimizer.pt": TORCH}, "t", []),
    "meta": ({"consolidated.00.pth": TORCH, "params.json": b"{}"}, "t", []),
    "ranks": ({"consolidated.00.pth": TORCH, "consolidated.01.pth": TORCH}, "t", []),
    "ranks, one gone": ({"consolidated.01.pth": TORCH}, "t", ["shard-missing"]),
    "torchtune": ({"model-00001-of-00001.bin": TORCH, "adapter_model.pt": TORCH}, "t", []),
    "only": ({"lit_model.pth": TORCH, "training_args.bin": TORCH, "scheduler.pt": TORCH}, "t", []),
    "adapter": ({"adapter_model.safetensors": shard("l")}, "l", []),
    "no index": ({SHARDS[0]: shard("a"), SHARDS[1]: shard("b")}, "a", ["index-missing"]),
    "no index, one gone": ({SHARDS[1]: shard("b")}, "b", ["shard-missing", "index-missing"]),
    "other index": (
        {"x.safetensors.index.json": b.index_bytes({"s": "x.safetensors"}), "x.safetensors": shard("s")},
        "s",
        [],
    ),
    "native beside": (
        {"model.safetensors": shard("s"), "consolidated.safetensors": shard("n")},
        "s",
        ["several-models"],
    ),
    "original beside": (
        {"model.safetensors": shard("s"), "original/consolidated.00.pth": TORCH},
        "s",
        ["several-models"],
    ),
    "native": ({"consolidated.safetensors": shard("n"), "params.json": b"{}"}, "n", []),
    "misnamed": ({"pytorch_model.bin": shard("s")}, "s", ["misnamed-file"]),
}


@pytest.mark.parametrize(("found", "key", "codes"), CHOICES.values(), ids=CHOICES)
def test_choice(tmp_path, found, key, codes):
    with open_checkpoint(make(tmp_path / "m", found)) as source:
        assert source.refs[0].key == key
        assert sorted(p.code for p in source.problems) == sorted(codes)


NOTHING = {
    "nothing": ({}, "not-a-checkpoint"),
    "only state": ({"optimizer.pt": TORCH}, "not-a-checkpoint"),
    "gguf": ({"m.gguf": b"GGUF"}, "truncated"),
    "distributed": ({".metadata": b"x", "__0_0.distcp": b"x"}, "damaged"),
    "distributed without metadata": ({"__0_0.distcp": b"x"}, "shard-missing"),
    "several": ({"a.pt": TORCH, "b.pt": TORCH}, "several-models"),
    "two indices": ({f"{n}.safetensors.index.json": b.index_bytes({"a": "a"}) for n in "xy"}, "several-models"),
}


@pytest.mark.parametrize(("found", "code"), NOTHING.values(), ids=NOTHING)
def test_folder_that_cannot_be_opened(tmp_path, found, code):
    with pytest.raises(CheckpointError) as caught:
        open_checkpoint(make(tmp_path / "m", found))
    assert caught.value.code == code


def test_shards_of_torch_merge_their_trees(tmp_path):
    found = {f"pytorch_model-0000{i}-of-00002.bin": b.state_dict_bytes({k: ONES}) for i, k in ((1, "a"), (2, "b"))}
    found["pytorch_model.bin.index.json"] = b.index_bytes(dict(zip("ab", found, strict=True)))
    with open_checkpoint(make(tmp_path / "m", found)) as source:
        assert list(source.tree) == ["a", "b"]
        assert source.container == "torch-zip"


# ---- sidecars


def test_sidecars(tmp_path):
    report = json.dumps({"source_config": {"model_type": "mistral"}}).encode()
    found = {"config.json": b'{"model_type": "llama"}', "generation_config.json": b"{}", "tokenizer.json": b"{}"}
    found |= {"params.json": b'{"dim": 4}', "EXPORT_REPORT.json": report, "chat_template.jinja": b"x"}
    folder = make(tmp_path / "m", {"model.safetensors": shard("a"), **found})
    for path in (folder, folder / "model.safetensors"):
        with open_checkpoint(path) as source:
            beside = source.sidecars
        assert (beside.config, beside.params) == ({"model_type": "llama"}, {"dim": 4})
        assert beside.origin == {"model_type": "mistral"}
        assert beside.tokenizer == ("tokenizer.json",)
        assert beside.carried == ("tokenizer.json", "generation_config.json", "chat_template.jinja")


@pytest.mark.parametrize("text", [b"{", b"[]", b"\xff\xff", b"[" * 100_000])
def test_a_bad_config_is_a_warning(tmp_path, text):
    folder = make(tmp_path / "m", {"model.safetensors": shard("a"), "config.json": text})
    with open_checkpoint(folder) as source:
        assert problems(source) == [("config-mismatch", "warning", False)]
        assert source.sidecars.config is None


def test_a_config_can_be_named(tmp_path):
    folder = make(tmp_path / "m", {"model.safetensors": shard("a"), "config.json": b"{"})
    other = b.write(tmp_path / "other.json", b'{"dim": 4, "n_layers": 2}')
    assert read_sidecars(str(folder), other)[0].params == {"dim": 4, "n_layers": 2}
    assert read_sidecars(str(folder), {"model_type": "x"})[0].config == {"model_type": "x"}
    with pytest.raises(CheckpointError):
        open_checkpoint(folder, config=tmp_path / "absent.json")


@pytest.mark.parametrize("name", ["config.json", "params.json"])
def test_the_config_of_a_folder_that_is_named(tmp_path, name):
    """It stands alone: what lies beside the weights is not looked at."""
    folder = make(tmp_path / "m", {"model.safetensors": shard("a"), "config.json": b'{"model_type": "own"}'})
    content = {"config.json": b'{"model_type": "x"}', "params.json": b'{"dim": 4, "n_layers": 2}'}[name]
    other = make(tmp_path / "other", {name: content})
    with open_checkpoint(folder, config=other) as source:
        assert problems(source) == []
        found = {"config.json": source.sidecars.config, "params.json": source.sidecars.params}
        assert found == {"config.json": None, "params.json": None} | {name: json.loads(content)}
    with pytest.raises(CheckpointError, match="is a folder, not a file"):
        open_checkpoint(folder, config=make(tmp_path / "none", {}))


# ---- files that are no checkpoints

SNIFFED = {
    "empty": (b"", "empty-file", "0 bytes"),
    "lfs": (b.LFS_POINTER, "lfs-pointer", r"oid sha256:4d7a.*size 12,345"),
    "zeros": (bytes(100_000), "zero-filled", "zeros"),
    "html": (b"<!DOCTYPE html><html>", "not-a-checkpoint", "web page"),
    "json": (b'{"error": "not found"}', "not-a-checkpoint", "JSON"),
    "text": (b"hello world, this is text\n", "not-a-checkpoint", "plain text"),
    "png": (b"\x89PNG\r\n\x1a\n" + bytes(50), "not-a-checkpoint", "PNG"),
    "gzip": (b"\x1f\x8b\x08" + bytes(50), "not-a-checkpoint", "gzip"),
    "gguf": (b"GGUF\1\0\0\0" + bytes(50), "not-a-checkpoint", "GGUF"),
    "hdf5": (b"\x89HDF\r\n\x1a\n" + bytes(50), "not-a-checkpoint", "HDF5"),
    "onnx": (b"\x08\x07\x12\x07pytorch" + bytes(50), "not-a-checkpoint", "ONNX"),
    "pickle": (b"\x80\x04}." + bytes(20), "not-a-checkpoint", "pickle"),
    "legacy": (bytes.fromhex("80028a0a6cfc9c46f9206aa85019") + b".", "damaged", "ends too early"),
    "tar": (b"x" * 257 + b"ustar" + bytes(300), "damaged", "tar"),
    "noise": (bytes(range(255, 100, -1)), "not-a-checkpoint", "not in any known format"),
}


@pytest.mark.case(37, 82)
@pytest.mark.parametrize(("data", "code", "words"), SNIFFED.values(), ids=SNIFFED)
@pytest.mark.parametrize("name", ["x.bin", "model.safetensors"])
def test_named_for_what_it_is(tmp_path, data, code, words, name):
    if code == "not-a-checkpoint" and name.endswith("safetensors"):
        words = "."  # by that name a short file may be a damaged one; what matters is that it is refused
    with pytest.raises(CheckpointError, match=words):
        open_checkpoint(b.write(tmp_path / name, data))


@pytest.mark.case(37)
def test_zip_that_is_called_safetensors(tmp_path):
    with open_checkpoint(b.write(tmp_path / "x.safetensors", TORCH)) as source:
        assert problems(source) == [("misnamed-file", "warning", False)]


@pytest.mark.parametrize("path", ["nosuch://bucket/x", "local://a/b", "a\0b", "absent.pt"])
def test_paths_that_name_no_file(path):
    with pytest.raises(CheckpointError) as caught:
        open_checkpoint(path)
    assert caught.value.code == "not-a-checkpoint"


@pytest.mark.case(89)
@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_special_files(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    bound = socket.socket(socket.AF_UNIX)
    bound.bind(str(tmp_path / "s"))
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "dangling").symlink_to(tmp_path / "absent")
    for name, words in {"pipe": "pipe", "s": "socket", "loop": "circle", "dangling": "no such file"}.items():
        with pytest.raises(CheckpointError, match=words):
            open_checkpoint(tmp_path / name)
    bound.close()
    with pytest.raises(CheckpointError, match="device"):
        open_checkpoint("/dev/zero")


@pytest.mark.case(25, 89)
def test_hostile_names_are_escaped(tmp_path):
    path = tmp_path / "a\x1b[31m\nb.bin"
    try:
        path.write_bytes(b"hello")
    except OSError:
        pytest.skip("this file system has no such names")
    with pytest.raises(CheckpointError) as caught:
        open_checkpoint(path)
    assert "\x1b" not in caught.value.message
    assert "\n" not in caught.value.message


LEGACY = [b.pickled(b.number(0x1950A86A20F9469CFC6C)), b.pickled(b.number(1001)), b.pickled(b.dict_of({}))]


@pytest.mark.case(52, 53, 54)
@pytest.mark.parametrize(
    "data",
    [
        b.pickled(b.call(b.name("os", "system"), b.text("x")), 4),
        b"cos\nsystem\n(S'echo'\ntR.",
        b.pickled(b.call(b.name("posix", "system"), b.text("x")))[:-1] + b"\xff junk",
        b"".join([*LEGACY, b.pickled(b.call(b.name("os", "system"), b.text("x")))]),
    ],
)
def test_bare_pickles_that_would_run_something(tmp_path, data):
    with pytest.raises(CheckpointError, match="system") as caught:
        open_checkpoint(b.write(tmp_path / "x.pkl", data))
    assert caught.value.code == "unsafe-pickle"
