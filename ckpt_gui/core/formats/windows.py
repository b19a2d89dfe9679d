"""Looking for a pattern in a long text piece by piece.

One search of C code through the 10 MB of a header keeps every other thread of the program from running for as long as
it takes: a window would stand still. Here each search is short.
"""

from __future__ import annotations

import re
from typing import Any

SIZE = 1 << 19  # characters: about 10 ms


def find_all(pattern: re.Pattern[str], text: str, start: int, between: str, ahead: int) -> list[Any]:
    """Return what `pattern.findall` finds from a place on, looked for in windows.

    Args:
        pattern: Matches entries that end with `between`, or its first characters.
        text: The text.
        start: Where the first entry begins.
        between: Stands at the end of every entry but the last. Where it stands elsewhere, an entry may be missed.
        ahead: Characters at its end that belong to the next entry, and that the pattern looks at.
    """
    found: list[Any] = []
    while True:
        cut = text.find(between, start + SIZE)
        if cut < 0:
            return found + pattern.findall(text, start) if found else list(pattern.findall(text, start))
        found += pattern.findall(text, start, cut + len(between))
        start = cut + len(between) - ahead
