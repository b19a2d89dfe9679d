"""Messages that the installed torch and safetensors print today, each triggered with a made file."""

from __future__ import annotations

import argparse
import json
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
from safetensors import safe_open  # noqa: E402 - only where torch is
from safetensors.torch import load_file, save_file  # noqa: E402

from ckpt_gui.core.explain import explain  # noqa: E402

POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 5\n"
PAGE = b"<!DOCTYPE html><html><body>Log in</body></html>"
TWO = '{"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"w":{"dtype":"F32","shape":[2],"data_offsets":[8,16]}}'


def first(call: Callable[[], object]) -> tuple[str, str]:
    """Return cause and kind of the error that a call raises."""
    with pytest.raises(Exception) as caught:  # noqa: PT011 - each library raises its own
        call()
    found = explain(f"{type(caught.value).__name__}: {caught.value}")
    return (found[0].id, found[0].kind) if found else ("", "")


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "m.pt"
    torch.save({"a.weight": torch.randn(300, 300), "b": torch.ones(3)}, path)
    return path


def _safetensors(path: Path, header: str, data: int) -> Path:
    path.write_bytes(struct.pack("<Q", len(header)) + header.encode() + bytes(data))
    return path


def _without(source: Path, target: Path, *, record: str = "", flat: bool = False) -> Path:
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        for name in old.namelist():
            if not record or not name.endswith(record):
                new.writestr(name.split("/", 1)[1] if flat else name, old.read(name))
    return target


@pytest.mark.parametrize(
    ("content", "safe", "full", "tensors"),
    [
        (POINTER, "lfs-pointer", "lfs-pointer", "header-large"),
        (PAGE, "html-page", "html-page", "header-large"),
        (b"\x1f\x8b\x08" + b"a" * 20, "gzip", "gzip", "header-large"),
        (b"", "empty", "empty", "header-small"),
        (bytes(2000), "legacy-tar", "all-zero", "bad-header"),
    ],
)
def test_no_checkpoint(tmp_path: Path, content: bytes, safe: str, full: str, tensors: str):
    path = tmp_path / "x"
    path.write_bytes(content)
    assert first(lambda: torch.load(path, weights_only=True))[0] == safe
    assert first(lambda: torch.load(path, weights_only=False))[0] == full
    assert first(lambda: load_file(path))[0] == tensors


def test_damaged_torch_files(saved: Path, tmp_path: Path):
    raw = saved.read_bytes()
    cut = tmp_path / "cut.pt"
    cut.write_bytes(raw[:-1])
    assert first(lambda: torch.load(cut)) == ("zip-cut", "A")
    flipped = bytearray(raw)
    start = raw.find(b"data/0")
    flipped[start - 30] ^= 255
    cut.write_bytes(flipped)
    assert first(lambda: torch.load(cut)) == ("zip-record", "A")
    lost = _without(saved, tmp_path / "lost.pt", record="data/0")
    assert first(lambda: torch.load(lost)) == ("record-lost", "A")
    flat = _without(saved, tmp_path / "flat.pt", flat=True)
    assert first(lambda: torch.load(flat)) == ("flat-zip", "F")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_torch_files_read_wrongly(saved: Path, tmp_path: Path):
    assert first(lambda: torch.jit.load(saved)) == ("not-torchscript", "F")
    assert first(lambda: torch.load(saved).eval()) == ("dict-not-model", "F")
    old = tmp_path / "old.pt"
    torch.save({"a": torch.ones(300)}, old, _use_new_zipfile_serialization=False)
    assert first(lambda: torch.load(old, mmap=True)) == ("no-mmap", "F")
    old.write_bytes(old.read_bytes()[:-200])
    assert first(lambda: torch.load(old)) == ("stream-cut", "A")
    torch.save({"a": torch.ones(3), "args": argparse.Namespace()}, old)
    assert first(lambda: torch.load(old)) == ("foreign-global", "F")


def test_safetensors_files(tmp_path: Path):
    path = tmp_path / "m.safetensors"
    save_file({"a": torch.ones(30)}, path)
    raw = path.read_bytes()
    renamed = tmp_path / "m.pt"  # under its own name torch 2.13 reads it
    renamed.write_bytes(raw)
    assert first(lambda: torch.load(renamed, weights_only=True)) == ("not-a-pickle", "A")
    assert first(lambda: safe_open(path, "pt").get_tensor("lm_head.weight")) == ("head-keyerror", "B")
    assert first(lambda: safe_open(path, "pt").metadata().get("format")) == ("no-format", "G")
    path.write_bytes(raw[:-5])
    assert first(lambda: load_file(path)) == ("data-cut", "A")
    path.write_bytes(raw[:40])
    assert first(lambda: load_file(path)) == ("header-cut", "A")


@pytest.mark.parametrize(
    ("header", "data", "cause"),
    [
        (TWO, 16, ("bad-offset", "A")),
        (json.dumps({"w": {"dtype": "F32", "shape": [9, 9], "data_offsets": [0, 4]}}), 4, ("bad-range", "A")),
        (json.dumps({"w": {"dtype": "X9", "shape": [1], "data_offsets": [0, 4]}}), 4, ("unknown-dtype", "L")),
        (json.dumps({"__metadata__": {"a": 1}}), 0, ("metadata-text", "G")),
        ('{"w":{', 0, ("bad-header", "A")),
    ],
)
def test_safetensors_headers(tmp_path: Path, header: str, data: int, cause: tuple[str, str]):
    path = _safetensors(tmp_path / "m.safetensors", header, data)
    assert first(lambda: load_file(path)) == cause


def test_saving(tmp_path: Path):
    path, whole = tmp_path / "o", torch.ones(3, 3)
    assert first(lambda: save_file({"lm_head.weight": whole, "wte.weight": whole}, path)) == ("shared", "B")
    assert first(lambda: save_file(dict.fromkeys("abcde", whole), path)) == ("shared-many", "E")
    assert first(lambda: save_file({"a": whole[:, :2]}, path)) == ("not-contiguous", "G")
    assert first(lambda: save_file({"a": 1}, path)) == ("not-a-tensor", "G")
    assert first(lambda: save_file({"a": whole}, path, metadata={"a": 1})) == ("metadata-text", "G")


def test_load_state_dict():
    model = torch.nn.ModuleDict({"output": torch.nn.Linear(8, 6, bias=False), "fc": torch.nn.Linear(8, 6, bias=False)})
    good = {"output.weight": torch.ones(6, 8), "fc.weight": torch.ones(6, 8)}

    def cause(**changed: object) -> tuple[str, str]:
        return first(lambda: model.load_state_dict({**good, **changed}))

    def renamed(prefix: str) -> tuple[str, str]:
        return first(lambda: model.load_state_dict({prefix + key: value for key, value in good.items()}))

    assert renamed("_orig_mod.") == ("prefix-orig_mod", "D")
    assert renamed("module.") == ("prefix-module", "D")
    assert renamed("net.") == ("prefix-extra", "D")
    assert first(lambda: model.load_state_dict({"fc.weight": torch.ones(6, 8)})) == ("head-missing", "B")
    assert first(lambda: model["fc"].load_state_dict({"model": {}, "epoch": 1})) == ("nested", "N")
    assert cause(**{"output.weight": torch.ones(7, 8)}) == ("vocab-rows", "J")
    assert cause(**{"fc.weight": torch.ones(0)}) == ("placeholder", "E")
    assert cause(**{"fc.weight": torch.ones(8, 6)}) == ("transposed", "K")
    assert cause(**{"fc.weight": torch.ones(3, 5)}) == ("other-size", "C")
    assert cause(**{"fc.lora_A.weight": torch.ones(3, 5)}) == ("adapter-unmerged", "H")
    assert cause(**{"fc.SCB": torch.ones(3)}) == ("quantised-name", "M")


def test_numbers():
    assert first(lambda: torch.ones(2, dtype=torch.bfloat16).numpy()) == ("no-bfloat16", "L")
    assert first(lambda: torch.ones(2, 2) @ torch.ones(2, 2, dtype=torch.float16)) == ("mixed-dtypes", "L")
    assert first(lambda: torch.ones(2, device="meta").to("cpu")) == ("meta-tensor", "E")
    assert first(lambda: torch.ones(16, 8).view(4, 2, 4, 32)) == ("head-count", "K")
    assert first(lambda: torch.nn.functional.embedding(torch.tensor([0]), torch.ones(0))) == ("weight-2d", "E")
    assert first(lambda: torch.nn.Embedding(3, 2)(torch.tensor([5]))) == ("vocab-small", "J")
