"""An export as independent jobs, one a file: each carries its slice of the plan and can be done anywhere, any time.

A job is a small value that can be sent to another process or machine. It is idempotent: it fills a file of its own
beside the wanted one, verifies it, and renames it; done twice, the same bytes stand there. Index, config and report are
written by the one who made the jobs, once, after the last of them.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from ckpt_gui.core.checked_stream import unchecked
from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.export import Export
from ckpt_gui.core.fill import Filled, fill_file
from ckpt_gui.core.formats.verify import verify_used
from ckpt_gui.core.meter import Meter
from ckpt_gui.core.niceness import Rest
from ckpt_gui.core.origin import Origin, lasting, open_origin, origin_of
from ckpt_gui.core.out_files import OutFile
from ckpt_gui.core.read_back import verify
from ckpt_gui.core.source import Source
from ckpt_gui.core.tensors import TensorRef
from ckpt_gui.core.timing import Laps
from ckpt_gui.dataclasses import dataclass

_READ = 1 << 20  # bytes of a file that are summed at once
STOP = ".stop"  # in the folder of an export: the jobs that find it give up


@dataclass(frozen=True, slots=True)
class ShardJob:
    """All that is needed to write one file of an export.

    Attributes:
        folder: Where it shall be.
        file: Its tensors, how each is made, and where every byte lies.
        origin: What it is made from.
        dims: Sizes that the ops need.
        checks: Stored tensors whose checksums are compared before anything is written.
        sha256: Return the file's SHA-256 too.
        workers: Threads that read and write.
        nice: Pause as long as it works.
        kept: What a file of that name holds which an interrupted export has left; it is kept if it is so.
    """

    folder: str
    file: OutFile
    origin: Origin
    dims: Mapping[str, int]
    checks: tuple[TensorRef, ...] = ()
    sha256: bool = False
    workers: int = 1
    nice: bool = False
    kept: Filled | None = None

    @property
    def name(self) -> str:
        """The file's name."""
        return self.file.name

    @property
    def nbytes(self) -> int:
        """Bytes of its tensors."""
        return sum(part.entry.output.nbytes for part in self.file.parts)


@dataclass(frozen=True, slots=True)
class ShardResult:
    """What a job has done: the file is whole, verified and on the disk.

    Attributes:
        name: The file's name.
        nbytes: Its bytes.
        filled: CRC-32 and overflows of its parts.
        verified: Tensors that were read back and found equal.
        digest: Equal for two results exactly when the files are the same, as far as CRC-32 can tell.
        sha256: The file's SHA-256, if it was asked for.
        seconds: How long checking, writing and verifying took.
        resumed: True if the file was there already.
    """

    name: str
    nbytes: int
    filled: Filled
    verified: int
    digest: str
    sha256: str | None
    seconds: Mapping[str, float]
    resumed: bool = False


def make_jobs(export: Export, files: tuple[OutFile, ...], folder: Path, *, sha256: bool) -> tuple[ShardJob, ...]:
    """Return one job for every file.

    A stored tensor whose checksum must be compared before is so by the first job that reads it.
    """
    source, dims = export.plan.source, dict(export.plan.dims)
    seen: set[tuple[str, str]] = set()
    jobs = []
    for file in files:
        refs = [ref for part in file.parts for ref in part.entry.inputs]
        wanted = {(ref.file, ref.storage): ref for part in file.parts for ref in unchecked(source, part)}
        checks = tuple(ref for place, ref in wanted.items() if place not in seen)
        seen |= wanted.keys()
        jobs.append(ShardJob(str(folder), file, origin_of(source, refs), dims, checks, sha256))
    return tuple(jobs)


def job_digest(job: ShardJob) -> str:
    """Return what is equal for two jobs exactly when they write the same: the slice of the plan, not the place."""
    digest = hashlib.sha256()
    for words in _facts(job):
        digest.update(words)
    return digest.hexdigest()


def _facts(job: ShardJob) -> Iterator[bytes]:
    file = job.file
    yield repr((file.name, file.layout.nbytes, sorted(file.layout.offsets.items()), sorted(job.dims.items()))).encode()
    for part in file.parts:
        yield repr((part.name, part.entry.output, part.entry.expr)).encode()
    for offset, data in file.layout.patches(dict.fromkeys(file.layout.offsets, 0)):
        yield offset.to_bytes(8, "little") + data


def source_digest(source: Source) -> str:
    """Return what is equal for two sources exactly when their files are the same, by name, place, size and times."""
    files = [(*lasting(file), *file.identity[4:]) for file in source.files]  # ctime: nobody can set it back
    return hashlib.sha256(repr([source.path, source.taken, *files]).encode()).hexdigest()


def run_shard(job: ShardJob) -> ShardResult:
    """Do a job, in any process that sees the source and the target's folder.

    Raises:
        Cancelled: The file `.stop` has appeared in the folder.
        CheckpointError: The source cannot be read, changed or is damaged; or the result is not what was meant.
        OSError: The target cannot be written.
    """
    stop = Path(job.folder, STOP)
    with open_origin(job.origin) as source:
        meter = Meter(2 * job.nbytes, cancelled=stop.exists, rest=Rest() if job.nice else None)
        return write_shard(job, source, meter, job.workers)


def write_shard(job: ShardJob, source: Source, meter: Meter, workers: int) -> ShardResult:
    """Do a job with a source that is open already; see `run_shard`."""
    laps = Laps()
    place = Path(job.folder, job.name)
    if job.kept is not None and _is_whole(place, job, job.kept, meter, workers):
        laps.lap("verify")
        return _result(job, job.kept, place, laps, resumed=True)
    verify_used(source, job.checks, meter.progress, meter.cancelled)
    laps.lap("check")
    path = place.with_name(f".{secrets.token_hex(4)}-{job.name}")
    try:
        filled = fill_file(path, job.file, source, job.dims, meter, workers)
        laps.lap("write")
        verify(path, job.file, filled, meter, workers)
        laps.lap("verify")
        os.replace(path, place)
    except BaseException:
        with suppress(OSError):  # what failed first is told
            path.unlink(missing_ok=True)
        raise
    return _result(job, filled, place, laps, resumed=False)


def _result(job: ShardJob, filled: Filled, place: Path, laps: Laps, *, resumed: bool) -> ShardResult:
    digest = hashlib.sha256(repr((job_digest(job), sorted(filled.crcs.items()))).encode()).hexdigest()
    sha256 = _sha256(place) if job.sha256 else None
    laps.lap("verify")
    return ShardResult(
        job.name, job.file.layout.nbytes, filled, job.file.weights, digest, sha256, laps.seconds, resumed
    )


def _is_whole(place: Path, job: ShardJob, kept: Filled, meter: Meter, workers: int) -> bool:
    """Read a file of an interrupted export again; one that is not as it was is written anew."""
    before = meter.done
    try:
        if os.stat(place).st_size != job.file.layout.nbytes:
            return False
        verify(place, job.file, kept, meter, workers)
    except (OSError, CheckpointError):
        meter.rewind(before)
        return False
    meter.add("Verifying", job.nbytes)
    return True


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(_READ):
            digest.update(block)
    return digest.hexdigest()
