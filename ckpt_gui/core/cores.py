"""How many threads long work takes."""

from __future__ import annotations

import os

WORKERS = 2  # unless more are asked for: one waits for the disk while the other works, and the machine stays quick


def every_core() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
