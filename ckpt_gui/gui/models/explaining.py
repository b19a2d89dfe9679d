"""What the box that explains a message shows: worked out in a job, from the message and what is open."""

from __future__ import annotations

import os

from ckpt_gui.core.explain import LIMIT, Explanation, Opened, explain, paths_in
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.text import plural
from ckpt_gui.dataclasses import dataclass

EMPTY = "Nothing is sent anywhere: the text is looked up in a table of this program."
UNKNOWN = (
    "Nothing in this text is a message that is known here. Paste the last lines too, where the name of the error "
    "stands. Or open the checkpoint here, or run `ckpt-gui check PATH`: what is wrong with the file is found without "
    "a message."
)


@dataclass(frozen=True, slots=True)
class Answer:
    """What is said about a pasted text.

    Attributes:
        told: One line about all of it.
        explanations: What it may mean, the likeliest first.
        files: Checkpoint files that it names and that exist, other than the one that is open.
        path: What is open; empty if nothing.
    """

    told: str
    explanations: tuple[Explanation, ...] = ()
    files: tuple[str, ...] = ()
    path: str = ""


def answer(text: str, opened: Opened | None) -> Answer:
    """Return what is said about a text; slow only for long ones, and for disks that are."""
    path = opened.path if opened else ""
    if not text.strip():
        return Answer(EMPTY, path=path)
    found = explain(text, opened)
    files = tuple(file for file in paths_in(text) if os.path.exists(file) and not _same(file, path))
    if not found:
        return Answer(UNKNOWN, (), files, path)
    told = plural(len(found), "explanation") + ("; the likeliest first." if found[1:] else ".")
    return Answer(told + (" Only the first megabyte was read." if len(text) > LIMIT else ""), found, files, path)


def open_text(path: str) -> str:
    """Return what the button says that opens a file which the message names."""
    return f"Open {safe_text(os.path.basename(path), 60)}"


def _same(file: str, path: str) -> bool:
    return bool(path) and os.path.exists(path) and os.path.samefile(file, path)
