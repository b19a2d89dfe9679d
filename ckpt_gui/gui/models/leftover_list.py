"""Where killed exports may have left something, and what is said of what they left."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.leftovers import Leftover, leftovers
from ckpt_gui.core.text import human_bytes, plural

if TYPE_CHECKING:
    from ckpt_gui.core.journal import Interrupted


def folders_to_look_in(opened: str | None, targets: Iterable[str]) -> tuple[Path, ...]:
    """Return the folders beside an opened checkpoint and beside the targets of late, each once.

    An export's leftover is a sibling of its target, and targets are proposed beside the source.
    """
    found: dict[Path, None] = {}
    if opened:
        path = Path(opened).absolute()
        found |= dict.fromkeys((path, path.parent) if path.is_dir() else (path.parent,))
    found |= dict.fromkeys(Path(target).absolute().parent for target in targets)
    return tuple(folder for folder in found if folder.is_dir())


def find_leftovers(folders: Iterable[Path], kept: Collection[str]) -> tuple[Leftover, ...]:
    """Return what killed exports left in some folders, without what the user keeps; for a job: it lists folders."""
    found = (one for folder in folders for one in leftovers(folder))
    return tuple(one for one in found if not one.runs and str(one.path) not in kept)


def to_resume(found: Iterable[Leftover]) -> Interrupted | None:
    """Return the last of them that has whole files to go on from; for a job: it reads files."""
    from ckpt_gui.core.journal import read_journal  # and with it what writes: the first window does not wait for it

    read = [read_journal(one) for one in found if not one.is_old]
    return max((one for one in read if one and one.done), key=lambda one: one.leftover.modified, default=None)


def leftover_words(found: Sequence[Leftover]) -> str:
    """Say what was left behind, and where."""
    size = human_bytes(sum(one.nbytes for one in found))
    place = safe_text(str(found[0].path.parent), 200)
    if len(found) == 1:
        return f"An export to `{safe_text(found[0].target, 80)}` was killed before its end and left {size} in {place}."
    where = place if len({one.path.parent for one in found}) == 1 else f"{place} and elsewhere"
    return f"{plural(len(found), 'export')} were killed before their end and left {size} in {where}."


def is_lost(found: Leftover) -> bool:
    """Return True if it holds what stood at a target before, and nothing stands there now: the only copy."""
    return found.is_old and not put_back(found).exists()


def put_back(lost: Leftover) -> Path:
    """Return where what stood at a target before belongs."""
    return lost.path.with_name(lost.target)
