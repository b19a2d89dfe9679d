"""The row about workers: an export by one and by two, against what the model on paper says of two from that of one.

The model stands in docs/on-a-cluster.md. Processes of this machine are the workers; they share its disk, memory and
processors, which workers of a cluster do not.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tests.bench.bench import Bench
from tests.bench.files import remove
from tests.bench.process import Sample
from tests.bench.race import Aim, Quantity, Race, Round, Task

GB = 10**9
SHARDS = 12
BF16_671B = 671e9 * 2
SHARD_671B = 163
SHARED = 20 * GB  # bytes a second of a good file system
WRITTEN, ON_PAPER = Quantity("s", ("written",)), Quantity("s", ("on_paper",))
ONE = "1 worker"


def clusters(bench: Bench) -> Iterator[Race]:
    """Yield the row."""
    size = GB // 4 if bench.quick else GB
    source = bench.folder / "cluster" / str(size)

    def task(name: str, workers: int, paper: Callable[[Sample], float]) -> Task:
        def run() -> Sample:
            remove(bench.files.out)
            sample = bench.job("cluster", str(source), str(bench.files.out), str(workers))
            remove(bench.files.out)
            return sample | {"on_paper": paper(sample)}

        return Task(name, run)

    title = f"export of {size / GB:g} GB in {SHARDS} files by 2 workers"
    yield Race(
        "cluster",
        (task(ONE, 1, lambda sample: predicted(sample["nbytes"], SHARDS, 2, rate(sample))),
         task("ours", 2, lambda sample: sample["written"])),
        (Aim("workers", f"{title}, verified, against 1 worker", None, WRITTEN, peer=ONE),
         Aim("paper", f"{title}, verified, against the model on paper", None, ON_PAPER, peer=ONE)),
        lambda: make_source(source, size), note=note,
    )  # fmt: skip


def rate(sample: Sample) -> float:
    """Return the bytes a second of a worker that was alone."""
    return sample["nbytes"] / sample["written"]


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


def note(rounds: Sequence[Round]) -> str:
    """Say what the model on paper makes of 671B."""
    alone = statistics.median(rate(each[ONE]) for each in rounds)
    words = []
    for workers in (1, 8, 64):
        free, tied = (predicted(BF16_671B, SHARD_671B, workers, alone, shared) for shared in (math.inf, SHARED))
        each = 3 * BF16_671B * math.ceil(SHARD_671B / workers) / SHARD_671B
        words.append(
            f"{workers} worker{'s' * (workers > 1)} pass {each / GB:,.0f} GB each and take {free / 60:.1f} min, "
            f"{tied / 60:.1f} min on a file system of {SHARED / GB:.0f} GB/s"
        )
    return f"671B in bf16 on paper, {alone / GB:.2f} GB/s a worker: {'; '.join(words)}."


def make_source(folder: Path, nbytes: int) -> None:
    """Write a checkpoint of a file a layer, all with other values; one that exists is kept."""
    if folder.exists():
        return
    import numpy as np

    from tests.core.models import save_shards

    rows = nbytes // (SHARDS * 2 * 1024)
    every = np.arange(rows * 1024, dtype=np.uint32)
    tensors = {
        f"block.{n}.weight": (every * (n + 3)).astype(np.uint16).view(np.float16).reshape(rows, 1024)
        for n in range(SHARDS)
    }
    save_shards(folder, tensors, SHARDS)
