"""Measuring one job against a peer's: alternately, each in a fresh process, medians of the ratios."""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass
class Row:
    """One line of the table: our job, a peer's, and the target for the ratio of their wall times.

    Attributes:
        title: What is measured.
        ours: Runs our job; returns what it printed.
        peer: Runs the peer; returns what it printed.
        target: The ratio to reach.
        phase: A phase of our job to compare in place of the whole process.
    """

    title: str
    ours: Callable[[], dict[str, Any]]
    peer: Callable[[], dict[str, Any]]
    target: float
    phase: tuple[str, ...] = ()
    runs: list[tuple[dict[str, Any], dict[str, Any]]] = field(default_factory=list)

    def measure(self) -> None:
        """Run ours and the peer's once, one after the other."""
        self.runs.append((self.ours(), self.peer()))

    def ratio(self) -> float:
        """Return the median over the pairs."""
        return statistics.median(self._ours(a) / b["wall"] for a, b in self.runs)

    def peak(self) -> float:
        """Return the most memory that a run of ours has held, in MiB."""
        return float(max(a.get("peak_mib", 0) for a, _ in self.runs))

    def _ours(self, run: dict[str, Any]) -> float:
        return sum(run[p] for p in self.phase) if self.phase else run["wall"]

    def line(self) -> str:
        """Return the table's line."""
        ours, peer = (
            statistics.median(v) for v in zip(*((self._ours(a), b["wall"]) for a, b in self.runs), strict=True)
        )
        ratio = self.ratio()
        verdict = "met" if ratio <= self.target else "MISSED"
        figures = f"{ours:.3f} s | {peer:.3f} s | {ratio:.2f} | ≤ {self.target} | {verdict} | {self.peak():.0f} MiB"
        return f"| {self.title} | {figures} |"


def job(*words: str) -> dict[str, Any]:
    """Run a job in a fresh process; return what it printed, with the wall time of the process."""
    begun = time.perf_counter()
    done = subprocess.run([sys.executable, "-m", "tests.bench.job", *words], capture_output=True, text=True, check=True)
    return {**json.loads(done.stdout.splitlines()[-1]), "wall": time.perf_counter() - begun}


def command(*words: str) -> dict[str, Any]:
    """Run a command; return its wall time."""
    begun = time.perf_counter()
    subprocess.run(words, check=True, capture_output=True)
    return {"wall": time.perf_counter() - begun}


def fresh(path: Path) -> str:
    """Delete an output, and return its name."""
    shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)
    return str(path)


def printed(table: Sequence[Row], runs: int) -> str:
    """Measure rows, one after the other and as often as is said, and return their table."""
    for _ in range(runs):
        for row in table:
            row.measure()
    lines = ["| what | ours | peer | ratio | target | | our peak |", "|---|---|---|---|---|---|---|"]
    return "\n".join([*lines, *(row.line() for row in table)])
