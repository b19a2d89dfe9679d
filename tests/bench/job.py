"""Our own jobs, each done in a fresh process: `python -m tests.bench.job NAME WORDS` prints its figures as JSON.

Imports stand in the functions, those of the standard library too: a job loads what the program itself would load for
it, and no more.
"""

from __future__ import annotations

import os
import time

from tests.bench.start_job import first_rows, paint, paint_alone
from tests.bench.telling import Job, run_named

AGAIN = 7  # times that a checkpoint is opened once all is imported


def export(
    source: str, folder: str, layout: str, workers: str, dtype: str = "keep", disk: str = ""
) -> dict[str, float]:
    """Export with our writer; tell the seconds of its phases, and of waiting for the disk (`sync`).

    With `late` the disk begins when all is written, and not meanwhile.
    """
    from ckpt_gui.core import flushing
    from ckpt_gui.core.export import Target
    from ckpt_gui.core.formats import open_checkpoint
    from ckpt_gui.core.normalise import understand
    from ckpt_gui.core.retarget import retarget
    from ckpt_gui.core.writer import write_export

    synced = time_of_sync()
    if disk == "late":
        flushing.EVERY = 1e6
    with open_checkpoint(source) as opened:
        result = write_export(retarget(understand(opened), Target(layout, dtype=dtype)), folder, workers=int(workers))
    return {**result.phases, "sync": sum(synced), "nbytes": result.nbytes, "shared": result.shared}


def time_of_sync() -> list[float]:
    """Have the time of each `os.fsync` of this process written down."""
    sync, taken = os.fsync, []

    def timed(fd: int) -> None:
        begun = time.perf_counter()
        sync(fd)
        taken.append(time.perf_counter() - begun)

    os.fsync = timed  # type: ignore[assignment]  # cp and the peers do not sync, and are compared without it as well
    return taken


def export_sample(source: str, folder: str, every: str, workers: str) -> dict[str, float]:
    """Plan a whole export in Hugging Face's layout, and write one of so many of its files."""
    from dataclasses import replace
    from pathlib import Path

    from ckpt_gui.core.export import GB, Target
    from ckpt_gui.core.formats import open_checkpoint
    from ckpt_gui.core.normalise import understand
    from ckpt_gui.core.out_files import plan_files
    from ckpt_gui.core.retarget import retarget
    from ckpt_gui.core.shards import make_jobs, run_shard

    target = Path(folder)
    target.mkdir()
    with open_checkpoint(source) as opened:
        planned = retarget(understand(opened), Target("hf", max_shard_bytes=4 * GB))
        jobs = make_jobs(planned, plan_files(planned)[0], target, sha256=False)
        for job in jobs[:: int(every)]:
            run_shard(replace(job, workers=int(workers)))
    return {"jobs": len(jobs), "written": len(jobs[:: int(every)])}


def open_ours(source: str) -> dict[str, float]:
    """List every tensor with our reader."""
    from ckpt_gui.core.formats import open_checkpoint

    begun = time.perf_counter()
    with open_checkpoint(source) as opened:
        count = len(opened.refs)
    return {"open": time.perf_counter() - begun, "tensors": count}


def open_again(source: str) -> dict[str, float]:
    """Open once, for what is imported on the way; then tell the time of opening in a process that is at work."""
    open_ours(source)
    taken = sorted(open_ours(source)["open"] for _ in range(AGAIN))
    return {"again": taken[AGAIN // 2], "openings": 1 + AGAIN}


def check(source: str, status: str) -> dict[str, float]:
    """Check a checkpoint as the command line does; tell how it ended.

    Raises:
        RuntimeError: It ended with another status than that.
    """
    from ckpt_gui.cli.main import main

    ended = main(["check", source])
    if ended != int(status):
        raise RuntimeError(f"check of {source} ended with {ended}")
    return {"status": ended}


def compare(one: str, two: str, workers: str) -> dict[str, float]:
    """Compare two whole models by their values."""
    from ckpt_gui.core import compare as comparing

    with comparing.opened_sides(one, two, values=True) as (a, b):
        found = comparing.compare(a, b, values=True, workers=int(workers))
    return {"equal": found.counts["equal"], "all": len(found.rows)}


def figures(source: str, workers: str, bins: str = "256", every: str = "1") -> dict[str, float]:
    """Calculate every figure of every tensor, exactly, with a histogram if bins are asked for.

    Args:
        source: A checkpoint.
        workers: Threads.
        bins: Of the histograms; 0 for none.
        every: Of so many files only one is read.
    """
    from ckpt_gui.core.formats import open_checkpoint
    from ckpt_gui.core.stats import many_stats

    with open_checkpoint(source) as opened:
        begun = time.perf_counter()
        files = {file.name for file in opened.files[:: int(every)]}
        refs = [ref for ref in opened.refs if ref.file in files]
        found = many_stats(opened, refs, bins=int(bins), workers=int(workers))
        return {"figures": time.perf_counter() - begun, "tensors": len(found)}


def scan(source: str, workers: str, every: str = "1") -> dict[str, float]:
    """Scan a whole model for what looks wrong, or of so many of its files one."""
    from dataclasses import replace

    from ckpt_gui.core.formats import open_checkpoint
    from ckpt_gui.core.normalise import normalise
    from ckpt_gui.core.scan import scan as look

    with open_checkpoint(source) as opened:
        plan = normalise(opened)
        files = {file.name for file in opened.files[:: int(every)]}
        some = tuple(entry for entry in plan.entries if all(ref.file in files for ref in entry.inputs))
        found = look(replace(plan, entries=some), workers=int(workers))
        return {"tensors": len(found.tensors)}


def plan(source: str, shard: str) -> dict[str, float]:
    """Do all of an export to Hugging Face's layout but its bytes, in files of so many GB at most.

    What is told: seconds of each step, and the number of tensors, files and jobs with their bytes as they are sent to
    another machine.
    """
    import gc
    import json
    import pickle
    from pathlib import Path

    from ckpt_gui.core.diffing import diff_expected
    from ckpt_gui.core.export import GB, Target
    from ckpt_gui.core.formats import open_checkpoint
    from ckpt_gui.core.normalise import understand
    from ckpt_gui.core.out_files import plan_files
    from ckpt_gui.core.retarget import retarget
    from ckpt_gui.core.shards import make_jobs
    from ckpt_gui.core.timing import Laps

    gc.set_threshold(100_000, 20, 100)  # as the command line does
    laps = Laps()
    with open_checkpoint(source) as opened:
        laps.lap("open")
        understood = understand(opened)
        laps.lap("understand")
        export = retarget(understood, Target("hf", max_shard_bytes=int(shard) * GB))
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
        found = {"tensors": len(opened.refs), "files_read": len(opened.files), "nbytes": export.nbytes}
        sent = {"job_count": len(jobs), "largest_job": max(sizes), "all_jobs": sum(sizes), "index": len(text)}
        return {**laps.seconds, **found, **sent}


def cluster(source: str, folder: str, workers: str) -> dict[str, float]:
    """Write a checkpoint again, file by file, on a cluster of processes that are there before it begins."""
    from ckpt_gui.core.clusters import cluster as opened_cluster
    from ckpt_gui.core.export import Target
    from ckpt_gui.core.formats import open_checkpoint
    from ckpt_gui.core.normalise import understand
    from ckpt_gui.core.retarget import retarget
    from ckpt_gui.core.writer import write_export

    with open_checkpoint(source) as opened, opened_cluster(f"processes:{workers}") as executor:
        list(executor.map(time.sleep, [0.5] * int(workers)))  # they have imported what they need to begin
        export = retarget(understand(opened), Target("same"))
        begun = time.perf_counter()
        result = write_export(export, folder, executor=executor)
        return {"written": time.perf_counter() - begun, "nbytes": result.nbytes}


_ALL: tuple[Job, ...] = (
    export, export_sample, open_ours, open_again, check, paint, paint_alone, first_rows, compare, figures, scan, plan,
    cluster,
)  # fmt: skip
JOBS: dict[str, Job] = {job.__name__: job for job in _ALL}

if __name__ == "__main__":
    run_named(JOBS)
