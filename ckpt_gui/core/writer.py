"""Write an export: streamed, verified, and put in place only when it is whole.

The order is: check the target; lay every file out; fill the tensors in; headers last; to the disk; open the result
again with our own reader and compare names, shapes, types and the checksum of every tensor; sidecars, index and report;
rename.
"""

from __future__ import annotations

import errno
import json
import os
import time
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import metadata
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np

from ckpt_gui.core.config_write import hf_config
from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.export import Export
from ckpt_gui.core.export_config import export_dtype
from ckpt_gui.core.fill import BLOCK, Filled, Meter, fill_file, run_jobs, unchecked
from ckpt_gui.core.formats import open_checkpoint
from ckpt_gui.core.formats.verify import changed_files, verify_used
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.out_files import OutFile, plan_files
from ckpt_gui.core.target_folder import check_target, commit, copy_file, free_bytes, staged, write_text
from ckpt_gui.core.tensors import Source, TensorRef

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
            commit(part, target, overwrite=overwrite)
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


def verify(part: Path, files: tuple[OutFile, ...], filled: Mapping[str, Filled], meter: Meter, workers: int) -> int:
    """Open the written files again and compare every tensor; return how many there are.

    Raises:
        CheckpointError: Something is not as it was meant to be.
    """
    for file in files:
        with open_checkpoint(part / file.name) as source:
            _compare(file, source)
            crcs = filled[file.name].crcs
            refs = {leaf.record: ref for leaf, ref in zip(file.leaves, source.refs, strict=True)}

            def job(record: str, source: Source = source, refs: Any = refs, crcs: Any = crcs) -> None:
                if _crc(source, refs[record], meter) != crcs[record]:
                    raise _wrong(refs[record].key, "was read back with other bytes than were written")

            run_jobs(job, list(refs), meter, workers)
    return sum(len(file.keys) for file in files)


def _compare(file: OutFile, source: Source) -> None:
    """Raise unless a written file holds exactly the names, types and shapes that were meant."""
    for leaf, ref in zip_longest(file.leaves, source.refs):
        if ref is None:
            raise _wrong(leaf.spec.key, "is not found in the written file")
        if leaf is None or leaf.spec.key != ref.key:
            raise _wrong(ref.key, "was not to be written")
        if (leaf.spec.dtype, leaf.spec.shape) != (ref.dtype, ref.shape):
            raise _wrong(ref.key, "has another type or shape than planned")
    # Codes of a quantised model that were meant to be carried are no fault of the file.
    worst = next((f for f in source.problems if f.severity == "error" and f.code != "quantised"), None)
    if worst is not None:
        raise _wrong(file.name, f"can not be read as it should ({worst.message.rstrip('.')})")


def _crc(source: Source, ref: TensorRef, meter: Meter) -> int:
    buffer = np.empty(min(BLOCK, ref.nbytes), dtype=np.uint8)
    crc = 0
    for start in range(0, ref.nbytes, BLOCK):
        block = buffer[: min(BLOCK, ref.nbytes - start)]
        source.read_into(ref, start, block.data)
        crc = zlib.crc32(block.data, crc)
        meter.add("Verifying", block.nbytes)
    return crc


def _wrong(key: str, what: str) -> CheckpointError:
    return CheckpointError(
        "verify-failed", f"`{safe_text(key)}` {what}: the disk or the memory may be failing. Nothing was kept.", key=key
    )


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


def make_report(
    export: Export, files: tuple[OutFile, ...], filled: Mapping[str, Filled], hashes: Mapping[str, str]
) -> dict[str, Any]:
    """Return the content of EXPORT_REPORT.json: what was made from what, how, and the checksum of every tensor.

    It holds no time and no folder name, so that the same export gives the same report.
    """
    plan = export.plan
    source = plan.source
    return {
        "schema": 1,
        "tool": {"name": "ckpt_gui", "version": _version()},
        "source": {
            "name": Path(source.path).name,
            "container": source.container,
            "files": [{"name": f.name, "bytes": f.size} for f in source.files],
            "section": list(plan.section),
            "wrappers": list(plan.wrappers),
            "layout": plan.layout.name if plan.layout else None,
        },
        "family": plan.family.name if plan.family else None,
        "layout": export.layout.name if export.layout else None,
        "row_order": dict(plan.family.row_order).get(export.layout.name) if plan.family and export.layout else None,
        "dims": dict(plan.dims),
        "tied": plan.tie.tied,
        "source_config": _true_config(export),
        "steps": [{"id": s.id, "title": s.title, "count": s.count, "evidence": s.evidence} for s in export.steps],
        "use_with": use_with(export),
        "notes": [f.message for f in export.findings],
        "dropped": [{"key": d.ref.full_key, "reason": d.reason} for d in export.dropped],
        "beside": [d.ref.full_key for d in export.beside],
        "left_out": list(export.left_out),
        "files": [_file_report(f, hashes) for f in files],
        "tensors": {
            f"{f.name}: {key}" if export.ranks > 1 else key: row
            for f in files
            for key, row in _tensor_rows(f, filled[f.name], plan.dims)
        },
    }


def _version() -> str:
    try:
        return metadata.version("ckpt_gui")
    except metadata.PackageNotFoundError:
        return "0"


def _true_config(export: Export) -> dict[str, Any] | None:
    """Return the source's Hugging Face config with sizes and tie flag as the tensors have them, for the way back."""
    plan = export.plan
    config = plan.config
    if config is None or not config.is_hf or plan.adapter is not None:
        return None  # Meta's params.json is written as such wherever it is needed
    if plan.family is None:
        return dict(config.raw)
    return hf_config(
        plan.family, config, plan.dims, dtype=export_dtype(export), tied=bool(plan.tie.tied), biases=frozenset()
    )


def _file_report(file: OutFile, hashes: Mapping[str, str]) -> dict[str, Any]:
    row: dict[str, Any] = {"name": file.name, "bytes": file.layout.nbytes, "tensors": len(file.keys)}
    return row | ({"sha256": hashes[file.name]} if file.name in hashes else {})


def _tensor_rows(file: OutFile, filled: Filled, dims: Mapping[str, int]) -> list[tuple[str, dict[str, Any]]]:
    entries = {p.name: p.entry for p in file.parts}
    rows = []
    for key, name in file.keys.items():
        entry = entries[name]
        row: dict[str, Any] = {"from": [r.full_key for r in entry.inputs], "crc32": f"{filled.crcs[name]:08x}"}
        if entry.ops:
            row["ops"] = [op.describe(dims) for op in entry.ops]
        if filled.overflow.get(name):
            row["overflow"] = filled.overflow[name]
        rows.append((key, row))
    return rows


def use_with(export: Export) -> dict[str, str]:
    """Return how the export is used: for torchtune the model_type, and what its own type would do to an untied head."""
    if export.layout is None or export.plan.family is None or export.layout.name not in ("torchtune", "meta"):
        return {}
    if export.ranks > 1:  # torchtune reads one file
        return {}
    tied, tune = bool(export.plan.tie.tied), export.plan.family.layout("torchtune")
    if export.plan.family.name == "llama":
        return _llama_with_torchtune(tied, export.plan.dims.get("vocab", 0))
    if tune is None or not tune.program_type:
        return {}
    note = {"torchtune_model_type": tune.program_type}
    if not tied and tune.always_ties:
        note["warning"] = "The head is its own. torchtune's builders of this family always tie, and refuse it."
    return note


def _llama_with_torchtune(tied: bool, vocab: int) -> dict[str, str]:
    model_type = "LLAMA3_2" if tied else "LLAMA3" if vocab >= 128000 else "LLAMA2"
    if tied:
        return {"torchtune_model_type": model_type}
    warning = (
        "The head is its own. torchtune's LLAMA3_2 builders always tie and would drop it: use "
        f"{model_type} with an untied builder (llama3_1)."
    )
    return {"torchtune_model_type": model_type, "warning": warning}
