"""Which interpreter has which libraries: the peers live in an environment of their own (`make test-oracles`)."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from tests.bench.process import ROOT

ORACLES = ROOT / ".venv-oracles4" / "bin" / "python"
_ASK = "import importlib.util as u, sys; print(all(u.find_spec(name) for name in sys.argv[1:]))"


def python_with(modules: Sequence[str], oracles: Path = ORACLES) -> str:
    """Return this interpreter if it has the modules, else the other if that one has them, else an empty string."""
    for python in (sys.executable, str(oracles)):
        if _has(python, tuple(modules)):
            return python
    return ""


@lru_cache
def _has(python: str, modules: tuple[str, ...]) -> bool:
    try:
        done = subprocess.run([python, "-c", _ASK, *modules], capture_output=True, text=True, check=False)
    except OSError:  # there is no such interpreter
        return False
    return done.stdout.strip() == "True"
