"""Write an export: streamed, verified, and put in place only when it is whole.

The order is: check the target; lay every file out; for each file (see `shards`) fill the tensors in, headers last, to
the disk, open it again and compare every tensor; sidecars, index and report (`export_record`); rename.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

from ckpt_gui.core.cores import WORKERS
from ckpt_gui.core.engine import CLUSTER_FAILED, run_here, run_on
from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.export import Export
from ckpt_gui.core.export_record import make_report
from ckpt_gui.core.formats.verify import changed_files
from ckpt_gui.core.journal import NAME as JOURNAL
from ckpt_gui.core.journal import Journal, clear, fits, head_of, interrupted, refuse_other, with_kept
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.leftovers import refuse_busy
from ckpt_gui.core.meter import Meter
from ckpt_gui.core.niceness import Rest
from ckpt_gui.core.out_files import plan_files
from ckpt_gui.core.room import room_for
from ckpt_gui.core.shards import ShardJob, ShardResult, make_jobs
from ckpt_gui.core.source import Source
from ckpt_gui.core.target_folder import (
    check_target,
    commit,
    copy_file,
    folder_number,
    free_bytes,
    refuse_url,
    staged,
    write_text,
)
from ckpt_gui.core.text import human_bytes
from ckpt_gui.core.timing import Laps
from ckpt_gui.dataclasses import dataclass, field, replace

REPORT = "EXPORT_REPORT.json"
Progress = Callable[[str, int, int], None]
_FULL = tuple(getattr(errno, name) for name in ("ENOSPC", "EDQUOT", "EFBIG") if hasattr(errno, name))


@dataclass(frozen=True, slots=True)
class WriteResult:
    """What was written.

    Attributes:
        folder: Where it is.
        files: Every file in it.
        tensors: Number of tensors.
        verified: How many were read back and found equal (all of them, or there would be no result).
        nbytes: Bytes of the files that hold tensors.
        seconds: How long it took.
        phases: Seconds of planning, writing, verifying and putting in place.
        overflow: Finite values that a cast made infinite.
        report: What EXPORT_REPORT.json says.
        resumed: Files that an interrupted export had left whole.
        shared: Bytes that take no room of their own: the disk's blocks are the source's, too (reflinks).
    """

    folder: str
    files: tuple[str, ...]
    tensors: int
    verified: int
    nbytes: int
    seconds: float
    phases: Mapping[str, float] = field(default_factory=dict)
    overflow: int = 0
    report: Mapping[str, Any] = field(default_factory=dict)
    resumed: int = 0
    shared: int = 0


def write_export(
    export: Export,
    folder: str | os.PathLike[str],
    *,
    overwrite: bool = False,
    workers: int = WORKERS,
    progress: Progress | None = None,
    cancelled: Callable[[], bool] | None = None,
    sha256: bool = False,
    executor: Executor | None = None,
    resume: bool = False,
    nice: bool = False,
) -> WriteResult:
    """Write an export to a folder.

    Args:
        export: What to write.
        folder: Absent, empty, or full if `overwrite`.
        overwrite: Replace what is there, in one step where the system can.
        workers: Threads that read and write.
        progress: Called from the workers with a label, bytes done and bytes in all.
        cancelled: Asked before each block.
        sha256: Put the SHA-256 of each file into the report.
        executor: Does the files, each as one job, wherever source and target can be reached by the same paths; without
            one they are done here, one after another.
        resume: Go on with what an interrupted export to this folder has left, if there is such; files that are whole
            are kept then, too, when this one is interrupted.
        nice: Leave half of the time to others: each worker pauses as long as it works.

    Raises:
        CheckpointError: Something blocks the export, the target is refused, the source is damaged or changed, the
            disk is full, or the result is not what was meant. Nothing is left behind (but see `resume`); if the cluster
            of the executor is lost, files that are whole are kept for it, too.
        Cancelled: The user stopped it. Nothing is left behind (but see `resume`).
    """
    refuse_url(os.fspath(folder))
    refuse_blocked(export)
    laps = Laps()
    target = Path(os.path.abspath(folder))
    files, index = plan_files(export)
    needed = sum(f.layout.nbytes for f in files)
    refuse_busy(target)
    seen = folder_number(target)
    source = export.plan.source
    jobs = make_jobs(export, files, target, sha256=sha256)
    found, jobs = _resumed(target, source, jobs) if resume else (None, jobs)
    new = [job.file for job in jobs if job.kept is None]
    check_target(target, source, overwrite=overwrite, nbytes=room_for(new, source, target))
    results: list[ShardResult] = []
    try:
        with staged(target, found, lambda error: bool(results) and (resume or _is_lost(error))) as part:
            clear(part, {job.name for job in jobs if job.kept is not None})
            meter = Meter(2 * sum(job.nbytes for job in jobs), progress, cancelled, rest=Rest() if nice else None)
            keep = _notes(part, target, source, jobs, results)
            jobs = tuple(replace(job, folder=str(part), nice=nice) for job in jobs)
            laps.lap("plan")
            if executor is None:
                run_here(jobs, source, meter, workers, keep)
            else:
                run_on(executor, jobs, part, meter, workers, keep)
            laps.lap("files")
            clear(part, {JOURNAL, *(job.name for job in jobs)})  # what a worker that was lost has begun
            report = make_report(export, files, results)
            _write_small_files(part, export, report, index)
            (part / JOURNAL).unlink(missing_ok=True)
            check_unchanged(source)
            commit(part, target, overwrite=overwrite, seen=seen)
            laps.lap("commit")
    except OSError as error:
        raise _disk_error(error, target, needed) from error
    return WriteResult(
        folder=str(target),
        files=tuple(sorted(os.listdir(target))),
        tensors=sum(len(f.keys) for f in files),
        verified=sum(result.verified for result in results),
        nbytes=needed,
        seconds=sum(laps.seconds.values()),
        phases=_phases(laps, results),
        overflow=sum(sum(result.filled.overflow.values()) for result in results),
        report=report,
        resumed=sum(result.resumed for result in results),
        shared=sum(result.filled.shared for result in results),
    )


def _is_lost(error: BaseException | None) -> bool:
    """Return True if an export failed because its cluster is gone: nothing is wrong with what is written."""
    return isinstance(error, CheckpointError) and error.code == CLUSTER_FAILED


def can_resume(export: Export, folder: str | os.PathLike[str]) -> bool:
    """Say whether an interrupted export to that folder was this one, and has left files to go on from."""
    target = Path(os.path.abspath(folder))
    found = interrupted(target)
    jobs = make_jobs(export, plan_files(export)[0], target, sha256=False)
    return found is not None and fits(found, head_of(target, export.plan.source, jobs))


def _resumed(target: Path, source: Source, jobs: tuple[ShardJob, ...]) -> tuple[Path | None, tuple[ShardJob, ...]]:
    """Return the folder to go on in, if there is one, and the jobs with what is there already."""
    found = interrupted(target)
    if found is None:
        return None, jobs
    refuse_other(found, head_of(target, source, jobs))
    return found.leftover.path, with_kept(jobs, found)


def _notes(
    part: Path, target: Path, source: Source, jobs: tuple[ShardJob, ...], results: list[ShardResult]
) -> Callable[[ShardJob, ShardResult], None]:
    """Return what is told of every file that is done; of several files a journal is kept."""
    journal = Journal(part, head_of(target, source, jobs)) if len(jobs) > 1 else None

    def keep(job: ShardJob, result: ShardResult) -> None:
        if journal is not None:
            journal.note(job, result)
        results.append(result)

    return keep


def _phases(laps: Laps, results: Sequence[ShardResult]) -> dict[str, float]:
    """Return the seconds of all phases; what the jobs say may be more than it took, where they ran side by side."""
    of_jobs = {name: sum(r.seconds.get(name, 0.0) for r in results) for name in ("check", "write", "verify")}
    return {"plan": laps.seconds["plan"], **of_jobs, "commit": laps.seconds["commit"]}


def refuse_blocked(export: Export) -> None:
    """Raise the first finding that blocks an export, and the pair that nobody has compared."""
    if export.blocked:
        first = export.blocked[0]
        raise CheckpointError(first.code, first.message, fix=first.fix, key=first.keys[0] if first.keys else None)
    facts = export.plan.evidence.replicas
    if any(replica.name not in facts for replica in export.plan.replicas):
        raise CheckpointError(
            "replica-unchecked", "What the ranks hold alike must be compared before anything is written."
        )
    if export.plan.tie.state == "unchecked":
        raise CheckpointError(
            "tied-unchecked", "The embedding and the output head must be compared before anything is written."
        )


def check_unchanged(source: Source) -> None:
    """Raise if a file of the source is not as it was when it was opened.

    Raises:
        CheckpointError: Somebody wrote, replaced or removed it.
    """
    for path in changed_files(source):
        text = f"{safe_text(path)} changed while it was read; what was written would be a mixture."
        raise CheckpointError("damaged", text, fix="Open it again once no other program writes to it.", path=path)


def _write_small_files(part: Path, export: Export, report: Mapping[str, Any], index: Mapping[str, str]) -> None:
    """Write config, sidecars and report; the index last, so that it never names what is not there."""
    for name, text in export.texts.items():
        write_text(part / name, text)
    for name, origin in export.carried.items():
        if not (part / name).exists():
            copy_file(origin, part / name)
    write_text(part / REPORT, json.dumps(report, indent=1) + "\n")
    for name, text in index.items():
        write_text(part / name, text)


def _disk_error(error: OSError, target: Path, needed: int) -> CheckpointError:
    shown = safe_text(str(target))
    text = f"{shown} could not be written: {error.strerror or error} (nothing was kept there)."
    free, fix = free_bytes(target), "Check the disk's free space and your permissions."
    if error.errno in _FULL:
        text += f" {human_bytes(needed)} are needed and {human_bytes(free)} are free."
    if error.errno == errno.EFBIG:
        fix = "No file may be as large here: look at `ulimit -f` and at the file system, or write smaller shards."
    elif error.errno in _FULL and free > needed:
        fix = "There is space now: look at your quota, and at the number of files that there may be (`df -i`)."
    return CheckpointError("target-refused", text, fix=fix, path=str(target))
