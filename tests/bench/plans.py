"""Rows about plans past the machine: all of an export but its bytes.

DeepSeek-V3 in bf16 is 1.4 TB in 163 files. As headers and holes it takes no room, and everything of its export but the
bytes can be done: open, understand, compare, lay out, make the jobs that a cluster would get, and write the index. The
same is done with models of 100,000 and 500,000 small tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from tests.bench.bench import Bench
from tests.bench.race import PEAK, WALL, Aim, Race, Round
from tests.bench.sparse import BF16
from tests.bench.wide import count

SHARD = "8"  # GB of a file at most
STEPS = ("open", "understand", "lay out", "compare", "files", "jobs", "send")
MEMORY = 1024.0  # MiB
LONGEST = "plan-500k"  # takes a minute


def plans(bench: Bench) -> Iterator[Race]:
    """Yield the rows."""
    files = bench.files
    yield _race(
        bench, "plan-1.4tb", "plan of 1.4 TB in 163 files (DeepSeek-V3, bf16)", files.sparse(BF16),
        partial(files.make_sparse, BF16),
    )  # fmt: skip
    for size in ("100k",) if bench.quick else ("100k", "500k"):
        title = f"plan of {count(size):,} tensors (mixture of experts)"
        yield _race(bench, f"plan-{size}", title, files.wide(size), partial(files.make_wide, size))


def _race(bench: Bench, name: str, title: str, folder: Path, make: Callable[[], None]) -> Race:
    return Race(
        name,
        (bench.ours("plan", str(folder), SHARD),),
        (Aim("time", f"{title}, process", None, WALL, "value"),
         Aim("memory", f"{title}, memory", MEMORY, PEAK, "value")),
        make, runs=1 if name == LONGEST else 3, note=note,
    )  # fmt: skip


def note(rounds: Sequence[Round]) -> str:
    """Say what was planned, and how long each step took at its quickest."""
    samples = [each["ours"] for each in rounds]
    one = samples[0]
    steps = ", ".join(f"{step} {min(sample[step] for sample in samples):.2f} s" for step in STEPS)
    return (
        f"{one['tensors']:,} tensors in {one['files_read']} files, {one['nbytes'] / 1e9:,.1f} GB, are "
        f"{one['job_count']} jobs: the largest is sent as {one['largest_job'] / 1e6:.1f} MB, all of them as "
        f"{one['all_jobs'] / 1e6:.1f} MB; the index has {one['index'] / 1e6:.1f} MB. Steps: {steps}."
    )
