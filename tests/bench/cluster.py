"""How an export grows with workers: `python -m tests.bench.cluster [--gb 1.0] [--runs 3]`.

Writes a model of some shards with one worker and with two, measures, and holds the time of two against what the model
on paper (docs/on-a-cluster.md) says from that of one. Then it prints the model for 671B. Dask's scheduler and workers
are started here, where it is installed; else processes of this machine stand for them.
"""

from __future__ import annotations

import argparse
import math
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from ckpt_gui.core.clusters import cluster
from ckpt_gui.core.export import Export, Target
from ckpt_gui.core.formats import open_checkpoint
from ckpt_gui.core.normalise import understand
from ckpt_gui.core.retarget import retarget
from ckpt_gui.core.writer import write_export
from tests import builders

GB = 10**9
SHARDS = 12
BF16_671B = 671e9 * 2
SHARD_671B = 163


def predicted(
    nbytes: float, shards: int, workers: int, rate: float, shared: float = math.inf, start: float = 0
) -> float:
    """Return the seconds of an export on paper.

    Args:
        nbytes: Bytes of the checkpoint.
        shards: Files that are written; a worker writes them one after another.
        workers: How many.
        rate: Bytes a second that one worker reads, writes and verifies.
        shared: Bytes a second that the file system gives to all of them together; each byte passes it three times.
        start: Seconds for opening, planning and putting in place.
    """
    rounds = math.ceil(shards / workers)
    return start + max(rounds * nbytes / shards / rate, 3 * nbytes / shared)


def make_source(folder: Path, nbytes: int) -> Path:
    """Write a checkpoint of layers that all have other values."""
    folder.mkdir()
    rows = nbytes // (SHARDS * 2 * 1024)
    every = np.arange(rows * 1024, dtype=np.uint32)
    tensors = {
        f"block.{n}.weight": (every * (n + 3)).astype(np.uint16).view(np.float16).reshape(rows, 1024)
        for n in range(SHARDS)
    }
    (folder / "model.safetensors").write_bytes(builders.safetensors_bytes(tensors, {"format": "pt"}))
    return folder


@contextmanager
def workers_of(count: int) -> Iterator[Executor]:
    """Open a cluster of this machine."""
    with cluster(f"processes:{count}") as executor:
        list(executor.map(time.sleep, [0.5] * count))  # they are there, and have imported what they need to begin
        yield executor


def measure(export: Export, out: Path, executor: Executor) -> float:
    """Return the seconds of one export."""
    started = time.perf_counter()
    write_export(export, out, executor=executor)
    seconds = time.perf_counter() - started
    shutil.rmtree(out)
    return seconds


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gb", type=float, default=1.0)
    parser.add_argument("--runs", type=int, default=3)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_source(folder / "in", int(args.gb * GB))
        with open_checkpoint(folder / "in") as source:
            target = Target("same", max_shard_bytes=int(args.gb * GB / SHARDS * 1.05))
            export = retarget(understand(source), target)
            with workers_of(1) as one, workers_of(2) as two:
                pairs = [(measure(export, folder / "one", one), measure(export, folder / "two", two))
                         for _ in range(args.runs)]  # fmt: skip
    alone, both = (statistics.median(side) for side in zip(*pairs, strict=True))
    rate = args.gb * GB / alone
    paper = predicted(args.gb * GB, SHARDS, 2, rate)
    print(f"{args.gb:g} GB in {SHARDS} files, median of {args.runs}, written and verified")
    print(f"  1 worker   {alone:6.2f} s   {rate / GB:.2f} GB/s")
    print(f"  2 workers  {both:6.2f} s   on paper {paper:.2f} s   measured / paper {both / paper:.2f}")
    print("671B in bf16 on paper, at that rate of a worker:")
    print("  workers   bytes a worker   without a limit   shared file system of 20 GB/s")
    for workers in (1, 8, 64):
        free, tied = (predicted(BF16_671B, SHARD_671B, workers, rate, shared) for shared in (math.inf, 20 * GB))
        each = 3 * BF16_671B * math.ceil(SHARD_671B / workers) / SHARD_671B
        print(f"  {workers:>7}   {each / GB:>10,.0f} GB   {free / 60:>11.1f} min   {tied / 60:>11.1f} min")


if __name__ == "__main__":
    main()
