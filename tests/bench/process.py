"""Fresh processes, and what they took: every figure of the benchmark is of a process that did one thing and ended."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PEERS = "tests.bench.peers"
Sample = dict[str, float]
# No peer may go to the network while it is measured.
OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "QT_QPA_PLATFORM": "offscreen"}


class Failed(RuntimeError):
    """A process that ended otherwise than it should; the text is its last line."""


@dataclass
class Processes:
    """Starts processes.

    Attributes:
        before: Words put before those of our own jobs, such as those of a profiler.
    """

    before: tuple[str, ...] = field(default=())

    def job(self, *words: str, module: str = "tests.bench.job", python: str = sys.executable) -> Sample:
        """Run a job of ours, or of a module like it; return its figures.

        Args:
            words: The job's name and arguments.
            module: Where the job is.
            python: The interpreter.

        Raises:
            Failed: It did not end well.
        """
        words = (python, "-m", module, *words)
        sample, printed = measured(words) if module == PEERS else self.ours(words)
        return sample | told(printed)

    def ours(self, words: Sequence[str], env: Mapping[str, str] | None = None) -> tuple[Sample, str]:
        """Run a process of ours, under a profiler if there is one; return its figures and what it printed."""
        return measured([*self.before, *words], env=env)

    def command(self, *words: str, status: int = 0) -> Sample:
        """Run a command; return its figures. Raises `Failed` if it ends with another status."""
        return measured(words, status=status)[0]


def told(printed: str) -> Any:
    """Return what a job told as JSON on its last line but what a profiler says. Raises `Failed` if it told nothing."""
    found = next((line for line in reversed(printed.splitlines()) if line.startswith(("{", "["))), None)
    if found is None:
        raise Failed("it told no figures")
    return json.loads(found)


def measured(words: Sequence[str], *, status: int = 0, env: Mapping[str, str] | None = None) -> tuple[Sample, str]:
    """Run a command in a process of its own.

    Args:
        words: The command.
        status: How it shall end.
        env: What its environment has beside ours.

    Returns:
        `wall` and `cpu` in seconds (the latter with those of its children) and `peak_mib`; and what it printed.

    Raises:
        Failed: It ended with another status.
    """
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as errors:
        begun = time.perf_counter()
        process = subprocess.Popen(
            words, stdout=out, stderr=errors, cwd=ROOT, env={**os.environ, **OFFLINE, **(env or {})}
        )
        try:
            _, code, usage = os.wait4(process.pid, 0)
        except BaseException:
            process.kill()
            process.wait()
            raise
        wall = time.perf_counter() - begun
        process.returncode = os.waitstatus_to_exitcode(code)
        out.seek(0)
        errors.seek(0)
        printed, said = out.read(), errors.read().strip()
    if process.returncode != status:
        last = said.splitlines()[-1] if said else "it said nothing"
        raise Failed(f"{' '.join(words[:5])} ended with {process.returncode}: {last}")
    return {"wall": wall, "cpu": usage.ru_utime + usage.ru_stime, "peak_mib": usage.ru_maxrss / 1024}, printed
