"""Going through the bytes of a long text of entries that are spelled alike, piece by piece.

One call of C code over the 10 MB of a header keeps every other thread of the program from running for as long as it
takes: a window would stand still. Here each is short. And only a piece at a time is decoded: all of it as one string
would be as much memory once more, which costs more to get than to look through.
"""

from __future__ import annotations

from collections.abc import Iterator

SIZE = 1 << 19  # bytes: about 5 ms
BLANK = " \t\r\n"  # what JSON allows between its parts


Text = bytes | bytearray


def cut(text: Text, start: int, end: int, closing: str, between: str) -> Iterator[str]:
    """Yield pieces of some entries each, every entry with what stands between it and the next; the last one too.

    Args:
        text: The text in UTF-8.
        start: Where the first entry begins, with a quote.
        end: Where the last one ends; blanks may stand before.
        closing: How an entry ends.
        between: What stands between two entries.

    Raises:
        UnicodeDecodeError: It is not UTF-8.
    """
    mark = f'{closing}{between}"'.encode()
    while True:
        found = text.find(mark, start + SIZE, end)
        if found < 0:
            yield text[start:end].decode().rstrip(BLANK) + between
            return
        stop = found + len(mark) - 1
        yield text[start:stop].decode()
        start = stop
