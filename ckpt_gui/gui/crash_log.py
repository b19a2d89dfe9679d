"""A log of each run that is there only as long as the run is: one that outlives its program tells of a bad end.

Python's faulthandler writes the stacks into it when native code kills the process; warnings and exceptions that nobody
caught go there too. The file is locked while the program runs, so that the next start can tell a dead session from one
that is still open, whatever became of its process number.
"""

from __future__ import annotations

import contextlib
import faulthandler
import logging
import os
import secrets
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from PySide6.QtCore import qVersion

from ckpt_gui.core.remote.address import without_secrets
from ckpt_gui.gui.error_report import versions, without_home

PREFIX, BAD, SUFFIX = "window-", "ended-badly-", ".log"
KEPT = 5  # logs of bad ends
_LOGGER = "ckpt_gui"


def log_folder() -> Path:
    """Return the folder of logs as the system has it."""
    from platformdirs import user_log_path

    return user_log_path("ckpt_gui", appauthor=False)


@contextlib.contextmanager
def crash_log(folder: Path) -> Iterator[Path | None]:
    """Keep a log while the block runs, and remove it when the block ends; None where it can not be written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{PREFIX}{os.getpid()}-{secrets.token_hex(4)}{SUFFIX}"
        stream = path.open("a", encoding="utf-8", errors="backslashreplace")  # which `add_versions` writes to as well
    except OSError:
        yield None
        return
    handler = logging.StreamHandler(stream)
    handler.setLevel(logging.WARNING)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    was_on = faulthandler.is_enabled()
    try:
        _lock(stream)
        stream.write(f"Python {sys.version.split()[0]}, PySide6 {qVersion()}\n")
        stream.write(without_home(without_secrets(f"arguments: {sys.argv[1:]!r}\n\n")))
        stream.flush()
        faulthandler.enable(stream)
        logging.getLogger(_LOGGER).addHandler(handler)
        yield path
    finally:
        logging.getLogger(_LOGGER).removeHandler(handler)
        faulthandler.enable() if was_on else faulthandler.disable()
        stream.close()
        path.unlink(missing_ok=True)


def add_versions(path: Path | None) -> None:
    """Write the versions into a log; finding them out takes longer than a window may wait to be painted."""
    if path is not None:
        with contextlib.suppress(OSError), path.open("a", encoding="utf-8") as stream:  # a full disk is no news here
            stream.write("".join(f"{name} {version}\n" for name, version in versions()) + "\n")


def bad_ends(folder: Path) -> tuple[Path, ...]:
    """Return the logs of sessions that ended badly since the last call, newest first; only the newest few are kept."""
    found = []
    for path in _by_age(folder, PREFIX):
        if not _is_locked(path):
            with contextlib.suppress(OSError):  # another start was quicker
                found.append(path.rename(folder / f"{BAD}{path.name.removeprefix(PREFIX)}"))
    for path in _by_age(folder, BAD)[KEPT:]:
        path.unlink(missing_ok=True)
    return tuple(path for path in found if path.exists())


def _by_age(folder: Path, prefix: str) -> list[Path]:
    """Return the logs of a kind, newest first."""
    found = []
    for path in folder.glob(f"{prefix}*{SUFFIX}"):
        with contextlib.suppress(OSError):  # removed meanwhile by the session that made it
            found.append((path.stat().st_mtime_ns, path))
    return [path for _, path in sorted(found, reverse=True)]


def _lock(stream: IO[str]) -> None:
    """Lock a file as long as it is open.

    Raises:
        OSError: Somebody else has locked it.
    """
    if sys.platform == "win32":
        import msvcrt

        stream.seek(1 << 20)  # a byte far behind the text: Windows lets nobody read what is locked
        msvcrt.locking(stream.fileno(), msvcrt.LK_NBLCK, 1)
        stream.seek(0)
    else:
        import fcntl

        fcntl.flock(stream.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)


def _is_locked(path: Path) -> bool:
    try:
        with path.open("r+", encoding="utf-8", errors="backslashreplace") as stream:
            _lock(stream)
    except OSError:
        return True
    return False
