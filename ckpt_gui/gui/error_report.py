"""What is said of an exception, and the report of it that can be copied: with the trace, without the user's name."""

from __future__ import annotations

import os
import platform
import traceback

from ckpt_gui.core.errors import Cancelled, CheckpointError
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.remote.address import without_secrets
from ckpt_gui.core.version import installed

LIBRARIES = ("PySide6-Essentials", "numpy", "torch", "transformers", "matplotlib")


def error_sentence(error: BaseException) -> str:
    """Return what went wrong in a sentence, and what to do about it; never the trace.

    >>> error_sentence(ZeroDivisionError("division by zero"))
    'Something went wrong inside the program (ZeroDivisionError: division by zero).'
    """
    if isinstance(error, Cancelled):
        return "Stopped."
    if isinstance(error, CheckpointError):
        return " ".join(filter(None, (error.message, error.fix)))
    if isinstance(error, OSError):
        return f"The system says: {error.strerror or error}."
    if isinstance(error, MemoryError):
        return "There is not enough memory for this."
    words = ": ".join(filter(None, (type(error).__name__, str(error).strip())))
    return f"Something went wrong inside the program ({words})."


def is_expected(error: BaseException) -> bool:
    """Return True for what the sentence tells in full: a report would add nothing."""
    return isinstance(error, CheckpointError | Cancelled)


def error_report(error: BaseException, command: str = "") -> str:
    """Return a report for the program's makers.

    Args:
        error: What went wrong.
        command: What has to be run to see it again; empty if nobody knows.
    """
    lines = [error_sentence(error), ""]
    lines += [f"To repeat: {command}", ""] if command else []
    lines += [*(f"{name} {version}" for name, version in versions()), ""]
    lines += ["".join(traceback.format_exception(error)).rstrip()]
    return without_home("\n".join(safe_text(line, 2000) for part in lines for line in part.split("\n"))) + "\n"


def versions() -> tuple[tuple[str, str], ...]:
    """Return the versions of the program, the system, and the libraries that are installed; none is imported."""
    found = [("ckpt_gui", installed("ckpt_gui")), ("Python", platform.python_version()), ("on", platform.platform())]
    found += [(name, installed(name)) for name in LIBRARIES]
    return tuple((name, version) for name, version in found if version)


def without_home(text: str) -> str:
    """Return a text with `~` for the home folder, which has the user's name in it."""
    home = os.path.expanduser("~").rstrip(os.sep)
    text = without_secrets(text)
    return text.replace(home + os.sep, f"~{os.sep}") if len(home) > 1 else text
