"""What has become of the files of an open checkpoint since it was opened."""

from __future__ import annotations

import os
from collections.abc import Iterable

from ckpt_gui.core.formats.regular_file import identity_of
from ckpt_gui.core.remote.address import is_url
from ckpt_gui.core.source import SourceFile
from ckpt_gui.dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Change:
    """A file that is not what it was.

    Attributes:
        kind: `gone`, `replaced` by another file at its path, `shorter`, or `changed` in place.
        path: Where it is, or was.
        identity: What it is now; empty if it is gone.
        lost: Bytes that it is shorter by.
    """

    kind: str
    path: str
    identity: tuple[int, ...] = ()
    lost: int = 0


def changes(files: Iterable[SourceFile]) -> tuple[Change, ...]:
    """Look at files of the disk again; a server is asked only when its file is read."""
    found = (_change(file) for file in files if file.identity and not is_url(file.path))
    return tuple(change for change in found if change is not None)


def change_words(found: tuple[Change, ...]) -> str:
    """Return what happened, and what it means for what is shown.

    >>> change_words((Change("gone", "/m/a.pt"), Change("gone", "/m/b.pt")))
    '`a.pt` and 1 other file are no longer there. What is shown was read before; figures may not come any more.'
    """
    first = found[0]
    name = os.path.basename(first.path)
    others = len(found) - 1
    subject = f"`{name}`" + (f" and {others} other file{'s' if others > 1 else ''}" if others else "")
    be, has = ("are", "have") if others else ("is", "has")
    if first.kind == "gone":
        return f"{subject} {be} no longer there. What is shown was read before; figures may not come any more."
    if first.kind == "replaced":
        return f"The file at this path has changed: {subject} {be} another now. What is shown is that of the old one."
    if first.kind == "shorter":
        return f"{subject} {has} shrunk by {first.lost:,} bytes on the disk. What is beyond can not be read any more."
    return f"{subject} {has} changed on the disk. What is shown may be a mixture of then and now."


def _change(file: SourceFile) -> Change | None:
    try:
        now = identity_of(os.stat(file.path))
    except OSError:
        return Change("gone", file.path)
    if now == tuple(file.identity):
        return None
    if now[:2] != tuple(file.identity[:2]):
        return Change("replaced", file.path, now)
    lost = file.identity[2] - now[2]
    return Change("shorter" if lost > 0 else "changed", file.path, now, max(lost, 0))
