"""What killed exports leave behind: hidden folders beside the target, known by their names.

An export that ends in any way but SIGKILL or a power cut removes its own. The rest is found here, at the next start or
the next export to the same place, and removed only when somebody says so.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.target_folder import OLD, PREFIX, SUFFIX, existing_parent
from ckpt_gui.dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Leftover:
    """A hidden folder of an export.

    Attributes:
        path: Where it is.
        nbytes: Bytes of the files in it.
        modified: When anything in it was last added or removed, in seconds since 1970.
        runs: True while the program that made it is still there: it may be in work.
        is_old: True if it holds what stood at the target before, and not what was being written.
    """

    path: Path
    nbytes: int
    modified: float
    runs: bool
    is_old: bool

    @property
    def target(self) -> str:
        """The name of the folder that the export was to become (its first 100 bytes)."""
        return _parts(self.path.name)[0]


def leftovers(folder: Path) -> tuple[Leftover, ...]:
    """Return the hidden folders of exports in a folder (if there is none such, in the nearest one above)."""
    parent = folder if folder.is_dir() else existing_parent(folder)
    ours = sorted(p for p in _listed(parent) if p.name.startswith(PREFIX) and p.name.endswith(SUFFIX))
    return tuple(_look(path) for path in ours)


def abandoned(target: Path) -> tuple[Leftover, ...]:
    """Return those beside a target whose program no longer runs."""
    return tuple(found for found in leftovers(existing_parent(target)) if not found.runs)


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
    _, number, is_old = _parts(path.name)
    try:
        modified = path.lstat().st_mtime
    except OSError:  # removed meanwhile by the one who made it
        modified = 0.0
    return Leftover(path, _size(path), modified, _runs(number, modified), is_old)


def _parts(name: str) -> tuple[str, str, bool]:
    """Split `.ckpt-gui-NAME-PID-RANDOM[-old].part` into name, number of the process, and whether it is old."""
    middle = name.removeprefix(PREFIX).removesuffix(SUFFIX)
    is_old = middle.endswith(OLD)
    words = middle.removesuffix(OLD).rsplit("-", 2)
    return words[0], words[1] if len(words) == 3 else "", is_old


def _runs(number: str, modified: float) -> bool:
    """True if the process of that number is there and not younger than what it is said to have made."""
    if os.name == "nt" or not number.isascii() or not number.isdigit():
        return False
    try:
        os.kill(int(number), 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:  # it is somebody else's
        pass
    try:
        return os.stat(f"/proc/{number}").st_ctime <= modified + 1  # numbers are given out again after a restart
    except OSError:
        return True


def _size(path: Path) -> int:
    total = 0
    for folder, _, names in os.walk(path):
        for name in names:
            try:
                total += os.lstat(os.path.join(folder, name)).st_size
            except OSError:  # removed meanwhile
                continue
    return total


def _listed(folder: Path) -> Iterable[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return ()
