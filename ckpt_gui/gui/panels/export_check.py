"""What is known of an export before it starts and after it ended; what takes long is for jobs."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from ckpt_gui.core.api import compared
from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.export import Export
from ckpt_gui.core.out_files import plan_files
from ckpt_gui.core.report import export_json, export_page, missing_for_use, sarif, use_sentences, written_sentence
from ckpt_gui.core.report.as_file import report_text
from ckpt_gui.core.retarget import retarget
from ckpt_gui.core.room import room_for
from ckpt_gui.core.target_folder import check_target, existing_parent
from ckpt_gui.core.text import human_bytes, plural
from ckpt_gui.core.writer import WriteResult, can_resume, write_export
from ckpt_gui.dataclasses import dataclass
from ckpt_gui.gui.language import said
from ckpt_gui.gui.snapshot import Snapshot

Progress = Callable[[str, int, int], None]
Asked = Callable[[], bool]


@dataclass(frozen=True, slots=True)
class Check:
    """A target looked at.

    Attributes:
        folder: The folder that was looked at.
        nbytes: Bytes of the files of tensors to be written.
        files: Number of these files.
        free: Bytes free where the folder will be; None if that can not be told.
        existing: Entries in the folder now.
        changed: When it was last changed, in seconds since 1970; 0 if it is absent.
        problem: Why the folder is refused; empty if it is not.
        fix: What can be done about it.
    """

    folder: str
    nbytes: int = 0
    files: int = 0
    free: int | None = None
    existing: int = 0
    changed: float = 0.0
    problem: str = ""
    fix: str = ""


@dataclass(frozen=True, slots=True)
class Written:
    """What was written, and the command that writes it again."""

    export: Export
    result: WriteResult
    command: str


def check_folder(export: Export, folder: str) -> Check:
    """Look at the target: what it holds, what is free, and whether it can be written at all."""
    if not folder.strip():
        return Check(folder, problem="No folder is named.")
    path = Path(folder)
    nbytes = number = existing = 0
    changed, free = 0.0, None
    try:
        files, _ = plan_files(export)
        nbytes, number = sum(file.layout.nbytes for file in files), len(files)
        free = shutil.disk_usage(existing_parent(path)).free
        if path.is_dir():
            existing, changed = len(os.listdir(path)), path.stat().st_mtime
        check_target(path, export.plan.source, overwrite=True, nbytes=room_for(files, export.plan.source, path))
    except CheckpointError as error:
        return Check(folder, nbytes, number, free, existing, changed, error.message, error.fix or "")
    except OSError as error:
        return Check(folder, nbytes, number, free, existing, changed, f"{error.strerror or error}.")
    return Check(folder, nbytes, number, free, existing, changed)


def run_export(
    snapshot: Snapshot, folder: str, *, overwrite: bool, workers: int, progress: Progress, cancelled: Asked
) -> tuple[Export, WriteResult]:
    """Write a snapshot's export, the tied pair compared first if nobody has; return what was written.

    One that was interrupted, and is the same, is gone on with.
    """
    plan = compared(snapshot.plan, progress=progress, cancelled=cancelled)
    export = snapshot.export if plan is snapshot.plan else retarget(plan, snapshot.decisions.target)
    resume = can_resume(export, folder)
    return export, write_export(
        export, folder, overwrite=overwrite, workers=workers, progress=progress, cancelled=cancelled, resume=resume
    )


def save_report(path: str, export: Export, result: WriteResult) -> None:
    """Write the report of an export in the form that the ending of its name asks for."""
    sentence = written_sentence(result.folder, result.verified, result.tensors, result.nbytes, result.seconds)
    document = export_page(export, sentence, "good", result.files)
    numbers = {name: getattr(result, name) for name in ("folder", "tensors", "verified", "nbytes", "overflow")}
    value = export_json(export, "written", numbers | {"files": list(result.files)})
    text = report_text(path, document, value, sarif(export.plan.source.path, export.findings))
    Path(path).write_text(text, encoding="utf-8")


def file_lines(result: WriteResult) -> tuple[tuple[str, int | None], ...]:
    """Return the names of the files written, those of tensors with their bytes, these first."""
    sizes = {row["name"]: row["bytes"] for row in result.report.get("files", ())}
    return tuple(sorted(((name, sizes.get(name)) for name in result.files), key=lambda row: (row[1] is None, row[0])))


def notes(export: Export, result: WriteResult) -> tuple[str, ...]:
    """Return what should be known of a written export: how to use it, and what a cast did."""
    found = list(use_sentences(result.report.get("use_with") or {}))
    if result.resumed:
        files = plural(result.resumed, "file")
        found.append(said("{files} of the interrupted export were whole, and kept.").format(files=files))
    if result.overflow:
        found.append(f"{result.overflow:,} finite values became infinite in the cast to {export.target.dtype}.")
    found += [f.message for f in missing_for_use(export)]
    found += [f"Left out: {name}." for name in export.left_out]
    return tuple(found)


def refusal(snapshot: Snapshot | None, check: Check | None, *, overwrite: bool) -> str:
    """Return why an export can not start, in text that may be foreign; empty if it can."""
    if snapshot is None:
        return said("No checkpoint is open.")
    if snapshot.export.blocked:
        return snapshot.export.blocked[0].message
    if snapshot.unconfirmed:
        return said("{step} is likely, not certain: tick it first.").format(step=snapshot.unconfirmed[0].title)
    if check is None:
        return said("The folder is being looked at.")
    if check.problem:
        return check.problem
    return said("The folder is not empty.") if check.existing and not overwrite else ""


def summary(snapshot: Snapshot, check: Check | None) -> str:
    """Say how much an export writes and how much room there is, or that it is blocked."""
    number = len(snapshot.export.blocked)
    if number:
        words = said("{n} findings block the export: see above.").format(n=number)
        return said("One finding blocks the export: see above.") if number == 1 else words
    parts = [plural(len(snapshot.export.entries), "tensor")]
    if check is not None and check.files:
        files = plural(check.files, "file")
        parts.append(said("{size} in {files}").format(size=human_bytes(check.nbytes), files=files))
    else:
        parts.append(human_bytes(snapshot.export.nbytes))
    if check is not None and check.free is not None:
        parts.append(said("{free} free").format(free=human_bytes(check.free)))
    return " · ".join(parts)
