"""`--nice`: low priority, and pauses as long as the work."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ckpt_gui.core import niceness
from ckpt_gui.core.api import write
from ckpt_gui.core.formats import open_checkpoint
from ckpt_gui.core.normalise import understand
from tests.core import models


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has classes of priority")
def test_the_priority_of_a_process_is_lowered() -> None:
    code = "import os; from ckpt_gui.core.niceness import *; lower_priority(); print(os.nice(0))"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert int(told) == min(os.nice(0) + niceness.NICE, 19)


def test_a_worker_pauses_as_long_as_it_worked(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, pauses = [100.0], []
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(time, "sleep", pauses.append)
    rest = niceness.Rest()
    for worked in (7.0, 0.02, 0.03, 9.0):
        clock[0] += worked
        rest.take()
    assert pauses == [0.0, pytest.approx(0.02), pytest.approx(0.03), niceness.LONGEST]


def test_a_nice_export_is_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(niceness, "LONGEST", 0.0)
    folder = models.save(tmp_path / "in", models.state("meta"), name="consolidated.00.pth", config=models.config())
    taken = []
    monkeypatch.setattr(niceness.Rest, "take", lambda rest: taken.append(rest))
    with open_checkpoint(folder) as source:
        write(understand(source), tmp_path / "out", "hf", nice=True)
    assert models.opened(tmp_path / "out") == models.as_bytes(models.state("hf"))
    assert len(taken) >= 60  # every tensor is written, and read back
