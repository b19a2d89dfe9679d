"""Held files: few descriptors, and a change underneath is told."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest

from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.formats import files
from ckpt_gui.core.formats.files import HeldFile
from tests import builders as b


@pytest.fixture
def path(tmp_path):
    return b.write(tmp_path / "f", bytes(range(200)))


def test_read(path):
    file = HeldFile(path)
    assert file.read(10, 5) == bytes(range(10, 15))
    out = bytearray(3)
    file.pread_into(100, memoryview(out))
    assert out == bytes([100, 101, 102])
    file.check_unchanged()
    file.close()
    assert file.read(0, 1) == b"\0"


def test_past_the_end(path):
    with pytest.raises(CheckpointError) as caught:
        HeldFile(path).read(190, 20)
    assert caught.value.code == "truncated"


@pytest.mark.case(87)
def test_shrinks_while_open(path):
    file = HeldFile(path)
    os.truncate(path, 50)
    with pytest.raises(CheckpointError, match="shrank while being read") as caught:
        file.read(40, 20)
    assert caught.value.code == "truncated"


@pytest.mark.case(88)
@pytest.mark.parametrize("how", ["write", "replace", "delete"])
def test_changes_are_noticed(path, tmp_path, how):
    was, file = path.stat(), HeldFile(path)
    if how == "write":
        path.write_bytes(bytes(200))
        b.set_back(path, was)
    elif how == "replace":
        os.replace(b.write(tmp_path / "g", bytes(200)), path)
    else:
        path.unlink()
    with pytest.raises(CheckpointError):
        file.check_unchanged()


@pytest.mark.case(88)
def test_a_replaced_file_is_not_opened_again(path, tmp_path):
    file = HeldFile(path)
    os.replace(b.write(tmp_path / "g", bytes(200)), path)
    assert file.read(1, 1) == b"\1"  # the old file is still held
    file.close()
    with pytest.raises(CheckpointError, match="changed since"):
        file.read(1, 1)


def test_few_descriptors(tmp_path, monkeypatch):
    monkeypatch.setattr(files._POOL, "limit", 3)
    held = [HeldFile(b.write(tmp_path / str(i), bytes([i]))) for i in range(20)]
    threads = [threading.Thread(target=lambda: [f.read(0, 1) for f in held]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [f.read(0, 1)[0] for f in held] == list(range(20))
    assert sum(f is not None for f in files._POOL._open.values()) <= 20
    held[0].read(0, 1)
    assert len(files._POOL._open) <= 3 + 1
    for file in held:
        file.close()


def test_without_pread(path, monkeypatch):
    monkeypatch.delattr(os, "preadv", raising=False)
    assert HeldFile(path).read(10, 5) == bytes(range(10, 15))
    monkeypatch.delattr(os, "pread", raising=False)
    assert HeldFile(path).read(10, 5) == bytes(range(10, 15))


CHILD = """
import sys, resource
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
from ckpt_gui.core.formats import open_checkpoint
with open_checkpoint(sys.argv[1]) as source:
    assert len({source.read(r) for r in source.refs}) == 1
    print(len(source.refs), sorted(m for m in ("numpy", "torch", "PySide6") if m in sys.modules))
"""


@pytest.mark.case(47)
@pytest.mark.skipif(sys.platform == "win32", reason="no such limit there")
def test_a_thousand_shards_with_64_descriptors_and_without_numpy(tmp_path):
    import numpy as np

    names = {f"k{i}": f"model-{i:05}-of-01000.safetensors" for i in range(1, 1001)}
    for key, name in names.items():
        b.write(tmp_path / name, b.safetensors_bytes({key: np.ones(1, np.float32)}, {"format": "pt"}))
    b.write(tmp_path / "model.safetensors.index.json", b.index_bytes(names))
    done = subprocess.run([sys.executable, "-c", CHILD, str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.stdout == "1000 []\n", done.stderr


def sparse(path, *runs, size):
    """A file of holes, with a byte of data at some places; None where the filesystem keeps no holes."""
    with path.open("wb") as file:
        file.truncate(size)
        for at in runs:
            file.seek(at)
            file.write(b"x")
    held = HeldFile(path)
    return held if held.next_data(0, size) > 0 else None


def test_holes_are_told(tmp_path, monkeypatch):
    file = sparse(tmp_path / "f", 3 << 20, size=8 << 20)
    if file is None:
        pytest.skip("this filesystem keeps no holes")
    begin = file.next_data(0, 8 << 20)
    assert 0 < begin <= 3 << 20
    assert file.next_data(3 << 20, 8 << 20) == 3 << 20
    assert file.next_data(0, 1 << 20) == 1 << 20
    assert file.next_data(5 << 20, 8 << 20) == 8 << 20
    assert file.read(0, 10) == bytes(10)
    os.truncate(file.path, 4 << 20)
    with pytest.raises(CheckpointError, match="shrank while being read"):
        file.next_data(5 << 20, 8 << 20)
    monkeypatch.setattr(files, "_SEEK_DATA", None)
    assert file.next_data(0, 8 << 20) == 0


def test_a_filesystem_without_holes(path, monkeypatch):
    def refuse(*_):
        raise OSError(22, "Invalid argument")

    monkeypatch.setattr(files.os, "lseek", refuse)
    assert HeldFile(path).next_data(7, 200) == 7
