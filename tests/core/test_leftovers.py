"""What killed exports leave: found by name, with size, age and whether anybody still writes to it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.leftovers import abandoned, leftovers, refuse_busy, remove
from ckpt_gui.core.target_folder import machine_mark, staged

DEAD = 99_999_999


def made(folder: Path, name: str, nbytes: int = 0) -> Path:
    path = folder / name
    path.mkdir(parents=True)
    (path / "model.safetensors").write_bytes(bytes(nbytes))
    return path


@pytest.mark.case(95)
def test_only_our_own_names_with_size_and_age(tmp_path: Path) -> None:
    for name in (".ckpt-gui-out", "x.part", "out"):
        (tmp_path / name).mkdir()
    part = made(tmp_path, f".ckpt-gui-my-model-{DEAD}-abcd1234.part", 700)
    old = made(tmp_path, f".ckpt-gui-out-{DEAD}-abcd1234-old.part")
    os.utime(part, (1000, 1000))
    found = {f.path: f for f in leftovers(tmp_path)}
    assert found.keys() == {part, old}
    assert (found[part].nbytes, found[part].modified, found[part].target) == (700, 1000.0, "my-model")
    assert (found[part].runs, found[part].is_old) == (False, False)
    assert (found[old].is_old, found[old].target) == (True, "out")
    assert [f.path for f in leftovers(tmp_path / "absent" / "deep")] == sorted(found)
    assert {f.path for f in abandoned(tmp_path / "new")} == found.keys()


@pytest.mark.case(95)
def test_what_is_in_work_is_left_alone(tmp_path: Path) -> None:
    with staged(tmp_path / "out") as part:
        [found] = leftovers(tmp_path)
        assert (found.path, found.runs) == (part, True)
        assert abandoned(tmp_path / "out") == ()
        with pytest.raises(CheckpointError, match="still being written"):
            remove(found)
        assert part.is_dir()


@pytest.mark.case(95)
@pytest.mark.skipif(not Path("/proc/self").exists(), reason="the age of a process is read from /proc")
def test_a_number_that_was_given_out_again(tmp_path: Path) -> None:
    part = made(tmp_path, f".ckpt-gui-out-{os.getpid()}-abcd1234.part")
    os.utime(part, (1000, 1000))  # long before this process began
    [found] = leftovers(tmp_path)
    assert not found.runs


@pytest.mark.case(95)
@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
def test_of_a_killed_process_they_can_be_removed(tmp_path: Path) -> None:
    words = "import sys, os, pathlib; from ckpt_gui.core.target_folder import staged\n"
    words += "with staged(pathlib.Path(sys.argv[1])) as part: (part / 'x').write_text('x'); os.kill(os.getpid(), 9)"
    assert subprocess.run([sys.executable, "-c", words, str(tmp_path / "out")], check=False).returncode == -9
    [found] = abandoned(tmp_path / "out")
    assert (found.nbytes, found.target) == (1, "out")
    assert time.time() - found.modified < 3600
    remove(found)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the state of a process is read from /proc")
def test_a_killed_process_that_nobody_has_taken_note_of_runs_no_more(tmp_path: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    made(tmp_path, f".ckpt-gui-out-{child.pid}-{machine_mark()}abc123.part")
    assert leftovers(tmp_path)[0].runs
    child.kill()
    while Path(f"/proc/{child.pid}/stat").read_text().split()[2] != "Z":
        time.sleep(0.01)
    assert not leftovers(tmp_path)[0].runs, "it is a zombie: it is not waited for yet"
    child.communicate()
    assert not leftovers(tmp_path)[0].runs


def test_of_another_machine_nobody_can_tell_but_by_what_is_written(tmp_path: Path) -> None:
    part = made(tmp_path, f".ckpt-gui-out-{DEAD}-{'0' * 6}abc123.part", 8)
    [found] = leftovers(tmp_path)
    assert (found.runs, found.process) == (True, str(DEAD))
    for path in (part / "model.safetensors", part):
        os.utime(path, (1000, 1000))
    assert not leftovers(tmp_path)[0].runs
    os.utime(part / "model.safetensors")
    assert leftovers(tmp_path)[0].runs, "a file of it grows"


def test_two_exports_do_not_go_to_one_folder(tmp_path: Path) -> None:
    refuse_busy(tmp_path / "out")
    refuse_busy(tmp_path / "absent" / "out")
    with staged(tmp_path / "out"):
        refuse_busy(tmp_path / "other")
        with pytest.raises(CheckpointError, match=f"by another export .process {os.getpid()}"):
            refuse_busy(tmp_path / "out")
    refuse_busy(tmp_path / "out")
