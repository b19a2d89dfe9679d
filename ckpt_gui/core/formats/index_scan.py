"""The quick way through a large index, for those as every usual writer spells them.

A regular expression takes the pairs of `weight_map` apart. It accepts nothing by itself: the pairs must tile the map to
the last character, no key may stand twice, and what is left of the text without them is parsed as strictly as ever.
Anything else is left to the strict parser for the whole, which then says what is wrong.
"""

from __future__ import annotations

import re
from typing import Any

from ckpt_gui.core.formats.strict_json import loads
from ckpt_gui.core.formats.windows import find_all

LEAST = 1 << 20  # characters; the strict parser is quick enough for less
_NAME = '"weight_map"'
_START = re.compile(_NAME + r"[ \t\r\n]*:[ \t\r\n]*\{[ \t\r\n]*(?=\")")
_FIRST = re.compile(r'"[^"\\\x00-\x1f]*"([ \t\r\n]*:[ \t\r\n]*)"[^"\\\x00-\x1f]*"(?P<comma>[ \t\r\n]*,[ \t\r\n]*)(?=")')


def scan(text: str) -> Any:
    """Return the parsed index, or None if it is short or not spelled in the usual way.

    Raises:
        BadJsonError: What stands around the map is refused.
    """
    begin = _START.search(text)
    if len(text) < LEAST or begin is None or "\\" in text or text.count(_NAME) != 1:
        return None
    first = _FIRST.match(text, begin.end())
    end = text.find("}", begin.end())
    if first is None or end < 0:
        return None
    colon, comma = first[1], first["comma"]
    pair = r'"([^"\\\x00-\x1f]*)"' + re.escape(colon) + r'"([^"\\\x00-\x1f]*)"'
    body = text[begin.end() : end].rstrip(" \t\r\n")
    found = find_all(re.compile(pair + "(?:" + re.escape(comma) + r'(?=")|\Z)'), body, 0, f'"{comma}"', 1)
    files: dict[str, str] = {}
    places = {key: files.setdefault(file, file) for key, file in found}
    length = (
        sum([len(key) + len(file) for key, file in found]) + len(found) * (4 + len(colon) + len(comma)) - len(comma)
    )
    if length != len(body) or len(places) != len(found):
        return None
    around = loads(text[: begin.end()] + text[end:])
    if type(around) is not dict or around.get("weight_map") != {}:
        return None
    around["weight_map"] = places
    return around
