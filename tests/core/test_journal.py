"""An interrupted export goes on: what is whole is kept, everything else is done again, and another export is told."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ckpt_gui.core import shards
from ckpt_gui.core.errors import Cancelled, CheckpointError
from ckpt_gui.core.export import Target
from ckpt_gui.core.formats import open_checkpoint
from ckpt_gui.core.journal import NAME, interrupted, read_journal
from ckpt_gui.core.leftovers import leftovers
from ckpt_gui.core.normalise import understand
from ckpt_gui.core.retarget import retarget
from ckpt_gui.core.writer import WriteResult, can_resume, write_export
from tests.core import models

SHARD = 20_000


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return models.save(tmp_path / "in", models.state("meta"), name="consolidated.00.pth", config=models.config())


def export_to(folder: Path, out: Path, target: Target | None = None, **options: Any) -> WriteResult:
    with open_checkpoint(folder) as source:
        export = retarget(understand(source), target or Target("hf", max_shard_bytes=SHARD))
        return write_export(export, out, **options)


def stop_at(number: int, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[str]]:
    """Make the file of that number fail; return what says which files were written."""
    real, names = shards.fill_file, []

    def fill(path: Path, file: Any, *rest: Any) -> Any:
        names.append(file.name)
        if len(names) == number:
            raise Cancelled
        return real(path, file, *rest)

    monkeypatch.setattr(shards, "fill_file", fill)
    return lambda: names


def held(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def begun(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An export that was stopped in its third file; its leftover."""
    with monkeypatch.context() as patch:
        stop_at(3, patch)
        with pytest.raises(Cancelled):
            export_to(folder, tmp_path / "out", resume=True)
    [left] = leftovers(tmp_path)
    assert not left.runs
    assert sorted(p.name[:11] for p in left.path.iterdir()) == [NAME[:11], "model-00001", "model-00002"]
    return left.path


def test_whole_files_are_kept(begun: Path, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = stop_at(0, monkeypatch)
    told: list[tuple[int, int]] = []
    result = export_to(folder, tmp_path / "out", resume=True, progress=lambda _, *now: told.append(now))
    assert result.resumed == 2
    assert names()[0][:11] == "model-00003"
    assert told[-1][0] == told[-1][1]
    export_to(folder, tmp_path / "anew")
    assert held(tmp_path / "out") == held(tmp_path / "anew")
    assert sorted(os.listdir(tmp_path)) == ["anew", "in", "out"]
    assert result.verified == result.tensors == 30


@pytest.mark.parametrize("spoil", ["flip", "cut", "gone"])
def test_a_file_that_is_not_as_it_was_is_written_anew(
    begun: Path, folder: Path, tmp_path: Path, spoil: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = next(p for p in begun.iterdir() if p.name.startswith("model-00002"))
    raw = bytearray(path.read_bytes())
    raw[-3] ^= 1
    if spoil == "gone":
        path.unlink()
    else:
        path.write_bytes(raw if spoil == "flip" else raw[:-3])
    names = stop_at(0, monkeypatch)
    assert export_to(folder, tmp_path / "out", resume=True).resumed == 1
    assert names()[0] == path.name
    assert models.opened(tmp_path / "out") == models.as_bytes(models.state("hf"))


def test_what_is_no_whole_file_is_removed(begun: Path, folder: Path, tmp_path: Path) -> None:
    (begun / ".0a1b-model-00003-of-00009.safetensors").write_bytes(b"half")
    (begun / "config.json").write_text("{}")
    (begun / "folder").mkdir()
    with (begun / NAME).open("a") as file:
        file.write('{"job": "cut sho')
    export_to(folder, tmp_path / "out", resume=True)
    assert not any(name.startswith(".") or name == "folder" for name in os.listdir(tmp_path / "out"))
    assert json.loads((tmp_path / "out" / "config.json").read_text())["model_type"] == "llama"


def test_another_plan_is_refused(begun: Path, folder: Path, tmp_path: Path) -> None:
    other = Target("hf", dtype="fp16", max_shard_bytes=SHARD)
    with pytest.raises(CheckpointError, match="another export of this source") as caught:
        export_to(folder, tmp_path / "out", other, resume=True)
    assert "leave out --resume" in str(caught.value.fix)
    assert begun.exists()
    with open_checkpoint(folder) as source:
        plan = understand(source)
        assert not can_resume(retarget(plan, other), tmp_path / "out")
        assert can_resume(retarget(plan, Target("hf", max_shard_bytes=SHARD)), tmp_path / "out")
    export_to(folder, tmp_path / "out", other)  # anew
    assert begun.exists()


def test_a_changed_source_is_refused(begun: Path, folder: Path, tmp_path: Path) -> None:
    os.utime(folder / "consolidated.00.pth", ns=(5, 5))
    with pytest.raises(CheckpointError, match="has changed since"):
        export_to(folder, tmp_path / "out", resume=True)
    assert begun.exists()


def test_a_source_whose_time_was_set_back_is_refused(begun: Path, folder: Path, tmp_path: Path) -> None:
    path = folder / "consolidated.00.pth"
    before = path.stat()
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 1
    path.write_bytes(raw)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    with pytest.raises(CheckpointError, match="has changed since"):
        export_to(folder, tmp_path / "out", resume=True)
    assert begun.exists()


def test_nothing_to_resume_is_no_fault(folder: Path, tmp_path: Path) -> None:
    assert export_to(folder, tmp_path / "out", resume=True).resumed == 0
    assert sorted(os.listdir(tmp_path)) == ["in", "out"]


def test_without_the_wish_nothing_is_left(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stop_at(3, monkeypatch)
    with pytest.raises(Cancelled):
        export_to(folder, tmp_path / "out")
    assert os.listdir(tmp_path) == ["in"]


@pytest.mark.parametrize("text", ["", "{}", "no json", '{"schema": 9}', "[]", '{"schema": 1, "target": "x"}'])
def test_a_journal_that_is_none(begun: Path, tmp_path: Path, text: str) -> None:
    (begun / NAME).write_text(text)
    [left] = leftovers(tmp_path)
    assert read_journal(left) is None
    assert interrupted(tmp_path / "out") is None


KILLED = """
import os, signal, sys
from ckpt_gui.core import shards
from tests.core.test_journal import export_to
from pathlib import Path
real, left = shards.fill_file, int(sys.argv[3])
def fill(path, file, *rest):
    global left
    left -= 1
    if not left:
        path.write_bytes(b"half")
        os.kill(os.getpid(), signal.SIGKILL)
    return real(path, file, *rest)
shards.fill_file = fill
export_to(Path(sys.argv[1]), Path(sys.argv[2]))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
def test_a_killed_export_goes_on(folder: Path, tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, folder, tmp_path / "out", "4"], check=False)
    assert done.returncode == -9
    assert export_to(folder, tmp_path / "out", resume=True).resumed == 3
    assert models.opened(tmp_path / "out") == models.as_bytes(models.state("hf"))
    assert sorted(os.listdir(tmp_path)) == ["in", "out"]
