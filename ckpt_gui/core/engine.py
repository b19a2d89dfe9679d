"""Doing the jobs of an export: here, one after another on some threads, or on anybody's executor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    CancelledError,
    Executor,
    Future,
    ThreadPoolExecutor,
    wait,
)
from pathlib import Path

from ckpt_gui import dataclasses
from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.meter import Meter
from ckpt_gui.core.origin import check_reachable
from ckpt_gui.core.shards import STOP, ShardJob, ShardResult, run_shard, write_shard
from ckpt_gui.core.source import Source

Kept = Callable[[ShardJob, ShardResult], None]
CLUSTER_FAILED = "cluster-failed"
_TICK = 0.2  # seconds after which a cancel is heard
_GRACE = 60.0  # seconds that running jobs are given to stop


def run_here(jobs: Sequence[ShardJob], source: Source, meter: Meter, workers: int, kept: Kept) -> None:
    """Do the jobs one after another, each with all workers; `kept` is told of every one that is done."""
    for job in jobs:
        kept(job, write_shard(job, source, meter, workers))


def run_on(executor: Executor, jobs: Sequence[ShardJob], folder: Path, meter: Meter, workers: int, kept: Kept) -> None:
    """Do the jobs on an executor, in whatever order; the first failure, or a cancel, stops the others.

    Args:
        executor: Whatever has `submit`: threads, processes, a cluster.
        jobs: What to do.
        folder: Where they write to: a file in it tells them to stop.
        meter: Told of the bytes of each job that is done, and asked whether to stop.
        workers: Threads for a job that is the only one; of several, each has one.
        kept: Told of every one that is done, here and never at the same time.

    Raises:
        CheckpointError: What a job raised; or a worker has died, or the whole cluster (`cluster-failed`).
        Cancelled: The meter says so.
    """
    check_reachable((job.origin for job in jobs), same_process=isinstance(executor, ThreadPoolExecutor))
    if len(jobs) == 1:
        jobs = [dataclasses.replace(job, workers=workers) for job in jobs]
    futures: dict[Future[ShardResult], ShardJob] = {}
    try:
        for job in jobs:
            futures[executor.submit(run_shard, job)] = job
        pending = set(futures)
        while pending:
            done, pending = wait(pending, timeout=_TICK, return_when=FIRST_COMPLETED)
            meter.add("Writing and verifying", 0)
            for future in done:
                job, result = futures[future], future.result()
                kept(job, result)
                meter.add(f"Wrote {job.name}", 2 * job.nbytes)
    except BrokenExecutor as error:
        _stop(futures, folder)
        text = "A process that wrote a part of the export ended without a word: it was killed, or memory ran out."
        raise CheckpointError("target-refused", text, fix="Run it again, with fewer workers.") from error
    except CancelledError as error:  # nobody here cancels before that: who knew of the jobs is gone
        _stop(futures, folder)
        text = "The cluster was lost while it wrote the export: its scheduler does not answer any more."
        raise CheckpointError(CLUSTER_FAILED, text, fix="Run it again with --resume: whole files are kept.") from error
    except BaseException:
        _stop(futures, folder)
        raise


def _stop(futures: dict[Future[ShardResult], ShardJob], folder: Path) -> None:
    """Make jobs that run give up, and forget the others."""
    Path(folder, STOP).touch()
    wait([future for future in futures if not future.cancel()], timeout=_GRACE)
