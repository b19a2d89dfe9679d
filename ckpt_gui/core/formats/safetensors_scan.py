"""The quick way through a safetensors header whose entries are all spelled alike, as every usual writer spells them.

Cut at its quotes, every tenth piece of it is a key, a type, a shape, the offsets; all others are the same in every
entry. That takes a quarter of the time of parsing a dict a tensor and looking through it. It accepts nothing by itself:
an entry with the type and the shape of each kind that there is goes through the JSON parser, offsets must be two
numbers and nothing else, no key may stand twice, and every size must fit. Anything else is left to the strict parser,
which then says what is wrong.
"""

from __future__ import annotations

import json
import math
import re
from operator import sub
from typing import NamedTuple

from ckpt_gui.core.dtypes import BY_SAFETENSORS
from ckpt_gui.core.formats.windows import BLANK, Text, cut

_LIMIT = 1 << 63
_SPACE, _END = b" }"
_LONGEST = 1 << 16  # characters of the first entry
_STRIDE = 10  # pieces of an entry
_FIELDS = ("dtype", "shape", "data_offsets")
_START = re.compile(rb'\{[ \t\r\n]*(?:"__metadata__"[ \t\r\n]*:[ \t\r\n]*(\{[^{}\\]*\})[ \t\r\n]*,[ \t\r\n]*)?(?=")')
_BARE = dict.fromkeys(map(ord, "0123456789" + BLANK))  # takes numbers out of a list of them
_NUMBERS = str.maketrans(":[]}", "    ")  # leaves numbers and commas


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


class _Kind(NamedTuple):
    """What a type and a shape come to."""

    dtype: str
    shape: tuple[int, ...]
    nbytes: int


class _Form(NamedTuple):
    """How entries are spelled.

    Attributes:
        first: The pieces of the first one.
        dtype: The place of the type among them.
        shape: That of the shape.
        offsets: That of the offsets.
        bare: What the offsets are without their numbers.
        between: What stands between two entries.
    """

    first: list[str]
    dtype: int
    shape: int
    offsets: int
    bare: str
    between: str


def scan(text: Text) -> tuple[Columns, str | None] | None:
    """Return the tensors and the text of the metadata, or None if the header is not UTF-8 spelled in the usual way."""
    try:
        return _scan(text)
    except UnicodeDecodeError:
        return None


def _scan(text: Text) -> tuple[Columns, str | None] | None:
    start, end = _START.match(text), _last(text)
    if start is None or b"\\" in text or text[end] != _END:
        return None
    form = _form(text[start.end() : min(end, start.end() + _LONGEST)].decode(errors="ignore"))
    if form is None:
        return None
    columns = Columns([], [], [], [], [])
    kinds: dict[tuple[str, str], _Kind | None] = {}
    for window in cut(text, start.end(), end, "}", form.between):
        if not _add(window.split('"')[1:], form, kinds, columns):
            return None
    names = set(columns.keys)
    if len(names) != len(columns.keys) or "__metadata__" in names:
        return None
    return columns, start[1].decode() if start[1] is not None else None


def _last(text: Text) -> int:
    """Return the place of the last byte before the spaces at the end; not by a copy without them."""
    last = len(text) - 1
    while last > 0 and text[last] == _SPACE:
        last -= 1
    return last


def _form(text: str) -> _Form | None:
    """Return how the first entry of a text is spelled; whether that is JSON is found out with its kind."""
    pieces = text.split('"', _STRIDE + 1)[1:]
    if len(pieces) <= _STRIDE:  # the only entry
        pieces = (text.rstrip(BLANK) + ",").split('"')[1:]
    first = pieces[:_STRIDE]
    places, at = {}, 2
    while at < len(first):  # a name and what follows it: a list in one piece, a text between two
        is_text = first[at] == "dtype"
        places[first[at]] = at + (2 if is_text else 1)
        at += 4 if is_text else 2
    if sorted(places) != sorted(_FIELDS) or "}" not in first[-1]:
        return None
    bare = first[places["data_offsets"]].translate(_BARE)
    if bare not in (":[,],", ":[,]},"):
        return None
    return _Form(first, places["dtype"], places["shape"], places["data_offsets"], bare, first[-1].rpartition("}")[2])


def _add(pieces: list[str], form: _Form, kinds: dict[tuple[str, str], _Kind | None], columns: Columns) -> bool:
    """Add the entries of a window to the columns; False if any of them is odd."""
    count = len(pieces) // _STRIDE
    free = (0, form.dtype, form.shape, form.offsets)
    fixed = [place for place in range(_STRIDE) if place not in free]
    if not count or any(pieces[place::_STRIDE].count(form.first[place]) != count for place in fixed):
        return False
    keys, dtypes, shapes = pieces[::_STRIDE], pieces[form.dtype :: _STRIDE], pieces[form.shape :: _STRIDE]
    numbers = _numbers("".join(pieces[form.offsets :: _STRIDE]), form.bare * count)
    if len(pieces) != count * _STRIDE or not "".join(keys).isprintable() or numbers is None:
        return False
    begins, ends = numbers[::2], numbers[1::2]
    for dtype, shape, nbytes in set(zip(dtypes, shapes, map(sub, ends, begins), strict=True)):
        if (dtype, shape) not in kinds:
            kinds[dtype, shape] = _kind(dtype, shape, form)
        kind = kinds[dtype, shape]
        if kind is None or kind.nbytes != nbytes:
            return False
    named = {dtype: kind.dtype for (dtype, _), kind in kinds.items() if kind}
    sized = {shape: kind.shape for (_, shape), kind in kinds.items() if kind}
    columns.keys.extend(keys)
    columns.dtypes.extend([named[dtype] for dtype in dtypes])
    columns.shapes.extend([sized[shape] for shape in shapes])
    columns.begins.extend(begins)
    columns.ends.extend(ends)
    return True


def _numbers(text: str, bare: str) -> list[int] | None:
    """Return the numbers of some lists; None unless there is one wherever `bare` has room for it."""
    if text.translate(_BARE) != bare:
        return None
    try:
        numbers: list[int] = json.loads(f"[{text.translate(_NUMBERS).rstrip(BLANK + ',')}]")
    except ValueError:
        return None
    return None if len(numbers) != bare.count(",") or max(numbers) >= _LIMIT else numbers


def _kind(dtype: str, shape: str, form: _Form) -> _Kind | None:
    """Return what the spelling of a type and a shape comes to; None if anything about it is odd."""
    pieces = list(form.first)
    pieces[form.dtype], pieces[form.shape] = dtype, shape
    try:
        entry = json.loads('{"' + '"'.join(pieces).removesuffix(form.between) + "}")[pieces[0]]
        sizes, known = tuple(entry["shape"]), BY_SAFETENSORS[entry["dtype"]]
    except (ValueError, TypeError, LookupError, RecursionError):
        return None
    if "-" in shape or not all(type(size) is int and size < _LIMIT for size in sizes) or len(entry) != len(_FIELDS):
        return None
    bits = math.prod(max(size, 1) for size in sizes) * known.bits
    if bits >= _LIMIT or bits % 8:
        return None
    return _Kind(known.name, sizes, 0 if 0 in sizes else bits // 8)
