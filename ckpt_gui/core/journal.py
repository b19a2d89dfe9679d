"""What an interrupted export has already done: a small file beside its files, and how the next run goes on from it.

The first line says of which source and plan the files are, by digest; one line follows for every file that is whole and
verified. Nothing is believed unseen: a file that is kept is read again and compared with the CRC-32s of its line.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from ckpt_gui import dataclasses
from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.fill import Filled
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.leftovers import Leftover, abandoned
from ckpt_gui.core.shards import ShardJob, ShardResult, job_digest, source_digest
from ckpt_gui.core.source import Source
from ckpt_gui.core.version import version
from ckpt_gui.dataclasses import dataclass

NAME = ".ckpt-gui-journal"
_SCHEMA = 1
_ANEW = "Remove it, or leave out --resume to begin anew."


@dataclass(frozen=True, slots=True)
class Head:
    """Of what the files beside a journal are.

    Attributes:
        target: The folder that the export was to become.
        path: What it is made from.
        source: Digest of the source.
        plan: Digest of the jobs and of the version of this program.
    """

    target: str
    path: str
    source: str
    plan: str


@dataclass(frozen=True, slots=True)
class Interrupted:
    """An export that can be gone on with.

    Attributes:
        leftover: Its folder.
        head: Of what it is.
        done: What each file holds that was whole and verified, by the digest of its job.
    """

    leftover: Leftover
    head: Head
    done: Mapping[str, Filled]


def head_of(target: Path, source: Source, jobs: Sequence[ShardJob]) -> Head:
    """Return what a journal of these jobs begins with."""
    digest = hashlib.sha256("\n".join([version(), *map(job_digest, jobs)]).encode()).hexdigest()
    return Head(str(target), source.path, source_digest(source), digest)


class Journal:
    """Notes every file that is done; each line is on the disk before the next file is begun."""

    def __init__(self, part: Path, head: Head) -> None:
        """Begin a journal in the folder of an export."""
        self.path = part / NAME
        self.path.unlink(missing_ok=True)
        self._add({"schema": _SCHEMA, **dataclasses.asdict(head)})

    def note(self, job: ShardJob, result: ShardResult) -> None:
        """Note a file that is whole and verified."""
        filled = result.filled
        self._add({"job": job_digest(job), "crcs": dict(filled.crcs), "overflow": dict(filled.overflow)})

    def _add(self, row: Mapping[str, Any]) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
            file.flush()
            os.fsync(file.fileno())


def read_journal(found: Leftover) -> Interrupted | None:
    """Return what a leftover says of itself; None if it has no journal that can be understood."""
    try:
        lines = (found.path / NAME).read_text(encoding="utf-8").splitlines()
        first, *rest = lines or [""]
        head = json.loads(first)
        if head.pop("schema") != _SCHEMA:
            return None
        rows = [json.loads(line) for line in rest if line.endswith("}")]  # the last line may be cut short
        done = {row["job"]: Filled(row["crcs"], row["overflow"]) for row in rows}
        return Interrupted(found, Head(**head), done)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def interrupted(target: Path) -> Interrupted | None:
    """Return the last export to a folder that was interrupted and has files to go on from; None if there is none."""
    read = [read_journal(one) for one in abandoned(target) if not one.is_old]
    fits = [one for one in read if one is not None and one.done and one.head.target == str(target)]
    return max(fits, key=lambda one: one.leftover.modified, default=None)


def fits(found: Interrupted, head: Head) -> bool:
    """Say whether it was the very same export."""
    return (found.head.source, found.head.plan) == (head.source, head.plan)


def refuse_other(found: Interrupted, head: Head) -> None:
    """Raise unless it was the very same export.

    Raises:
        CheckpointError: Its source has changed, or it was another plan.
    """
    if fits(found, head):
        return
    shown = safe_text(str(found.leftover.path))
    if found.head.source != head.source:
        text = f"What was interrupted ({shown}) cannot be resumed: its source was another, or has changed since."
    else:
        text = (
            f"What was interrupted ({shown}) cannot be resumed: it was another export of this source, "
            "with other choices or by another version of this program."
        )
    raise CheckpointError("target-refused", text, fix=_ANEW, path=str(found.leftover.path))


def with_kept(jobs: Sequence[ShardJob], found: Interrupted) -> tuple[ShardJob, ...]:
    """Return the jobs with what is known of the files that are there already."""
    return tuple(dataclasses.replace(job, kept=found.done.get(job_digest(job))) for job in jobs)


def clear(part: Path, kept: Collection[str]) -> None:
    """Remove from an export's folder all but some files, which are whole."""
    for path in list(part.iterdir()):
        if path.name in kept:
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
