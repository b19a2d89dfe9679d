"""What killed exports leave behind: hidden folders beside the target, known by their names.

An export that ends in any way but SIGKILL or a power cut removes its own. The rest is found here, at the next start or
the next export to the same place, and removed only when somebody says so.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.target_folder import MARK, OLD, PREFIX, SUFFIX, existing_parent, machine_mark, shortened
from ckpt_gui.dataclasses import dataclass

SILENCE = 600  # seconds without a byte after which an export on another machine is taken to be dead


@dataclass(frozen=True, slots=True)
class Leftover:
    """A hidden folder of an export.

    Attributes:
        path: Where it is.
        nbytes: Bytes of the files in it.
        modified: When anything in it was last added or removed, in seconds since 1970.
        runs: True while the program that made it is still there: it may be in work. Of one on another machine nobody
            here can tell; it is taken to be there while something was written of late.
        is_old: True if it holds what stood at the target before, and not what was being written.
    """

    path: Path
    nbytes: int
    modified: float
    runs: bool
    is_old: bool

    @property
    def target(self) -> str:
        """The name of the folder that the export was to become (its beginning, if it is long)."""
        return _parts(self.path.name).target

    @property
    def process(self) -> str:
        """The number of the program that made it."""
        return _parts(self.path.name).process


def leftovers(folder: Path) -> tuple[Leftover, ...]:
    """Return the hidden folders of exports in a folder (if there is none such, in the nearest one above)."""
    parent = folder if folder.is_dir() else existing_parent(folder)
    ours = sorted(p for p in _listed(parent) if p.name.startswith(PREFIX) and p.name.endswith(SUFFIX))
    return tuple(_look(path) for path in ours)


def abandoned(target: Path) -> tuple[Leftover, ...]:
    """Return those beside a target whose program no longer runs."""
    return tuple(found for found in leftovers(existing_parent(target)) if not found.runs)


def refuse_busy(target: Path) -> None:
    """Raise if another program is writing to a folder.

    Raises:
        CheckpointError: It is; the sentence says which.
    """
    wanted = shortened(target.name)
    for found in leftovers(target.parent) if target.parent.is_dir() else ():
        if found.runs and not found.is_old and found.target == wanted:
            text = f"{safe_text(str(target))} is being written by another export (process {found.process})."
            fix = "Wait until it has ended, or name another folder."
            raise CheckpointError("target-refused", text, fix=fix, path=str(target))


def remove(found: Leftover) -> None:
    """Remove one.

    Raises:
        CheckpointError: Its program still runs, or the system refuses.
    """
    shown = safe_text(str(found.path))
    if _look(found.path).runs:
        raise CheckpointError("target-refused", f"{shown} is still being written.", fix="Wait until it is done.")
    try:
        shutil.rmtree(found.path)
    except OSError as error:
        text = f"{shown} could not be removed: {error.strerror or error}."
        raise CheckpointError("target-refused", text, fix="Check your permissions.", path=str(found.path)) from error


def _look(path: Path) -> Leftover:
    name = _parts(path.name)
    try:
        modified = path.lstat().st_mtime
    except OSError:  # removed meanwhile by the one who made it
        modified = 0.0
    nbytes, latest = _size(path)
    if not name.process.isascii() or not name.process.isdigit():
        runs = False
    elif name.machine not in ("", machine_mark()):
        runs = time.time() - max(latest, modified) < SILENCE
    else:
        runs = _runs(name.process, modified)
    return Leftover(path, nbytes, modified, runs, name.is_old)


class _Name(NamedTuple):
    target: str
    process: str  # its number
    machine: str  # its mark; empty in names that have none
    is_old: bool


def _parts(name: str) -> _Name:
    """Split `.ckpt-gui-NAME-PID-RANDOM[-old].part`; the random part begins with the mark of a machine."""
    middle = name.removeprefix(PREFIX).removesuffix(SUFFIX)
    words = middle.removesuffix(OLD).rsplit("-", 2)
    process, last = words[1:] if len(words) == 3 else ("", "")
    return _Name(words[0], process, last[:MARK] if len(last) == 2 * MARK else "", middle.endswith(OLD))


def _runs(number: str, modified: float) -> bool:
    """True if the process of that number works here and is not younger than what it is said to have made."""
    if os.name == "nt":
        return False
    try:
        os.kill(int(number), 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:  # it is somebody else's
        pass
    try:
        born = os.stat(f"/proc/{number}").st_ctime  # numbers are given out again after a restart
        state = Path(f"/proc/{number}/stat").read_text(errors="replace").rpartition(")")[2].split()[0]
    except OSError:  # there is no /proc here
        return True
    return born <= modified + 1 and state not in ("Z", "X")  # killed, and nobody has taken note: it writes no more


def _size(path: Path) -> tuple[int, float]:
    """Return the bytes of all files in a folder, and when one was last written to."""
    total, latest = 0, 0.0
    for folder, _, names in os.walk(path):
        for name in names:
            try:
                info = os.lstat(os.path.join(folder, name))
            except OSError:  # removed meanwhile
                continue
            total, latest = total + info.st_size, max(latest, info.st_mtime)
    return total, latest


def _listed(folder: Path) -> Iterable[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return ()
