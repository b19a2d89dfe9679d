"""An export that is killed: the target is absent, old, or new and whole; at most a hidden sibling is left."""

from __future__ import annotations

import contextlib
import hashlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ckpt_gui.core.formats import open_checkpoint
from ckpt_gui.core.leftovers import leftovers
from ckpt_gui.core.normalise import understand

SAMPLE = Path(__file__).resolve().parents[2] / "resources" / "sample" / "tiny-llama-compiled.pt"

# Counts every call that changes the disk, and dies without warning at the one that is asked for. One process is warmed
# up and forks for each line of its input, which is quicker than to start as many.
SCRIPT = """
import os, signal, sys
from ckpt_gui.core import pieces
from ckpt_gui.core.formats import open_checkpoint
from ckpt_gui.core.normalise import understand
from ckpt_gui.core.export import Target
from ckpt_gui.core.retarget import retarget
from ckpt_gui.core.writer import write_export

source, target, shard = sys.argv[1:4]
pieces.BLOCK = 8192
calls = point = 0

def dying(name):
    real = getattr(os, name)
    def call(*args, **options):
        global calls
        calls += 1
        if calls == point:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*args, **options)
    return call

for name in ("mkdir", "posix_fallocate", "pwrite", "fsync", "rename", "unlink", "rmdir"):
    if hasattr(os, name):
        setattr(os, name, dying(name))
for line in sys.stdin:
    point = int(line)
    child = os.fork()
    if not child:
        with open_checkpoint(source) as opened:
            export = retarget(understand(opened), Target("hf", max_shard_bytes=int(shard)))
            write_export(export, target, overwrite=True, workers=1)
        print(calls, flush=True)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        print(-os.WTERMSIG(status), flush=True)
    elif status:
        sys.exit("the export failed")
"""

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL and no fork")


@contextlib.contextmanager
def exporter(target: Path, shard: int) -> Iterator[Callable[[int], int]]:
    """Yield what exports and is killed at a point: it returns -9, or how many points there are where none is met."""
    words = [sys.executable, "-c", SCRIPT, str(SAMPLE), str(target), str(shard)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        told, asked = process.stdout, process.stdin

        def export(point: int) -> int:
            asked.write(f"{point}\n")
            asked.flush()
            return int(told.readline())

        yield export
        asked.close()


@pytest.mark.case(95)
@pytest.mark.parametrize("shard", [10**9, 60_000], ids=["single", "sharded"])
@pytest.mark.parametrize("old", [False, True], ids=["absent", "old"])
def test_killed_at_forty_points(tmp_path: Path, shard: int, old: bool) -> None:
    before = hashlib.sha256(SAMPLE.read_bytes()).hexdigest()
    target = tmp_path / "out"
    _reset(target, old)
    seen = set()
    with exporter(target, shard) as export:
        total = export(0)
        assert total > 60
        for point in sorted({1 + (total - 1) * i // 39 for i in range(40)}):
            _reset(target, old)
            assert export(point) == -9
            seen.add(state_of(target))
            hidden = leftovers(tmp_path)
            assert {p.name for p in tmp_path.iterdir()} - {"out"} == {found.path.name for found in hidden}
            assert not any(found.runs for found in hidden)
    assert seen <= {"old" if old else "absent", "new"}
    assert hashlib.sha256(SAMPLE.read_bytes()).hexdigest() == before


def _reset(target: Path, old: bool) -> None:
    for path in [target, *(found.path for found in leftovers(target.parent))]:
        for file in path.iterdir() if path.is_dir() else ():
            file.unlink()
        if path.is_dir():
            path.rmdir()
    if old:
        target.mkdir()
        (target / "note.txt").write_text("what was here before")


def state_of(target: Path) -> str:
    """Say what stands at the target; anything that is neither old nor new and whole fails the test."""
    if not target.exists():
        return "absent"
    if (target / "note.txt").exists():
        assert [p.name for p in target.iterdir()] == ["note.txt"]
        return "old"
    with open_checkpoint(target) as source:
        plan = understand(source)
        assert plan.status == "clean"
        assert len(plan.entries) == 29
    assert len(json.loads((target / "EXPORT_REPORT.json").read_text())["tensors"]) == 29
    return "new"
