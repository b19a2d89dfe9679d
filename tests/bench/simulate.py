"""Plans past the machine: `python -m tests.bench.simulate`, or a part of `make bench`.

DeepSeek-V3 in bf16 is 1.4 TB in 163 files. As headers and holes it takes no room, and everything of its export but the
bytes can be done: open, understand, compare, lay out, make the jobs that a cluster would get, and write the index. The
same is done with models of 100,000 and 500,000 small tensors.
"""

from __future__ import annotations

import argparse
import gc
import json
import pickle
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import platformdirs

from ckpt_gui.core.diff import diff_expected
from ckpt_gui.core.export import GB, Target
from ckpt_gui.core.formats import open_checkpoint
from ckpt_gui.core.normalise import understand
from ckpt_gui.core.out_files import plan_files
from ckpt_gui.core.retarget import retarget
from ckpt_gui.core.shards import make_jobs
from ckpt_gui.core.tensors import TensorSpec
from ckpt_gui.core.timing import Laps
from tests.bench import compile_package
from tests.bench.job import peak_mib
from tests.bench.sparse import configuration, tensors, write_holes
from tests.bench.wide import WIDE, make_wide

SHARDS = 163
MODEL = "DeepSeek-V3"
STEPS = ("open", "understand", "lay out", "compare", "files", "jobs", "send")


@dataclass(frozen=True)
class Simulated:
    """What a plan took.

    Attributes:
        tensors: Stored tensors.
        files: Files that they lie in.
        nbytes: Bytes that would be written.
        jobs: Files that would be written, each a job of its own.
        largest_job: Bytes of the largest job as it is sent to another machine.
        all_jobs: Bytes of all jobs.
        index: Bytes of the index.
        seconds: Of each step.
        cpu: Seconds of the processor, of all steps.
        peak_mib: The most memory that was held.
    """

    tensors: int
    files: int
    nbytes: int
    jobs: int
    largest_job: int
    all_jobs: int
    index: int
    seconds: dict[str, float]
    cpu: float
    peak_mib: float


def bf16() -> Iterator[TensorSpec]:
    """Yield the tensors of the model as its weights are in bf16: no codes, no scales."""
    for spec in tensors(MODEL):
        if not spec.key.endswith("_scale_inv"):
            yield TensorSpec(spec.key, "bf16" if spec.dtype == "fp8_e4m3" else spec.dtype, spec.shape)


def make(folder: Path) -> Path:
    """Write the model's folder; one that exists is kept."""
    return write_holes(folder, list(bf16()), SHARDS, configuration(MODEL))


def simulate(folder: Path, shard: int) -> Simulated:
    """Do all of an export but its bytes, in files of some GB at most."""
    laps = Laps()
    with open_checkpoint(folder) as source:
        laps.lap("open")
        plan = understand(source)
        laps.lap("understand")
        export = retarget(plan, Target("hf", max_shard_bytes=shard * GB))
        laps.lap("lay out")
        diff_expected(export)
        laps.lap("compare")
        files, index = plan_files(export)
        laps.lap("files")
        jobs = make_jobs(export, files, Path("/nowhere"), sha256=False)
        laps.lap("jobs")
        sizes = [len(pickle.dumps(each)) for each in jobs]
        text = json.dumps({"metadata": {"total_size": export.nbytes}, "weight_map": index}, indent=2)
        laps.lap("send")
        return Simulated(
            len(source.refs), len(source.files), export.nbytes, len(jobs), max(sizes), sum(sizes), len(text),
            dict(laps.seconds), time.process_time(), peak_mib(),
        )  # fmt: skip


def models(folder: Path, wide: Sequence[str]) -> Iterator[tuple[str, Path]]:
    """Yield the models, and make their files."""
    yield f"{MODEL}, bf16", make(folder / "sparse" / f"{MODEL}-bf16")
    for size in wide:
        yield f"mixture of experts, {size}", make_wide(folder / "wide" / size, size)


def table(folder: Path, runs: int, wide: Sequence[str], shard: int = 8) -> Iterator[str]:
    """Yield the lines of the table: medians over fresh processes."""
    yield (
        f"| export to `hf` of, in files of {shard} GB | tensors | files | bytes | "
        + " | ".join(STEPS)
        + (" | process | of the processor | peak | jobs | largest job, all jobs | index |")
    )
    yield "|---" * (len(STEPS) + 10) + "|"
    for title, made in models(folder, wide):
        found = [fresh(made, shard) for _ in range(runs)]
        one = found[0]
        steps = " | ".join(f"{statistics.median(run['seconds'][step] for run in found):.2f} s" for step in STEPS)
        wall, cpu = (statistics.median(run[name] for run in found) for name in ("wall", "cpu"))
        yield (
            f"| {title} | {one['tensors']:,} | {one['files']} | {one['nbytes'] / 1e12:.2f} TB | {steps} | {wall:.2f} s "
            f"| {cpu:.2f} s | {max(run['peak_mib'] for run in found):,.0f} MiB | {one['jobs']} "
            f"| {one['largest_job'] / 1e6:.1f} MB, {one['all_jobs'] / 1e6:.1f} MB | {one['index'] / 1e6:.1f} MB |"
        )


def fresh(folder: Path, shard: int) -> dict[str, Any]:
    """Return what `simulate` says in a fresh process, with the wall time of that process."""
    begun = time.perf_counter()
    words = [sys.executable, "-m", "tests.bench.simulate", "--once", str(folder), "--shard", str(shard)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    return {**json.loads(done.stdout), "wall": time.perf_counter() - begun}


def main() -> int:
    """Make the files, measure, print."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.simulate", description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--wide", choices=WIDE, nargs="*", default=["100k", "500k"])
    parser.add_argument("--shard", type=int, default=8, help="GB of a file at most")
    parser.add_argument("--folder", type=Path, default=platformdirs.user_cache_path("ckpt_gui") / "bench")
    parser.add_argument("--once", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.once:
        gc.set_threshold(100_000, 20, 100)  # as the command line does
        print(json.dumps(asdict(simulate(args.once, args.shard))))
        return 0
    compile_package()
    for line in table(args.folder, args.runs, args.wide, args.shard):
        print(line)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
