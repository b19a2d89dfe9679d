"""Tensors that stay as they are: shared by the system, in the place for it, with holes left holes."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

from ckpt_gui.core import fill, pieces, plain_copy
from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.export import Target
from ckpt_gui.core.formats import files, open_checkpoint
from ckpt_gui.core.formats.safetensors import layout
from ckpt_gui.core.normalise import understand
from ckpt_gui.core.out_files import plan_files
from ckpt_gui.core.retarget import retarget
from ckpt_gui.core.room import room_for
from ckpt_gui.core.tensors import TensorSpec
from ckpt_gui.core.writer import WriteResult, write_export
from tests import builders
from tests.core import models
from tests.core.test_writer import damaged

pytestmark = pytest.mark.skipif(not hasattr(os, "copy_file_range"), reason="the system copies nothing")


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "BLOCK", 512)
    monkeypatch.setattr(pieces, "PIECE", 4096)
    monkeypatch.setattr(fill, "LARGE", 1024)
    monkeypatch.setattr(plain_copy, "LARGE", 1024)
    monkeypatch.setattr(plain_copy, "_STRIDE", 4096)


def export_to(path: Path, out: Path, target: Target) -> WriteResult:
    with open_checkpoint(path) as source:
        return write_export(retarget(understand(source), target), out)


def data_start(path: Path) -> int:
    return 8 + int.from_bytes(path.read_bytes()[:8], "little")


def aligned(tensors: dict[str, np.ndarray]) -> bytes:
    """Return a file whose data begins at a multiple of 8, as all but a few writers have it."""
    raw = builders.safetensors_bytes(tensors, {"format": "pt"})
    start = 8 + int.from_bytes(raw[:8], "little")
    header = raw[8:start] + b" " * (-start % 8)
    return len(header).to_bytes(8, "little") + header + raw[start:]


def test_a_damaged_record_is_told_though_it_is_copied_as_it_is(tmp_path: Path) -> None:
    source = models.save(tmp_path / "in", models.state("meta"), name="consolidated.00.pth", config=models.config())
    damaged(source / "consolidated.00.pth", "archive/data/0")
    with pytest.raises(CheckpointError) as caught:
        export_to(source, tmp_path / "out", Target("hf"))
    assert caught.value.code == "crc-mismatch"
    assert os.listdir(tmp_path) == ["in"]


def test_the_header_is_padded_to_keep_the_place_in_a_block(tmp_path: Path) -> None:
    tensors = {
        "model.a.weight": np.arange(4096, dtype=np.float32),
        "model.b.weight": np.arange(8192, 4096 + 8192, dtype=np.float32),
    }
    folder = tmp_path / "in"
    folder.mkdir()
    wrapped = {f"_orig_mod.{key}": value for key, value in tensors.items()}
    path = builders.write(folder / "model.safetensors", aligned(wrapped))
    export_to(folder, tmp_path / "out", Target("same"))
    made = tmp_path / "out" / "model.safetensors"
    before, after = data_start(path), data_start(made)
    assert len(aligned(tensors)) < path.stat().st_size  # unpadded it would begin elsewhere
    assert (after - before) % 4096 == 0
    assert after % 8 == 0
    assert after - before < 4096 + 64
    assert models.opened(tmp_path / "out") == models.as_bytes(tensors)
    header = made.read_bytes()[8:after]
    assert set(json.loads(header)) == {*tensors, "__metadata__"}


def test_the_header_is_moved_as_most_bytes_want_it() -> None:
    specs = [TensorSpec("a", "fp32", (1024,)), TensorSpec("b", "fp32", (2048,)), TensorSpec("c", "fp32", (16,))]
    plain = layout(specs, {})
    moved = layout(specs, {}, {"a": 4096 + 8, "b": 8192 + 16, "c": 3})
    assert moved.offsets["b"] % 4096 == 16
    assert moved.nbytes - plain.nbytes == moved.offsets["a"] - plain.offsets["a"] < 4096
    assert layout(specs, {}, {"a": 3}).offsets == plain.offsets  # data begins at a multiple of 8


@pytest.mark.skipif(not hasattr(os, "SEEK_DATA"), reason="the system knows no holes")
def test_holes_stay_holes(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    data = builders.safetensors_bytes({"w": np.zeros(1 << 20, dtype=np.float32)}, {"format": "pt"})
    start = 8 + int.from_bytes(data[:8], "little")
    with (folder / "model.safetensors").open("wb") as file:
        file.write(data[:start])
        file.truncate(len(data))
        file.seek(len(data) - 5)
        file.write(b"ends.")
    info = os.stat(folder / "model.safetensors")
    if info.st_blocks * 512 > info.st_size // 2:
        pytest.skip("this file system makes no holes")
    export_to(folder, tmp_path / "out", Target("same"))
    made = tmp_path / "out" / "model.safetensors"
    assert made.read_bytes()[-len(data) + start :] == (folder / "model.safetensors").read_bytes()[start:]
    assert made.stat().st_blocks <= info.st_blocks + 16


def test_a_clone_copies_what_fills_no_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole blocks are shared where source and target lie alike in them; here the system is played."""
    folder = tmp_path / "in"
    folder.mkdir()
    tensors = {"w": np.arange(5000, dtype=np.float32)}
    path = builders.write(folder / "model.safetensors", aligned(tensors))
    shared = []

    def clone(file: files.HeldFile, offset: int, count: int, fd: int, place: int) -> bool:
        assert (offset % 4096, count % 4096, place % 4096) == (0, 0, 0)
        shared.append(count)
        return os.pwrite(fd, file.read(offset, count), place) == count

    monkeypatch.setattr(files.HeldFile, "clone_to", clone)
    result = export_to(folder, tmp_path / "out", Target("same"))
    assert models.opened(tmp_path / "out") == models.as_bytes(tensors)
    assert shared == [3 * 4096]
    assert result.shared == tensors["w"].nbytes
    assert path.stat().st_size > result.shared


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="the system takes no room beforehand")
def test_room_is_taken_after_what_is_shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """btrfs keeps all of the room that was taken for a file while its header uses a little of it."""
    folder = tmp_path / "in"
    folder.mkdir()
    builders.write(folder / "model.safetensors", aligned({"w": np.arange(5000, dtype=np.float32)}))
    done = []

    def clone(file: files.HeldFile, offset: int, count: int, fd: int, place: int) -> bool:
        done.append("share")
        return os.pwrite(fd, file.read(offset, count), place) == count

    monkeypatch.setattr(files.HeldFile, "clone_to", clone)
    monkeypatch.setattr(os, "posix_fallocate", lambda fd, at, nbytes: done.append("take"))
    export_to(folder, tmp_path / "out", Target("same"))
    assert done == ["share", "take"]


def test_a_disk_is_not_full_for_what_takes_no_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where blocks are shared, here by a played system, only the header and the last bytes need room."""
    folder = tmp_path / "in"
    folder.mkdir()
    builders.write(folder / "model.safetensors", aligned({"w": np.arange(1 << 16, dtype=np.float32)}))
    monkeypatch.setattr(files.HeldFile, "clone_to", lambda *_: True)
    nbytes = (folder / "model.safetensors").stat().st_size
    with open_checkpoint(folder) as source:
        made, _ = plan_files(retarget(understand(source), Target("same")))
        plenty = room_for(made, source, tmp_path / "out")
        monkeypatch.setattr("ckpt_gui.core.room.free_bytes", lambda _: 0)
        scarce = room_for(made, source, tmp_path / "out")
        monkeypatch.setattr(files.HeldFile, "clone_to", lambda *_: False)
        unshared = room_for(made, source, tmp_path / "out")
    assert nbytes <= plenty == unshared < nbytes + 4096
    assert scarce == plenty - (1 << 18)
    assert os.listdir(tmp_path) == ["in"]


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="the system reserves no room")
def test_no_room_is_reserved_for_what_is_shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """XFS wants room for all of a range that is asked for, whatever of it is there."""
    folder = tmp_path / "in"
    folder.mkdir()
    tensors = {"a": np.arange(5000, dtype=np.float32), "b": np.arange(3000, dtype=np.float32)}
    builders.write(folder / "model.safetensors", aligned(tensors))
    monkeypatch.setattr(files.HeldFile, "clone_to", lambda file, offset, count, fd, place: os.pwrite(
        fd, file.read(offset, count), place) == count)  # fmt: skip
    asked = []
    monkeypatch.setattr(os, "posix_fallocate", lambda _, start, count: asked.append((start, count)))
    export_to(folder, tmp_path / "out", Target("same"))
    assert asked == [(0, data_start(tmp_path / "out" / "model.safetensors"))]
    assert models.opened(tmp_path / "out") == models.as_bytes(tensors)
