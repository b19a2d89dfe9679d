"""Targets that are full, may not be written, or are somebody else's; exports that are stopped or meet each other."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ckpt_gui.core import pieces, shards, target_folder, writer
from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.export import Target
from ckpt_gui.core.formats import open_checkpoint
from ckpt_gui.core.normalise import understand
from ckpt_gui.core.retarget import retarget
from ckpt_gui.core.writer import write_export
from tests.core import models

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="mounts, limits and signals are of another kind there")
SAMPLE = Path(__file__).resolve().parents[2] / "resources" / "sample" / "tiny-llama-compiled.pt"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return models.save(tmp_path / "in", models.state("meta"), name="consolidated.00.pth", params=models.params())


def export_to(source: Path, out: Path, **options: Any) -> None:
    with open_checkpoint(source) as opened:
        write_export(retarget(understand(opened), Target("hf")), out, **options)


def hashes(folder: Path) -> dict[str, str]:
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in folder.iterdir() if p.is_file()}


@contextlib.contextmanager
def mounted(place: Path, *words: str) -> Iterator[Path]:
    place.mkdir()
    if shutil.which("mount") is None:
        pytest.skip("there is no mount here")
    done = subprocess.run(["mount", *words, str(place)], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"nothing can be mounted here: {done.stderr.strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)


@pytest.mark.case(91)
def test_a_source_that_is_mounted_elsewhere_is_the_source(folder: Path, tmp_path: Path) -> None:
    before = hashes(folder)
    with mounted(tmp_path / "other", "--bind", str(folder)) as other:
        for target in (other, other / "out"):
            with pytest.raises(CheckpointError, match="nothing is written over a source"):
                export_to(folder, target, overwrite=True)
    assert hashes(folder) == before


@pytest.mark.case(92)
def test_a_snapshot_of_the_cache_keeps_its_blobs(folder: Path, tmp_path: Path) -> None:
    cache = tmp_path / "models--a--b"
    models.save(cache / "snapshots" / "rev", models.state("hf"), config=models.config())
    (cache / "blobs").mkdir()
    for path in (cache / "snapshots" / "rev").iterdir():
        path.rename(cache / "blobs" / path.name)
        path.symlink_to(Path("../../blobs") / path.name)
    before = hashes(cache / "blobs")
    export_to(folder, cache / "snapshots" / "rev", overwrite=True)
    assert hashes(cache / "blobs") == before
    assert not any(p.is_symlink() for p in (cache / "snapshots" / "rev").iterdir())
    export_to(cache / "snapshots" / "rev", tmp_path / "out")
    (cache / "snapshots" / "link").symlink_to("rev")
    with pytest.raises(CheckpointError, match="symbolic link"):
        export_to(folder, cache / "snapshots" / "link", overwrite=True)


@pytest.mark.case(93)
def test_targets_that_can_not_be_written(folder: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for target in (Path("/dev/full"), Path("/dev/null/x"), tmp_path / "pipe", folder / "consolidated.00.pth"):
        with pytest.raises(CheckpointError) as caught:
            export_to(folder, target)
        assert caught.value.code == "target-refused"
    assert sorted(os.listdir(tmp_path)) == ["in", "pipe"]


@pytest.mark.case(93)
def test_a_read_only_disk(folder: Path, tmp_path: Path) -> None:
    with mounted(tmp_path / "disk", "-t", "tmpfs", "-o", "ro", "tmpfs") as disk:
        with pytest.raises(CheckpointError) as caught:
            export_to(folder, disk / "deep" / "out")
        assert caught.value.code == "target-refused"
        assert os.listdir(disk) == []


@pytest.mark.case(94)
@pytest.mark.parametrize("checked", [True, False], ids=["known before", "met while writing"])
def test_a_disk_that_is_full(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, checked: bool) -> None:
    monkeypatch.setattr(target_folder, "MARGIN", 1 << 20)
    with mounted(tmp_path / "disk", "-t", "tmpfs", "-o", "size=48k", "tmpfs") as disk:
        (disk / "out").mkdir()
        (disk / "out" / "note.txt").write_text("what was here before")
        if not checked:
            monkeypatch.setattr(writer, "check_target", lambda *_, **__: None)
        with pytest.raises(CheckpointError, match=r"iB are needed.*are free") as caught:
            export_to(folder, disk / "out", overwrite=True)
        assert caught.value.code == "target-refused"
        assert os.listdir(disk) == ["out"]
        assert (disk / "out" / "note.txt").read_text() == "what was here before"


LIMITED = """
import resource, signal, sys
from pathlib import Path
from ckpt_gui.core.errors import CheckpointError
from tests.core.test_target_faults import export_to
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
try:
    export_to(Path(sys.argv[1]), Path(sys.argv[2]))
except CheckpointError as error:
    print(error.code, error.message)
"""


def child(script: str, *words: object, **options: Any) -> subprocess.CompletedProcess[str]:
    words = (sys.executable, "-c", script, *map(str, words))
    return subprocess.run(words, capture_output=True, text=True, timeout=300, check=False, **options)


@pytest.mark.case(94)
def test_a_limit_on_the_size_of_files(folder: Path, tmp_path: Path) -> None:
    done = child(LIMITED, folder, tmp_path / "out")
    assert done.stdout.startswith("target-refused"), done.stderr
    assert "are needed" in done.stdout
    assert os.listdir(tmp_path) == ["in"]


CALLS = ("mkdir", "posix_fallocate", "pwrite", "fsync", "rename")


@pytest.mark.case(94, 97)
@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
def test_every_call_of_an_export_may_fail(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, code: int
) -> None:
    """One after another, each call of that name fails once; nothing is left, and the failure is told."""
    monkeypatch.setattr(pieces, "BLOCK", 8192)
    real = getattr(os, name)
    for number in range(1, 1000):
        left = number

        def failing(*args: Any, **options: Any) -> Any:
            nonlocal left
            left -= 1
            if not left:
                raise OSError(code, os.strerror(code))
            return real(*args, **options)

        monkeypatch.setattr(os, name, failing)
        try:
            export_to(folder, tmp_path / "deep" / "out", workers=1)
        except CheckpointError as error:
            assert error.code == "target-refused"  # noqa: PT017 - the last round goes through
            if (tmp_path / "deep").exists():  # the last sync failed, of the folder above: all is there, and was told
                assert (name, os.listdir(tmp_path / "deep")) == ("fsync", ["out"])
                break
            assert os.listdir(tmp_path) == ["in"]
        else:
            assert left > 0
            break
    assert number > 1


@pytest.mark.case(97)
def test_the_order_of_calls(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log: list[tuple[str, str]] = []

    def named(fd: int) -> str:
        path = Path(os.readlink(f"/proc/self/fd/{fd}"))
        return path.name.split("-", 1)[-1] if path.is_file() else "part" if path.name.endswith(".part") else "above"

    def watch(name: str, of: Any) -> None:
        real = getattr(os, name)
        monkeypatch.setattr(os, name, lambda *args, **kw: log.append((name, of(*args))) or real(*args, **kw))

    watch("pwrite", lambda fd, *_: named(fd))
    watch("fsync", lambda fd: named(fd))
    watch("rename", lambda _, to: Path(to).name)
    watch("replace", lambda _, to: Path(to).name)
    real = shards.verify
    monkeypatch.setattr(shards, "verify", lambda *args: log.append(("verify", "")) or real(*args))
    export_to(folder, tmp_path / "out", workers=1)
    steps = [step for i, step in enumerate(log) if step not in log[:i]]
    small = {"config.json", "generation_config.json", "EXPORT_REPORT.json"}
    steps = [step for step in steps if step[1] not in small]
    assert steps == [
        ("pwrite", "model.safetensors"),
        ("fsync", "model.safetensors"),
        ("verify", ""),
        ("replace", "model.safetensors"),
        ("fsync", "part"),
        ("rename", "out"),
        ("fsync", "above"),
    ]
    names = [name for name, _ in log]
    assert names.index("verify") > max(i for i, name in enumerate(names) if name == "pwrite")


@pytest.mark.case(98)
def test_replaced_files_keep_their_modes(folder: Path, tmp_path: Path) -> None:
    export_to(folder, tmp_path / "out")
    (tmp_path / "out").chmod(0o750)
    (tmp_path / "out" / "model.safetensors").chmod(0o640)
    (tmp_path / "out" / "config.json").unlink()
    old = os.umask(0o022)
    try:
        export_to(folder, tmp_path / "out", overwrite=True)
    finally:
        os.umask(old)
    modes = {p.name: stat.S_IMODE(p.stat().st_mode) for p in [tmp_path / "out", *(tmp_path / "out").iterdir()]}
    assert (modes["out"], modes["model.safetensors"], modes["config.json"]) == (0o750, 0o640, 0o644)


TOGETHER = """
import sys, time
from pathlib import Path
from ckpt_gui.core import writer
from ckpt_gui.core.errors import CheckpointError
from tests.core.test_target_faults import export_to
source, out, number, overwrite = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], sys.argv[4] == "True"
real = writer.commit
def commit(*args, **options):
    (out.parent / f"ready{number}").touch()
    while not (out.parent / f"ready{1 - int(number)}").exists():
        time.sleep(0.001)
    real(*args, **options)
writer.commit = commit
writer.refuse_busy = lambda target: None  # as if both had looked at the same moment
try:
    export_to(source, out, overwrite=overwrite)
    print("written")
except CheckpointError as error:
    print(error.code, error.message)
"""


@pytest.mark.case(99)
@pytest.mark.parametrize("overwrite", [False, True])
def test_two_exports_to_one_target(folder: Path, tmp_path: Path, overwrite: bool) -> None:
    words = [sys.executable, "-c", TOGETHER, str(folder), str(tmp_path / "out")]
    both = [subprocess.Popen([*words, n, str(overwrite)], stdout=subprocess.PIPE, text=True) for n in "01"]
    told = sorted(p.communicate(timeout=300)[0].strip() for p in both)
    assert told[1] == "written"
    assert ("put in place" if overwrite else "filled") + " by another program" in told[0]
    assert models.opened(tmp_path / "out") == models.as_bytes(models.state("hf"))
    assert json.loads((tmp_path / "out" / "EXPORT_REPORT.json").read_text())
    assert sorted(os.listdir(tmp_path)) == ["in", "out", "ready0", "ready1"]


STOPPED = """
import os, signal, sys
from ckpt_gui.cli.main import main
from ckpt_gui.core import fill, pieces, plain_copy
signal.signal(int(sys.argv[4]), signal.SIG_DFL)  # the tests may run under nohup
pieces.BLOCK = 8192
real, left = plain_copy.pwrite, int(sys.argv[3])
def pwrite(*args):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), int(sys.argv[4]))
    real(*args)
fill.pwrite = plain_copy.pwrite = pwrite
sys.exit(main(["fix", sys.argv[1], "-o", sys.argv[2], "--to", "hf"]))
"""


@pytest.mark.case(96)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP], ids=["TERM", "INT", "HUP"])
@pytest.mark.parametrize("block", [1, 40])
def test_a_signal_leaves_nothing(tmp_path: Path, number: int, block: int) -> None:
    done = child(STOPPED, SAMPLE, tmp_path / "out", block, int(number))
    assert done.returncode == 130, done.stderr
    assert os.listdir(tmp_path) == []
