"""Rows about starting: the window's first picture and its first rows, against importing torch alone.

A window that PySide6 makes without this program is measured beside them: sooner than it nothing can be.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.bench.bench import Bench
from tests.bench.process import ROOT, Sample
from tests.bench.race import PEAK, Aim, Race, Task

IMPORT, ALONE = "import torch", "PySide6 alone"
SAMPLE = ROOT / "resources" / "sample" / "tiny-llama-compiled.pt"


def starts(bench: Bench) -> Iterator[Race]:
    """Yield the rows."""
    imported = bench.peer(IMPORT, ("torch",), "import_torch")
    yield Race(
        "window-start",
        (Task("ours", lambda: _started(bench, "paint")), bench.ours("paint_alone", name=ALONE), imported),
        (Aim("time", f"window painted, process, against `{IMPORT}`", 0.25, peer=IMPORT),
         Aim("alone", f"a window of {ALONE} painted, process, against `{IMPORT}`", None, task=ALONE, peer=IMPORT),
         Aim("memory", f"window painted, memory, against `{IMPORT}`", None, PEAK, peer=IMPORT)),
    )  # fmt: skip
    model = bench.files.hf
    yield Race(
        "window-rows",
        (Task("ours", lambda: _started(bench, "first_rows", SAMPLE)),
         Task("model", lambda: _started(bench, "first_rows", model)), imported),
        (Aim("sample", f"rows of the bundled sample painted, process, against `{IMPORT}`", None, peer=IMPORT),
         Aim("model", f"rows of the model painted, process, against `{IMPORT}`", None, task="model", peer=IMPORT)),
        bench.files.make_hf,
    )  # fmt: skip


def _started(bench: Bench, name: str, *paths: Path) -> Sample:
    """Start the program, with settings and logs in a folder of their own."""
    with tempfile.TemporaryDirectory(prefix="ckpt-gui-bench.") as folder:
        return bench.job(name, folder, *map(str, paths))
