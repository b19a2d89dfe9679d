"""Write an export: streamed, verified, and put in place only when it is whole.

The order is: check the target; lay every file out; fill the tensors in; headers last; to the disk; open the result
again and compare every tensor (`read_back`); sidecars, index and report (`export_record`); rename.
"""

from __future__ import annotations

import errno
import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.export import Export
from ckpt_gui.core.export_record import make_report
from ckpt_gui.core.fill import BLOCK, Filled, Meter, fill_file, unchecked
from ckpt_gui.core.formats.verify import changed_files, verify_used
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.out_files import OutFile, plan_files
from ckpt_gui.core.read_back import verify
from ckpt_gui.core.target_folder import check_target, commit, copy_file, folder_number, free_bytes, staged, write_text
from ckpt_gui.core.tensors import Source

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


def write_export(
    export: Export,
    folder: str | os.PathLike[str],
    *,
    overwrite: bool = False,
    workers: int = 2,
    progress: Progress | None = None,
    cancelled: Callable[[], bool] | None = None,
    sha256: bool = False,
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

    Raises:
        CheckpointError: Something blocks the export, the target is refused, the source is damaged or changed, the
            disk is full, or the result is not what was meant. Nothing is left behind.
        Cancelled: The user stopped it. Nothing is left behind.
    """
    refuse_blocked(export)
    clock = _Clock()
    target = Path(os.path.abspath(folder))
    files, index = plan_files(export)
    needed = sum(f.layout.nbytes for f in files)
    seen = folder_number(target)
    check_target(target, export.plan.source, overwrite=overwrite, nbytes=needed)
    meter = Meter(2 * sum(p.entry.output.nbytes for f in files for p in f.parts), progress, cancelled)
    clock.lap("plan")
    source = export.plan.source
    verify_used(source, (ref for f in files for p in f.parts for ref in unchecked(source, p)), progress, cancelled)
    clock.lap("check")
    try:
        with staged(target) as part:
            filled = _fill(part, files, export, meter, workers)
            clock.lap("write")
            verified = verify(part, files, filled, meter, workers)
            clock.lap("verify")
            report = make_report(export, files, filled, _hashes(part, files) if sha256 else {})
            _write_small_files(part, export, report, index)
            check_unchanged(export.plan.source)
            commit(part, target, overwrite=overwrite, seen=seen)
            clock.lap("commit")
    except OSError as error:
        raise _disk_error(error, target, needed) from error
    return WriteResult(
        folder=str(target),
        files=tuple(sorted(os.listdir(target))),
        tensors=sum(len(f.keys) for f in files),
        verified=verified,
        nbytes=needed,
        seconds=sum(clock.laps.values()),
        phases=clock.laps,
        overflow=sum(sum(f.overflow.values()) for f in filled.values()),
        report=report,
    )


class _Clock:
    """Seconds of each phase."""

    def __init__(self) -> None:
        self.laps: dict[str, float] = {}
        self._last = time.monotonic()

    def lap(self, name: str) -> None:
        now = time.monotonic()
        self.laps[name], self._last = now - self._last, now


def _fill(part: Path, files: tuple[OutFile, ...], export: Export, meter: Meter, workers: int) -> dict[str, Filled]:
    plan = export.plan
    return {f.name: fill_file(part / f.name, f, plan.source, plan.dims, meter, workers) for f in files}


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
            copy_file(Path(origin), part / name)
    write_text(part / REPORT, json.dumps(report, indent=1) + "\n")
    for name, text in index.items():
        write_text(part / name, text)


def _disk_error(error: OSError, target: Path, needed: int) -> CheckpointError:
    shown = safe_text(str(target))
    text = f"{shown} could not be written: {error.strerror or error} (nothing was kept there)."
    if error.errno in _FULL:
        text += f" {needed:,} bytes are needed and {free_bytes(target):,} are free."
    return CheckpointError(
        "target-refused", text, fix="Check the disk's free space and your permissions.", path=str(target)
    )


def _hashes(part: Path, files: tuple[OutFile, ...]) -> dict[str, str]:
    import hashlib

    found = {}
    for file in files:
        digest = hashlib.sha256()
        with (part / file.name).open("rb") as stream:
            while block := stream.read(BLOCK):
                digest.update(block)
        found[file.name] = digest.hexdigest()
    return found
