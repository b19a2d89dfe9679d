"""What the command palette lists: how well a text fits what was typed, and in what order the rest comes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice

from ckpt_gui.dataclasses import dataclass

MOST_KEYS = 50  # keys of the checkpoint that are listed at once
KEYS_BESIDE = 8  # keys below the commands, where nothing says that only keys are meant
# Commands in the order in which they are wanted while nothing is typed; those used last come before. What can not be
# used now comes last in any case, so that the list begins with fixing where a checkpoint is open, else with opening.
WANTED = (
    "fix-export", "fix", "export", "preview", "plan-all", "next", "check-values", "rename", "map", "merge-adapter",
    "merge-into", "restore-session", "open-file", "open-folder", "open-location", "open-several", "open-sample",
    "explain", "copy-view", "reload", "settings", "shortcuts", "help",
)  # fmt: skip
_WORD_START, _FOLLOWS, _GAP = 8, 5, -1  # points of a letter that is found; a gap costs one a letter


@dataclass(frozen=True, slots=True)
class Entry:
    """A command as the palette shows it.

    Attributes:
        id: Stable name; what is remembered of those used last.
        text: What it says.
        where: Where it stands otherwise, such as `View → Colours`.
        keys: Its shortcut; empty if it has none.
        why: Why it can not be used now; empty if it can.
    """

    id: str
    text: str
    where: str = ""
    keys: str = ""
    why: str = ""


def fit(typed: str, text: str) -> int | None:
    """Return how well a text fits what was typed, or None if its letters are not there in that order.

    Letters that begin a word or follow each other count most.

    >>> fit("ofi", "Open file") > fit("ofi", "Profile info")
    True
    >>> fit("xyz", "Open file") is None
    True
    """
    wanted, within = typed.casefold().replace(" ", ""), text.casefold()
    best: int | None = None
    for start in _starts(wanted, within):
        points = _points(wanted, within, start)
        if points is not None and (best is None or points > best):
            best = points
    return best if wanted else 0


def ranked(typed: str, entries: Iterable[Entry], recent: Sequence[str]) -> list[Entry]:
    """Return the entries that fit, the best first; those used last come first among equals, those that can't be last.

    While nothing is typed, `WANTED` tells the rest. A fit in the text counts more than one in its place.
    """
    used = {name: place for place, name in enumerate(recent)}
    wanted = {} if typed else {name: place for place, name in enumerate(WANTED)}
    found: list[tuple[tuple[int, ...], Entry]] = []
    for number, entry in enumerate(entries):
        points = fit(typed, entry.text)
        if points is None:
            wide = fit(typed, f"{entry.where} {entry.text}")
            points = None if wide is None else wide - 100
        if points is not None:
            places = (used.get(entry.id, len(used)), wanted.get(entry.id, len(wanted)), number)
            found.append(((-points, bool(entry.why), *places), entry))
    return [entry for _, entry in sorted(found, key=lambda pair: pair[0])]


class KeyLookUp:
    """Looks up keys of a checkpoint by parts of them, quickly enough for every letter that is typed.

    Args:
        keys: The keys; half a million take one pass over one string.
    """

    def __init__(self, keys: Iterable[str]) -> None:
        self._keys = tuple(keys)
        self._lower: str | None = None  # all keys, one a line; made when it is first needed
        self._lines: list[str] = []

    def find(self, typed: str, most: int = MOST_KEYS) -> list[str]:
        """Return keys that hold all words that were typed, in the order of the file; `most` at most."""
        words = typed.casefold().split()
        if not words:
            return list(self._keys[:most])
        if self._lower is None:
            self._lines = [key.replace("\n", " ").casefold() for key in self._keys]
            self._lower = "\n".join(self._lines)
        whole = self._lower
        if not all(word in whole for word in words):
            return []
        hits = (number for number, line in enumerate(self._lines) if all(word in line for word in words))
        return [self._keys[number] for number in islice(hits, most)]


def _starts(wanted: str, within: str) -> Iterable[int]:
    """Return the places where the first letter stands, at most the first few."""
    return islice((place for place, letter in enumerate(within) if wanted and letter == wanted[0]), 12)


def _points(wanted: str, within: str, start: int) -> int | None:
    points, place = 0, start - 1
    for letter in wanted:
        found = within.find(letter, place + 1)
        if found < 0:
            return None
        if found == 0 or not within[found - 1].isalnum():
            points += _WORD_START
        elif found == place + 1 and place >= start:
            points += _FOLLOWS
        else:
            points += _GAP * min(found - place, 5)
        place = found
    return points
