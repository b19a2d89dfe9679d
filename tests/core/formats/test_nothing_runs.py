"""Attacks in every container, opened in a process that dies at the first sign of life."""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
from pathlib import Path

import numpy as np
import pytest

from scripts import hostile_files
from tests import builders as b
from tests.core.formats.test_torch_legacy import W, stream, tar_members

LINE = "touch canary"
CALL = b.call(b.name("posix", "system"), b.text(LINE))
ATTACK = b.pickled(CALL)
BODY = b.dict_of({"w": b.tensor("0", [6]), "x": CALL})


def tar_of(pickled: bytes) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:") as tar:
        for name, data in tar_members(pickled).items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


class Attack:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return exec, ("raise SystemExit",)


def objects() -> bytes:
    out = io.BytesIO()
    np.savez(out, evil=np.array([Attack()], dtype=object))
    return out.getvalue()


FILES = {
    "x.pt": b.torch_bytes(BODY, {"0": W}),
    "cut.pt": b.torch_bytes(BODY + b"\xff", {"0": W}),
    "old.pt": stream(BODY, {"0": W}),
    "tar.pt": tar_of(b.pickled(b.dict_of({"w": b.text("20") + b"Q", "x": CALL}))),
    "bare.pkl": ATTACK,
    "text.pkl": b"cposix\nsystem\n(S'touch canary'\ntR.",
    "program.pt": b.torch_bytes(BODY, {"0": W}, more=[("archive/constants.pkl", ATTACK)]),
    "objects.npz": objects(),
}


@pytest.mark.case(52, 53, 54)
@pytest.mark.parametrize("name", FILES)
def test_attacks(tmp_path: Path, name: str) -> None:
    verdict, told = hostile_files.judge(b.write(tmp_path / name, FILES[name]), tmp_path / "warm")
    assert verdict == "unsafe", told
    assert not (tmp_path / "canary").exists()
    assert not (hostile_files.ROOT / "canary").exists()


def test_the_watch_sees_what_runs(tmp_path: Path) -> None:
    """If it did not, the test above would say nothing."""
    child = hostile_files.CHILD.replace("answer = {}", "import os; os.system('true'); answer = {}")
    path = b.write(tmp_path / "x.pt", FILES["x.pt"])
    words = [sys.executable, "-c", child, str(path), str(tmp_path / "warm")]
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=hostile_files.ROOT)
    assert done.returncode == hostile_files.RAN, done.stderr
    assert "os.system" in done.stderr
