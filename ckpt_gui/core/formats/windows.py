"""Going through a long text of entries that are spelled alike, piece by piece.

One call of C code over the 10 MB of a header keeps every other thread of the program from running for as long as it
takes: a window would stand still. Here each is short.
"""

from __future__ import annotations

from collections.abc import Iterator

SIZE = 1 << 19  # characters: about 5 ms
BLANK = " \t\r\n"  # what JSON allows between its parts


def cut(text: str, start: int, end: int, closing: str, between: str) -> Iterator[str]:
    """Yield pieces of some entries each, every entry with what stands between it and the next; the last one too.

    Args:
        text: The text.
        start: Where the first entry begins, with a quote.
        end: Where the last one ends; blanks may stand before.
        closing: How an entry ends.
        between: What stands between two entries.
    """
    mark = f'{closing}{between}"'
    while True:
        found = text.find(mark, start + SIZE, end)
        if found < 0:
            yield text[start:end].rstrip(BLANK) + between
            return
        stop = found + len(mark) - 1
        yield text[start:stop]
        start = stop
