"""How much more memory a block of code takes at its peak than there was before it.

The peak that `getrusage` tells is that of the whole life of a process, and even of the one that started it; here the
kernel is asked to forget it first (`/proc/self/clear_refs`). Where it can not be, nothing is measured.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PROC = Path("/proc/self")


class Growth:
    """What was measured.

    Attributes:
        megabytes: By how much the peak was above the start; 0 where nothing can be measured.
    """

    megabytes = 0


def _megabytes(name: str) -> int:
    lines = (PROC / "status").read_text("ascii").splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith(name))) >> 10


@contextmanager
def growth() -> Iterator[Growth]:
    """Measure the block."""
    found = Growth()
    try:
        (PROC / "clear_refs").write_text("5")
        before = _megabytes("VmRSS")
    except OSError:  # not Linux, or not allowed
        yield found
        return
    yield found
    found.megabytes = _megabytes("VmHWM") - before
