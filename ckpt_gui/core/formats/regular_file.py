"""Open regular files and nothing else, and tell one state of a file from another.

A pipe or a device in the place of a file would be waited for without end; a folder can be opened and never read.
"""

from __future__ import annotations

import os
import stat

from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.formats.file_errors import explain_os_error, show_path

Identity = tuple[int, int, int, int, int]
_FLAGS = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def identity_of(info: os.stat_result) -> Identity:
    """Return what tells one state of a file from another."""
    return (info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns)


def open_regular(path: str) -> tuple[int, Identity]:
    """Return a descriptor of a regular file, and the file's identity.

    Raises:
        CheckpointError: It is missing, not a regular file, or may not be read.
    """
    try:
        fd = os.open(path, _FLAGS)
    except (OSError, ValueError) as error:
        if isinstance(error, ValueError):  # a NUL in the path
            raise CheckpointError("not-a-checkpoint", f"{show_path(path)} is not the name of a file.") from error
        raise explain_os_error(error, path) from error
    info = os.fstat(fd)
    if stat.S_ISREG(info.st_mode):
        return fd, identity_of(info)
    os.close(fd)
    kind = next((name for test, name in _KINDS if test(info.st_mode)), "not a regular file")
    raise CheckpointError("not-a-checkpoint", f"{show_path(path)} is {kind}, not a file.", path=path)
