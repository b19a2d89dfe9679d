"""Git LFS: what a pointer says of the file that it stands for, and where a clone may have that file already."""

from __future__ import annotations

import os
import re
from typing import NamedTuple

SPEC = b"version https://git-lfs.github.com/spec/"
MAX_POINTER = 1024  # the format's own limit
_FIELDS = re.compile(rb"oid sha256:([0-9a-f]{64})\s+size (\d{1,20})")


class Pointer(NamedTuple):
    """What a pointer says of the file.

    Attributes:
        sha256: Its SHA-256, in hexadecimal digits.
        size: Its bytes.
    """

    sha256: str
    size: int


def is_pointer(head: bytes) -> bool:
    """True if a file that begins like this is a Git LFS pointer."""
    return head.startswith(SPEC)


def parse_pointer(head: bytes) -> Pointer | None:
    """Return what a pointer says; None if it is none, or damaged."""
    found = _FIELDS.search(head) if is_pointer(head) else None
    return Pointer(found[1].decode(), int(found[2])) if found else None


def find_object(path: str, pointer: Pointer) -> str | None:
    """Return where the clone that holds a pointer keeps the real file; None if it was not fetched."""
    folder = os.path.dirname(os.path.abspath(path))
    while True:
        objects = os.path.join(folder, ".git", "lfs", "objects")
        if os.path.isdir(objects):
            sha256 = pointer.sha256
            there = os.path.join(objects, sha256[:2], sha256[2:4], sha256)
            return there if os.path.isfile(there) else None
        parent = os.path.dirname(folder)
        if parent == folder:
            return None
        folder = parent
