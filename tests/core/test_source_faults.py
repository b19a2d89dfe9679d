"""Sources that are cut, change, vanish or fail while they are opened, measured and exported."""

from __future__ import annotations

import contextlib
import errno
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.export import Target
from ckpt_gui.core.formats import files, open_checkpoint
from ckpt_gui.core.formats.verify import verify_checksums
from ckpt_gui.core.normalise import understand
from ckpt_gui.core.retarget import retarget
from ckpt_gui.core.stats import tensor_stats
from ckpt_gui.core.writer import write_export
from tests import builders
from tests.core import models

NAMES = ("model.safetensors", "consolidated.00.pth")
Read = Callable[[int, memoryview], None]


@pytest.fixture(params=NAMES)
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    layout = "hf" if request.param == NAMES[0] else "meta"
    return models.save(tmp_path / "in", models.state(layout), name=request.param, config=models.config())


@pytest.fixture
def at_read(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, Callable[[], None]], list[int]]:
    """Do something right before the n-th read of any file; the list counts the reads."""

    def install(number: int, act: Callable[[], None]) -> list[int]:
        real, seen = files.HeldFile.pread_into, [0]

        def pread_into(self: Any, offset: int, out: memoryview) -> None:
            seen[0] += 1
            if seen[0] == number:
                act()
            real(self, offset, out)

        monkeypatch.setattr(files.HeldFile, "pread_into", pread_into)
        return seen

    return install


def weights(folder: Path) -> Path:
    return next(p for p in folder.iterdir() if p.name in NAMES)


def cut(folder: Path) -> Callable[[], None]:
    return lambda: os.truncate(weights(folder), 10)


@pytest.mark.case(87)
@pytest.mark.parametrize("number", range(1, 9))
def test_cut_while_it_is_opened(folder: Path, at_read: Any, number: int) -> None:
    at_read(number, cut(folder))
    try:
        with open_checkpoint(folder) as source:  # all that it reads may lie before the cut
            assert source.refs
    except CheckpointError as error:
        assert error.code in ("truncated", "damaged", "shard-missing")  # noqa: PT017 - opening is one of both


@pytest.mark.case(87)
def test_cut_while_it_is_measured(folder: Path, at_read: Any) -> None:
    with open_checkpoint(folder) as source:
        at_read(3, cut(folder))
        first, *others = (ref for ref in source.refs if ref.numel > 100)
        for ref in (first, *others[:3]):
            with contextlib.suppress(CheckpointError):  # the first ones are read before the cut
                tensor_stats(source, ref)
        with pytest.raises(CheckpointError, match="shrank"):
            tensor_stats(source, first)
        found = verify_checksums(source)
        assert "changed since it was opened" in next(f.message for f in found if f.code == "damaged")


@pytest.mark.case(87, 100)
@pytest.mark.parametrize("how", ["cut", "written over", "replaced", "deleted", "grown"])
@pytest.mark.parametrize("number", [1, 17, 40])
def test_changed_while_it_is_exported(folder: Path, tmp_path: Path, at_read: Any, how: str, number: int) -> None:
    path = weights(folder)
    info = path.stat()

    def act() -> None:
        if how == "cut":
            os.truncate(path, info.st_size // 2)
        elif how == "replaced":
            (tmp_path / "new").write_bytes(bytes(info.st_size))
            os.replace(tmp_path / "new", path)
        elif how == "deleted":
            path.unlink()
        else:
            with path.open("ab" if how == "grown" else "r+b") as file:
                file.write(b"x" * 100)
            builders.set_back(path, info)

    source = open_checkpoint(folder)
    with source:
        export = retarget(understand(source), Target("hf"))
        at_read(number, act)
        with pytest.raises(CheckpointError) as caught:
            write_export(export, tmp_path / "out")
    assert caught.value.code in ("truncated", "damaged", "crc-mismatch")
    assert set(os.listdir(tmp_path)) <= {"in", "new"}


@pytest.mark.case(88)
def test_a_replaced_file_is_read_to_the_end_and_noticed(folder: Path, tmp_path: Path) -> None:
    with open_checkpoint(folder) as source:
        before = {ref.key: source.read(ref) for ref in source.refs}
        assert not [f for f in verify_checksums(source) if f.severity == "error"]
        (tmp_path / "new").write_bytes(bytes(100))
        os.replace(tmp_path / "new", weights(folder))
        assert {ref.key: source.read(ref) for ref in source.refs} == before
        [found] = [f for f in verify_checksums(source) if f.severity == "error"]
        assert "changed since it was opened" in found.message


@pytest.mark.case(90)
def test_an_error_of_the_disk_names_one_tensor_and_the_others_go_on(folder: Path, monkeypatch: Any) -> None:
    with open_checkpoint(folder) as source:
        bad = source.refs[5]
        reader = source.readers[bad.file]
        at, size = reader.region(bad)  # type: ignore[attr-defined]
        real = files.HeldFile.pread_into

        def failing(self: Any, offset: int, out: memoryview) -> None:
            if offset < at + size and offset + len(out) > at:
                raise files.explain_os_error(OSError(errno.EIO, "Input/output error"), self.path)
            real(self, offset, out)

        monkeypatch.setattr(files.HeldFile, "pread_into", failing)
        for ref in source.refs:
            if ref is bad:
                with pytest.raises(CheckpointError, match="the disk reports"):
                    tensor_stats(source, ref)
            else:
                assert tensor_stats(source, ref).count == ref.numel
        if reader.__class__.__name__ == "TorchZipReader":
            assert [f.keys for f in verify_checksums(source) if f.code == "crc-mismatch"] == [(bad.key,)]


AS_NOBODY = """
import os, sys
from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.formats import open_checkpoint
if os.getuid() == 0:
    os.setuid(65534)
try:
    open_checkpoint(sys.argv[1])
except CheckpointError as error:
    print(error.code, error.message)
"""


@pytest.mark.case(89)
@pytest.mark.skipif(sys.platform == "win32", reason="permissions are of another kind there")
@pytest.mark.parametrize("closed", ["file", "folder"])
def test_a_file_that_may_not_be_read(closed: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = builders.write(Path(folder) / "x.bin", builders.safetensors_bytes({"a": np.zeros(1, np.float32)}))
        path.chmod(0 if closed == "file" else 0o644)
        path.parent.chmod(0o755 if closed == "file" else 0)
        done = subprocess.run([sys.executable, "-c", AS_NOBODY, str(path)], capture_output=True, text=True, check=False)
        path.parent.chmod(0o700)
    assert done.stdout.startswith("not-a-checkpoint"), done.stderr
    assert "permission denied" in done.stdout


@pytest.mark.case(89)
def test_a_name_of_255_bytes_and_one_that_is_too_long(tmp_path: Path) -> None:
    data = builders.safetensors_bytes({"a": np.zeros(1, np.float32)}, {"format": "pt"})
    with open_checkpoint(builders.write(tmp_path / ("x" * 243 + ".safetensors"), data)) as source:
        assert source.problems == ()
    with pytest.raises(CheckpointError):
        open_checkpoint(tmp_path / ("x" * 300))
