"""The outer form of a filter text: terms between spaces, `!`, a field's name before a colon, quotes, bars.

It is apart from what the terms mean, so that a text can be edited term by term even where a term is not right yet.
"""

from __future__ import annotations

import re

from ckpt_gui.dataclasses import dataclass

# What is quoted is one piece, in which two quotes stand for one; an open quote goes on to the end.
_TOKEN = re.compile(r'(?:[^\s"]|"(?:[^"]|"")*(?:"|\Z))+')
_PIECE = re.compile(r'"((?:[^"]|"")*)(?:"|\Z)|([^"]+)')
_FIELD = re.compile(r"([A-Za-z]+):")
_NEEDS_QUOTES = re.compile(r'[\s"|]|^!|^[A-Za-z]+:|^\Z')


@dataclass(frozen=True, slots=True)
class Token:
    """A term as it is written.

    Attributes:
        raw: Its text.
        start: Its first character in the filter text.
        negated: True if `!` stands before it.
        field: The name before the colon, in lower case; empty for a bare word.
        value: What follows, as written.
    """

    raw: str
    start: int
    negated: bool
    field: str
    value: str

    @property
    def whole(self) -> str:
        """The value without its quotes; bars are no more than characters."""
        return "".join(_unquoted(m) for m in _PIECE.finditer(self.value))

    @property
    def parts(self) -> tuple[str, ...]:
        """The value's alternatives: what stands between bars that are not quoted."""
        parts = [""]
        for match in _PIECE.finditer(self.value):
            if match[2] is None:
                parts[-1] += _unquoted(match)
            else:
                first, *more = match[2].split("|")
                parts[-1] += first
                parts += more
        return tuple(parts)

    @property
    def is_open(self) -> bool:
        """True if a quote is not closed."""
        return self.raw.count('"') % 2 == 1


def tokens(text: str) -> tuple[Token, ...]:
    """Return the terms of a filter text.

    >>> [(t.negated, t.field, t.parts) for t in tokens('wq !dtype:bf16|fp32 "a b"')]
    [(False, '', ('wq',)), (True, 'dtype', ('bf16', 'fp32')), (False, '', ('a b',))]
    """
    return tuple(_token(match[0], match.start()) for match in _TOKEN.finditer(text))


def quoted(value: str) -> str:
    """Return a value as it has to be written.

    >>> quoted("wq"), quoted("a b"), quoted("kernel:0")
    ('wq', '"a b"', '"kernel:0"')
    """
    return '"' + value.replace('"', '""') + '"' if _NEEDS_QUOTES.search(value) else value


def replaced(text: str, field: str, value: str) -> str:
    """Return a filter text with what it asks of a field replaced; terms with `!` and all others stay as they are.

    >>> replaced("wq state:same !state:aside", "state", "missing|extra")
    'wq !state:aside state:missing|extra'
    """
    kept = [token.raw for token in tokens(text) if token.negated or token.field != field]
    return " ".join([*kept, f"{field}:{value}"] if value else kept)


def value_of(text: str, field: str) -> str:
    """Return what the first term of a field asks for, as written; empty where there is none.

    >>> value_of("wq !dtype:fp32 dtype:bf16", "dtype")
    'bf16'
    """
    return next((token.value for token in tokens(text) if token.field == field and not token.negated), "")


def _token(raw: str, start: int) -> Token:
    rest = raw.lstrip("!")
    field = _FIELD.match(rest)
    if field is None:
        return Token(raw, start, rest != raw, "", rest)
    return Token(raw, start, rest != raw, field[1].lower(), rest[field.end() :])


def _unquoted(match: re.Match[str]) -> str:
    return match[2] if match[2] is not None else match[1].replace('""', '"')
