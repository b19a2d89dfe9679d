"""What is said of a file that cannot be read, and what to do then: every container says the same."""

from __future__ import annotations

import errno

from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.keys import safe_text

INDEX_FIX = "fix writes a new index: --to same keeps everything else as it is."
SALVAGE_FIX = "Download or copy it again, or write what is whole of it with fix --salvage."
_REASONS = {
    errno.ENOENT: "there is no such file",
    errno.ENOTDIR: "there is no such file",
    errno.EACCES: "permission denied",
    errno.EPERM: "permission denied",
    errno.EISDIR: "it is a folder",
    errno.ELOOP: "its symbolic links run in a circle",
    errno.ENAMETOOLONG: "the name is too long",
    errno.EMFILE: "too many files are open",
    errno.ENFILE: "too many files are open",
    errno.ENXIO: "it is a socket or a device, not a file",
    errno.EIO: "the disk reports an input/output error",
}


def show_path(path: str) -> str:
    """Return a path fit to be shown."""
    return safe_text(path, limit=400)


def explain_os_error(error: OSError, path: str) -> CheckpointError:
    """Turn an operating system's error into a sentence about a file."""
    reason = _REASONS.get(error.errno or 0) or (error.strerror or type(error).__name__)
    code = "damaged" if error.errno == errno.EIO else "not-a-checkpoint"
    return CheckpointError(code, f"{show_path(path)} cannot be read: {reason}.", path=path)
