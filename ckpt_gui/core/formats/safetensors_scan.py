"""The quick way through a large safetensors header, for headers as every usual writer spells them.

One regular expression takes the entries apart at C speed, in half the time of a JSON parser and without a dict a
tensor. It accepts nothing by itself: the entries must tile the header to the last byte, no key may stand twice, and
every size must fit. Anything else is left to the strict parser, which then says what is wrong.
"""

from __future__ import annotations

import json
import math
import re
from operator import sub
from typing import NamedTuple

from ckpt_gui.core.dtypes import BY_SAFETENSORS
from ckpt_gui.core.formats.windows import find_all

_LIMIT = 1 << 63
_NUMBER = r"(0|[1-9][0-9]{0,18})"
_ENTRY = re.compile(
    r'"([^"\\\x00-\x1f]*)":\{("dtype":"[A-Z0-9_]+","shape":\[[0-9,]*\]),"data_offsets":\['
    + _NUMBER
    + ","
    + _NUMBER
    + r'\]\}(?:,(?=")|\}[ ]*\Z)'
)
_FIXED = len('"":{,"data_offsets":[,]}') + 1
_METADATA = re.compile(r'\{"__metadata__":(\{[^{}\\]*\}),(?=")')


class Columns(NamedTuple):
    """The tensors of a header, a column each.

    Attributes:
        keys: Names.
        dtypes: Short names of types.
        shapes: Shapes.
        begins: First byte of each, from the end of the header.
        ends: Byte after each.
    """

    keys: list[str]
    dtypes: list[str]
    shapes: list[tuple[int, ...]]
    begins: list[int]
    ends: list[int]


def scan(text: str) -> tuple[Columns, str | None] | None:
    """Return the tensors and the text of the metadata, or None if the header is not spelled in the usual way."""
    metadata = _METADATA.match(text)
    start = metadata.end() if metadata else 1
    if text[:1] != "{" or not _ENTRY.match(text, start):
        return None
    found = find_all(_ENTRY, text, start, ']},"', 1)
    keys, kinds, begins, ends = zip(*found, strict=True)
    length = sum(sum(map(len, column)) for column in (keys, kinds, begins, ends)) + _FIXED * len(found)
    tiled = start + length == len(text.rstrip(" "))
    if not tiled or len(set(keys)) != len(keys) or "__metadata__" in keys:
        return None
    columns = _columns(list(keys), list(kinds), list(map(int, begins)), list(map(int, ends)))
    return None if columns is None else (columns, metadata[1] if metadata else None)


def _columns(keys: list[str], kinds: list[str], begins: list[int], ends: list[int]) -> Columns | None:
    parsed = {kind: _parse_kind(kind) for kind in set(kinds)}
    good = {kind: value for kind, value in parsed.items() if value is not None}
    if len(good) != len(parsed):
        return None
    sizes = {kind: value[2] for kind, value in good.items()}
    if list(map(sub, ends, begins)) != [sizes[kind] for kind in kinds]:
        return None
    dtypes = {kind: value[0] for kind, value in good.items()}
    shapes = {kind: value[1] for kind, value in good.items()}
    return Columns(keys, [dtypes[kind] for kind in kinds], [shapes[kind] for kind in kinds], begins, ends)


def _parse_kind(kind: str) -> tuple[str, tuple[int, ...], int] | None:
    """Return type, shape and bytes of `"dtype":…,"shape":…`; None if anything about it is odd."""
    try:
        value = json.loads("{" + kind + "}")
    except ValueError:
        return None
    dtype = BY_SAFETENSORS.get(value["dtype"])
    shape = tuple(value["shape"])
    if dtype is None or any(size >= _LIMIT for size in shape):
        return None
    bits = math.prod(max(size, 1) for size in shape) * dtype.bits
    if bits >= _LIMIT or bits % 8:
        return None
    return dtype.name, shape, 0 if 0 in shape else bits // 8
