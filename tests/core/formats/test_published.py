"""Whole files compared with the SHA-256 that is known of them: pointers of Git LFS, caches, records of downloads."""

from __future__ import annotations

import hashlib
import os

import numpy as np
import pytest

from ckpt_gui.cli.main import main
from ckpt_gui.core.errors import Cancelled, CheckpointError
from ckpt_gui.core.formats import open_checkpoint
from ckpt_gui.core.formats.verify import verify_checksums
from tests import builders as b

DATA = b.safetensors_bytes({"w": np.arange(600, dtype=np.float32)}, {"format": "pt"})
BAD = DATA[:-3] + b"\xff" + DATA[-2:]
SHA = hashlib.sha256(DATA).hexdigest()
POINTER = f"version https://git-lfs.github.com/spec/v1\noid sha256:{SHA}\nsize {len(DATA)}\n".encode()


def deep(path):
    with open_checkpoint(path) as source:
        return {finding.code: finding for finding in verify_checksums(source)}


def place_cache(tmp_path, data):
    (tmp_path / "blobs").mkdir()
    b.write(tmp_path / "blobs" / SHA, data)
    (tmp_path / "snapshots/abc").mkdir(parents=True)
    (tmp_path / "snapshots/abc/model.safetensors").symlink_to(f"../../blobs/{SHA}")
    return tmp_path / "snapshots/abc"


def place_clone(tmp_path, data):
    place = tmp_path / ".git/lfs/objects" / SHA[:2] / SHA[2:4]
    place.mkdir(parents=True)
    return b.write(place / SHA, data)


def place_download(tmp_path, data):
    record = tmp_path / ".cache/huggingface/download"
    record.mkdir(parents=True)
    b.write(record / "model.safetensors.metadata", f"{'0' * 40}\n{SHA}\n1700000000.5\n".encode())
    b.write(tmp_path / "model.safetensors", data)
    return tmp_path


def place_beside(tmp_path, data):
    b.write(tmp_path / "model.safetensors", data)
    b.write(tmp_path / "pointer of model.safetensors", POINTER)
    return tmp_path


PLACES = {
    "its name in the cache": place_cache,
    "its name in the cache (clone)": place_clone,
    "the record of its download": place_download,
    "the Git LFS pointer": place_beside,
}


@pytest.mark.parametrize(("said", "place"), PLACES.items(), ids=PLACES)
def test_a_good_and_a_damaged_file(tmp_path, said, place):
    (tmp_path / "good").mkdir()
    (tmp_path / "bad").mkdir()
    found = deep(place(tmp_path / "good", DATA))
    assert found.keys() == {"sha256-verified"}
    assert said.partition(" (")[0] in found["sha256-verified"].message
    found = deep(place(tmp_path / "bad", BAD))
    assert found.keys() == {"crc-mismatch"}
    assert (found["crc-mismatch"].blocking, SHA in found["crc-mismatch"].message) == (True, True)


def test_blobs_stay_as_they_are(tmp_path):
    deep(place_cache(tmp_path, DATA))
    blob = tmp_path / "blobs" / SHA
    assert (blob.read_bytes(), os.listdir(blob.parent)) == (DATA, [SHA])


def test_nothing_known_is_said_so(tmp_path):
    b.write(tmp_path / "model.safetensors", DATA)
    assert deep(tmp_path).keys() == {"no-checksums"}


def test_two_pointers_of_one_size_prove_nothing(tmp_path):
    b.write(tmp_path / "model.safetensors", BAD)
    for name in ("one", "two"):
        b.write(tmp_path / name, POINTER)
    assert deep(tmp_path).keys() == {"no-checksums"}


def test_a_pointer_in_a_clone_says_where_the_file_is(tmp_path):
    there = place_clone(tmp_path, DATA)
    (tmp_path / "weights").mkdir()
    pointer = b.write(tmp_path / "weights/model.safetensors", POINTER)
    with pytest.raises(CheckpointError) as caught:
        open_checkpoint(pointer)
    assert caught.value.code == "lfs-pointer"
    assert SHA in caught.value.message
    assert f"{len(DATA):,} bytes" in caught.value.message
    assert there.name in caught.value.fix
    there.unlink()
    with pytest.raises(CheckpointError) as caught:
        open_checkpoint(pointer)
    assert "git lfs pull" in caught.value.fix


def test_cancelled(tmp_path):
    with open_checkpoint(place_cache(tmp_path, DATA)) as source, pytest.raises(Cancelled):
        verify_checksums(source, cancelled=lambda: True)


@pytest.mark.parametrize(
    ("data", "code", "said"),
    [(DATA, 0, "has the size and SHA-256"), (BAD, 1, "its SHA-256 is"), (DATA + b"x", 1, "bytes, and")],
)
def test_check_against_a_pointer(tmp_path, capsys, data, code, said):
    file = b.write(tmp_path / "w.safetensors", data)
    (tmp_path / "elsewhere").mkdir()
    pointer = b.write(tmp_path / "elsewhere/pointer", POINTER)
    status = main(["check", str(file), "--against", str(pointer)])
    out = " ".join(capsys.readouterr().out.split())
    assert said in out
    assert ("crc-mismatch" in out) == bool(code)
    assert status >= code


def test_a_pointer_stands_for_one_file(tmp_path, capsys):
    for i in (1, 2):
        array = {f"w{i}": np.ones(i, np.float32)}
        b.write(tmp_path / f"model-0000{i}-of-00002.safetensors", b.safetensors_bytes(array))
    pointer = b.write(tmp_path / "pointer", POINTER)
    assert main(["check", str(tmp_path), "--against", str(pointer)]) == 2
    assert "one file" in capsys.readouterr().out
