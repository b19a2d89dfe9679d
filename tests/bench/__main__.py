"""Measure opening and exporting against cp, torch and safetensors, alternately and in fresh processes.

`python -m tests.bench [--size 1b] [--runs 5] [--folder DIR]` prints a table of medians and ratios, and adds a line
for the run to `DIR/results.jsonl`. For a fair pair the old output is deleted first in both.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import platformdirs

from tests.bench.shapes import SHAPES, make_hf
from tests.bench.sparse import table as sparse_table


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

    def _ours(self, run: dict[str, Any]) -> float:
        return sum(run[p] for p in self.phase) if self.phase else run["wall"]

    def line(self) -> str:
        """Return the table's line."""
        ours, peer = (
            statistics.median(v) for v in zip(*((self._ours(a), b["wall"]) for a, b in self.runs), strict=True)
        )
        peak = max(a.get("peak_mib", 0) for a, _ in self.runs)
        ratio = self.ratio()
        verdict = "met" if ratio <= self.target else "MISSED"
        figures = f"{ours:.3f} s | {peer:.3f} s | {ratio:.2f} | ≤ {self.target} | {verdict} | {peak:.0f} MiB"
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


def twin(path: Path, work: Path) -> Path:
    """Return a copy of a file under its own name, made once."""
    copy = work / "twin" / path.name
    if not copy.exists():
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
    return copy


def rows(hf: Path, meta: Path, work: Path, workers: str) -> list[Row]:
    """Return what is measured."""
    weights, pth = hf / "model.safetensors", meta / "consolidated.00.pth"
    out, copy = work / "out", work / "copy"

    def export(source: Path, layout: str) -> Callable[[], dict[str, Any]]:
        return lambda: job("export", str(source), fresh(out), layout, workers)

    def cp(source: Path) -> Callable[[], dict[str, Any]]:
        return lambda: command("sh", "-c", f"cp '{source}' '{fresh(copy)}' && sync '{copy}'")

    writing = ("plan", "write")
    return [
        Row("open .pth, process, against torch.load(mmap)", lambda: job("open_ours", str(pth)),
            lambda: job("open_torch", str(pth)), 0.05),
        Row("open .safetensors, process, against safe_open", lambda: job("open_ours", str(weights)),
            lambda: job("open_safetensors", str(weights)), 1.0),
        Row("export HF → same (rename), before verification, against cp + sync", export(weights, "same"), cp(weights),
            1.2, writing),
        Row("export HF → same, verified, process, against cp + sync", export(weights, "same"), cp(weights),
        2.0), Row("export Meta → HF (permute, drop tied), before verification, against cp + sync", export(meta, "hf"),
            cp(weights), 1.2, writing),
        Row("export Meta → HF, verified, process, against cp + sync", export(meta, "hf"), cp(weights), 2.0),
        Row("export HF → Meta .pth (with CRC), before verification, against cp + sync", export(hf, "meta"), cp(pth),
        1.4,
            writing),
        Row("export HF → same, verified, process, against safetensors load + save", export(weights, "same"),
            lambda: job("load_and_save", str(weights), fresh(copy)), 0.6),
        Row("diff --values of two equal files, process, against cmp",
            lambda: job("compare", str(weights), str(twin(weights, work)), workers),
            lambda: command("cmp", str(weights), str(twin(weights, work))), 1.0),
    ]  # fmt: skip


def main() -> int:
    """Make the files, measure, print."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--size", choices=SHAPES, default="1b")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--workers", default="2")
    parser.add_argument("--folder", type=Path, default=platformdirs.user_cache_path("ckpt_gui") / "bench")
    args = parser.parse_args()
    work = args.folder / args.size
    hf = make_hf(work / "hf", args.size)
    meta = work / "meta"
    if not meta.exists():
        job("export", str(hf), str(meta), "meta", args.workers)
    table = rows(hf, meta, work, args.workers)
    for _ in range(args.runs):
        for row in table:
            row.measure()
    print("| what | ours | peer | ratio | target | | our peak |\n|---|---|---|---|---|---|---|")
    for row in table:
        print(row.line())
    print()
    for line in sparse_table(args.folder / "sparse", args.runs):
        print(line)
    record = {"size": args.size, "runs": args.runs, "ratios": {row.title: round(row.ratio(), 3) for row in table}}
    with (args.folder / "results.jsonl").open("a") as file:
        file.write(json.dumps(record) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
