"""Patterns over names, with `re:` and `glob:`, that can not run away.

Python's regular expressions go back and try again. A pattern with a repeat inside a repeat takes longer than anybody
waits, and holds up the window meanwhile; so patterns are refused that could, and names no model has are not searched.
"""

from __future__ import annotations

import re
import warnings

from ckpt_gui.dataclasses import dataclass

LONGEST_PATTERN = 200  # characters
LONGEST_NAME = 300  # characters; a longer name fits no pattern
MANY_WAYS = 2**8  # in how many ways a `*` or `+` may match; a `?` or `|` in two, `{2,5}` in four
MAX_WAYS = 2**18  # of the whole pattern: two stars and two choices, or one star and ten
# A pattern's pieces: an escape, a class, a group's beginning, a quantifier with its `?` or `+`, or one character.
_PIECE = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\(\?:|\((?!\?)|\(\?|\)|(?:[*+?]|\{\d*,?\d*\})[?+]?|.", re.DOTALL)
_GOES_ON = ("missing )", "unterminated", "bad escape (end of pattern)", "unexpected end of pattern")
_COUNT = re.compile(r"\{(\d*)(,?)(\d*)\}")


class PatternError(ValueError):
    """A pattern that is none, or that could take too long; its text says why, without a full stop.

    Attributes:
        unfinished: True if it could become one by going on.
    """

    def __init__(self, text: str, *, unfinished: bool = False) -> None:
        super().__init__(text)
        self.unfinished = unfinished


def regex(text: str, *, flags: int = re.IGNORECASE) -> re.Pattern[str]:
    """Compile a regular expression; capitals or not, unless other flags are given.

    Raises:
        PatternError: It is none, or it could take too long.
    """
    if len(text) > LONGEST_PATTERN:
        raise PatternError(f"is longer than {LONGEST_PATTERN} characters")
    _guard(text)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # what a later Python would read otherwise is refused
        try:
            return re.compile(text, flags)
        except (re.error, OverflowError, RecursionError, Warning) as error:
            unfinished = any(words in str(error) for words in _GOES_ON)
            raise PatternError(f"is no regular expression: {error}", unfinished=unfinished) from error


def glob(text: str) -> re.Pattern[str]:
    """Compile a pattern for whole names with `*`, `?` and `[abc]`, capitals or not.

    Raises:
        PatternError: It is too long, or a range in it runs backwards.
    """
    if len(text) > LONGEST_PATTERN:
        raise PatternError(f"is longer than {LONGEST_PATTERN} characters")
    first, *more = re.split(r"\*+", text)
    # Each piece between stars is taken where it comes first, for good: so nothing is tried twice.
    held = "".join(f"(?=(?P<g{n}>.*?{_fixed(piece)}))(?P=g{n})" for n, piece in enumerate(more[:-1]))
    last = f".*{_fixed(more[-1])}" if more else ""
    try:
        return re.compile(_fixed(first) + held + last + r"\Z", re.IGNORECASE | re.DOTALL)
    except re.error as error:
        raise PatternError("has a range in brackets that runs backwards") from error


def _fixed(text: str) -> str:
    """Return the regular expression of a glob without stars."""
    return "".join(_glob_piece(match[0]) for match in re.finditer(r"\[!?\]?[^\]]*\]|.", text, re.DOTALL))


def _glob_piece(piece: str) -> str:
    if len(piece) < 3 or piece == "[!]":
        return "." if piece == "?" else re.escape(piece)
    negated = piece[1] == "!"
    body = re.sub(r"([\\\[\]^&|~])", r"\\\1", piece[2 if negated else 1 : -1])
    return f"[^{body}]" if negated else f"[{body}]"


@dataclass(slots=True)
class _Group:
    """What a group holds so far."""

    repeats: bool = False
    last: str = ""  # what a quantifier would repeat: "atom", "group", "loose" (a group with repeats or bars), or ""


def _guard(text: str) -> None:
    """Refuse what could match a name in so many ways that trying them all takes seconds."""
    groups = [_Group()]
    ways = 1
    for match in _PIECE.finditer(text):
        piece = match[0]
        if piece in ("(", "(?:"):
            groups.append(_Group())
        elif piece == "(?":
            raise PatternError("has a group with (?; only (?:…) can be used")
        elif piece == ")" and len(groups) > 1:
            inner = groups.pop()
            groups[-1].last = "loose" if inner.repeats else "group"
            groups[-1].repeats |= inner.repeats
        elif piece == "|":
            ways *= 2
            groups[-1].repeats, groups[-1].last = True, ""
        elif _is_quantifier(piece) and groups[-1].last:
            if groups[-1].last == "loose" and piece[0] != "?":
                raise PatternError("repeats a group that has repeats or alternatives in it, which could take forever")
            ways *= _ways(piece)
            groups[-1].repeats, groups[-1].last = True, ""
        elif re.fullmatch(r"\\[1-9]", piece):
            raise PatternError("refers back to a group, which could take forever")
        else:
            groups[-1].last = "atom"
    if ways > MAX_WAYS:
        raise PatternError("can match in too many ways; use glob:, or fewer of * + ? and |")


def _is_quantifier(piece: str) -> bool:
    count = _COUNT.match(piece)
    return piece[0] in "*+?" or (count is not None and any(count.groups()))


def _ways(quantifier: str) -> int:
    """Return in how many ways a quantifier can match."""
    count = _COUNT.match(quantifier)
    if count is None:
        return 2 if quantifier[0] == "?" else MANY_WAYS
    if any(len(number or "") > 2 for number in count.groups()):
        raise PatternError("counts further than 99")
    least, comma, most = count.groups()
    return 1 if not comma else int(most) - int(least or 0) + 1 if most else MANY_WAYS
