"""Figures of every tensor of a file against torch, numpy and cat: `python -m tests.bench.numbers`, or `make bench`."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import platformdirs

from tests.bench.measure import Row, command, job, printed
from tests.bench.shapes import SHAPES, make_hf, normal_noise


def number_rows(work: Path, size: str, workers: str = "2") -> list[Row]:
    """Return what is measured of the numbers, on a file of weights as models have them."""
    weights = make_hf(work / "normal", size, normal_noise) / "model.safetensors"
    name = str(weights)

    def figures() -> dict[str, Any]:
        return job("figures_ours", name, workers)

    def cat() -> dict[str, Any]:
        return command("sh", "-c", f"cat '{name}' > /dev/null")

    return [
        Row("figures and histograms, process, against torch", figures, lambda: job("figures_torch", name), 0.1),
        Row("figures and histograms, process, against numpy", figures, lambda: job("figures_numpy", name), 0.5),
        Row("figures and histograms, file not in memory, against cat", _cold(weights, figures), _cold(weights, cat),
            1.2, ("figures",)),
        Row("figures and histograms, file in memory, against cat", figures, cat, 8.0, ("figures",)),
        Row("scan of all weights, file in memory, against torch's figures", lambda: job("scan_ours", name, workers),
            lambda: job("figures_torch", name), 0.15),
    ]  # fmt: skip


def _cold(path: Path, work: Callable[[], dict[str, Any]]) -> Callable[[], dict[str, Any]]:
    """Return a job before which the system is told to forget the file."""

    def run() -> dict[str, Any]:
        with path.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        return work()

    return run


def main() -> int:
    """Make the file, measure, print."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.numbers", description=__doc__)
    parser.add_argument("--size", choices=SHAPES, default="1b")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--workers", default="2")
    parser.add_argument("--folder", type=Path, default=platformdirs.user_cache_path("ckpt_gui") / "bench")
    args = parser.parse_args()
    print(printed(number_rows(args.folder / args.size, args.size, args.workers), args.runs))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
