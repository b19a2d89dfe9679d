"""The quick way through a large index, for those as every usual writer spells them.

Cut at its quotes, every fourth piece of `weight_map` is a key and every fourth one a shard. It accepts nothing by
itself: what stands between them must be the same everywhere, no key may stand twice, and what is left of the text
without the pairs is parsed as strictly as ever. Anything else is left to the strict parser for the whole, which then
says what is wrong.
"""

from __future__ import annotations

import re
from typing import Any

from ckpt_gui.core.formats.strict_json import loads
from ckpt_gui.core.formats.windows import BLANK, Text, cut

FIRST = 1 << 16  # bytes in which the first entry ends
LEAST = 1 << 20  # bytes; the strict parser is quick enough for less
_NAME = b'"weight_map"'
_START = _NAME + rb'[ \t\r\n]*:[ \t\r\n]*\{[ \t\r\n]*(?=")'


def scan(text: Text) -> Any:
    """Return the parsed index, or None if it is short or not UTF-8 spelled in the usual way.

    Raises:
        BadJsonError: What stands around the map is refused.
    """
    try:
        return _scan(text)
    except UnicodeDecodeError:
        return None


def _scan(text: Text) -> Any:
    begin = re.search(_START, text) if len(text) >= LEAST else None
    if begin is None or b"\\" in text or text.count(_NAME) != 1:
        return None
    end = text.find(b"}", begin.end())
    first = text[begin.end() : begin.end() + FIRST].decode(errors="ignore").split('"', 5)[1:] if end >= 0 else []
    if len(first) < 5 or first[1].strip(BLANK) != ":" or first[3].strip(BLANK) != ",":
        return None
    places = _pairs(text, begin.end(), end, first[1], first[3])
    if places is None:
        return None
    around = loads((text[: begin.end()] + text[end:]).decode())
    if type(around) is not dict or around.get("weight_map") != {}:
        return None
    around["weight_map"] = places
    return around


def _pairs(text: Text, start: int, end: int, colon: str, comma: str) -> dict[str, str] | None:
    """Return the pairs that stand in a part of a text; None if any of them is spelled in another way."""
    places: dict[str, str] = {}
    shards: dict[str, str] = {}
    total = 0
    for window in cut(text, start, end, '"', comma):
        pieces = window.split('"')[1:]
        count = len(pieces) // 4
        keys, named = pieces[::4], pieces[2::4]
        shards |= {name: name for name in set(named) if name not in shards}
        alike = pieces[1::4].count(colon) == pieces[3::4].count(comma) == count
        if not alike or len(pieces) != 4 * count or not "".join([*keys, *shards]).isprintable():
            return None
        places.update(zip(keys, map(shards.__getitem__, named), strict=True))
        total += count
    return places if len(places) == total else None
