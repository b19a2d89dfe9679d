"""How a job says what it has measured: one line of JSON, with its peak memory."""

from __future__ import annotations

import json
import resource
import sys
from collections.abc import Callable, Mapping

Job = Callable[..., dict[str, float]]


def tell(seconds: Mapping[str, float]) -> None:
    """Print seconds by phase, the peak memory, and whether torch was imported."""
    print(json.dumps({**seconds, "peak_mib": peak_mib(), "torch": "torch" in sys.modules}), flush=True)


def run_named(jobs: Mapping[str, Job]) -> None:
    """Run the job that the command line names, with its words, and tell what it measured."""
    tell(jobs[sys.argv[1]](*sys.argv[2:]))


def peak_mib() -> float:
    """Return the most memory that this process has held. (`getrusage` also counts what its parent held before it.)"""
    try:
        with open("/proc/self/status", encoding="ascii") as status:
            return int(next(line for line in status if line.startswith("VmHWM:")).split()[1]) / 1024
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
