"""The row about starting: the window's first picture, against importing torch alone."""

from __future__ import annotations

from collections.abc import Iterator

from tests.bench.bench import Bench
from tests.bench.race import PEAK, Aim, Race

IMPORT = "import torch"


def starts(bench: Bench) -> Iterator[Race]:
    """Yield the row."""
    yield Race(
        "window-start",
        (bench.ours("paint"), bench.peer(IMPORT, ("torch",), "import_torch")),
        (Aim("time", f"window painted, process, against `{IMPORT}`", 0.25, peer=IMPORT),
         Aim("memory", f"window painted, memory, against `{IMPORT}`", None, PEAK, peer=IMPORT)),
    )  # fmt: skip
