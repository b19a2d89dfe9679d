"""Bare pickles: no checkpoints that are read here, yet the ones that carry an attack most often.

A file that is only a pickle is refused like any other stranger; if it would run something, that is said first.
"""

from __future__ import annotations

import re

from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.formats.file_errors import show_path
from ckpt_gui.core.formats.files import HeldFile
from ckpt_gui.core.formats.npy_header import MAX_START, data_start, may_hold_objects
from ckpt_gui.core.keys import safe_text

MAX_BYTES = 64 << 20
MAX_PICKLES = 8
_TEXT_PICKLE = re.compile(rb"\(?c[A-Za-z_][\w.]*\n[A-Za-z_][\w.]*\n|\(i[A-Za-z_][\w.]*\n|[(\]}][ldp]p?\d*\n")


def is_pickle(head: bytes) -> bool:
    """True if a file begins like a pickle of any protocol."""
    return (head[:1] == b"\x80" and head[1:2] in (b"\2", b"\3", b"\4", b"\5")) or _TEXT_PICKLE.match(head) is not None


def find_unsafe(file: HeldFile) -> tuple[str, ...]:
    """Return what the pickles at the start of a file would run in a permissive loader."""
    return unsafe_in(file.read(0, min(file.size, MAX_BYTES)))


def find_unsafe_objects(file: HeldFile) -> tuple[str, ...]:
    """Return what the array of objects in a NumPy array file would run; nothing for an array of numbers."""
    head = file.read(0, min(file.size, MAX_START))
    if not may_hold_objects(head):
        return ()
    start = min(data_start(head), file.size)
    return unsafe_in(file.read(start, min(file.size - start, MAX_BYTES)))


def unsafe_in(data: bytes) -> tuple[str, ...]:
    """Return what the pickles at the start of some bytes would run in a permissive loader."""
    from ckpt_gui.core.formats.pickle_load import PickleError, load_pickle  # most files are looked at and are no pickle

    unsafe: dict[str, None] = {}
    at = 0
    for _ in range(MAX_PICKLES):
        try:
            result = load_pickle(data, start=at)
        except PickleError as error:
            unsafe |= dict.fromkeys(error.unsafe)
            break
        unsafe |= dict.fromkeys(result.unsafe)
        at = result.end
    return tuple(unsafe)


def refusal(file: HeldFile, unsafe: tuple[str, ...], what: str = "is a pickle that") -> CheckpointError:
    """Return the error for a bare pickle, or for `what` else holds one."""
    shown = show_path(file.path)
    if not unsafe:
        message = f"{shown} is a pickle that torch did not write, not a checkpoint that can be read here."
        return CheckpointError("not-a-checkpoint", message, path=file.path)
    names = ", ".join(safe_text(name, 80) for name in unsafe[:8])
    return CheckpointError(
        "unsafe-pickle",
        f"{shown} {what} would run code in a permissive loader: it names {names}. Nothing was run here.",
        fix="Do not load the file with anything.",
        path=file.path,
    )
