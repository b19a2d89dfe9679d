"""Bytes after the end of a container: how many there are, and what they look like."""

from __future__ import annotations

from ckpt_gui.core.errors import Finding
from ckpt_gui.core.formats.file_errors import show_path
from ckpt_gui.core.formats.files import HeldFile

SAMPLE = 4096


def find_trailing(file: HeldFile, count: int, what: str) -> list[Finding]:
    """Return a finding about the last bytes of a file, if there are any.

    Args:
        file: The open file.
        count: Bytes after the end.
        what: The end of what, in words.
    """
    if not count:
        return []
    head = file.read(file.size - count, min(count, SAMPLE))
    message = (
        f"{show_path(file.name)} has {count:,} bytes after the end of {what} ({_describe(head)}); "
        "the usual loader may refuse such a file. What lies before them is whole."
    )
    return [Finding("trailing-bytes", "warning", message, fix="The export leaves the extra bytes out.")]


def _describe(head: bytes) -> str:
    if not head.strip(b"\0"):
        return "zeros"
    if head.startswith(b"PK\x03\x04"):
        return "they begin as a zip archive: a zip archive may be hidden there"
    try:
        return "text" if all(c.isprintable() or c.isspace() for c in head.decode("utf-8")) else "neither text nor zeros"
    except UnicodeDecodeError:
        return "neither text nor zeros"
