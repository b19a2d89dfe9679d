"""JSON as strict readers see it: no key twice, no NaN, no half characters, no endless nesting.

Python's parser takes all of these. What it takes and another reader refuses, or reads differently, is where a file can
look harmless in one tool and not in the next.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NoReturn

from ckpt_gui.core.keys import safe_text


class BadJsonError(Exception):
    """JSON that is refused.

    Attributes:
        position: The character at which it is wrong; None where that is not known.
    """

    def __init__(self, message: str, position: int | None = None) -> None:
        """Keep the reason and the place."""
        super().__init__(message)
        self.position = position


def loads(text: str) -> Any:
    """Parse JSON and refuse a key that stands twice in one object.

    Raises:
        BadJsonError: With the reason.
    """
    fast = _load_counting_colons(text)
    if fast is not None:
        return fast
    value = _loads(text, _refuse_duplicates)
    if "\\u" in text:
        _refuse_surrogates(value)
    return value


def refuse_negative_zero(text: str) -> None:
    """Raise if -0 stands anywhere as a number: Python reads an integer, others a float.

    Raises:
        BadJsonError: It does.
    """
    _loads(text, None, _parse_int)


def _load_counting_colons(text: str) -> Any:
    """Parse without a Python call per object; None if that might hide a key that stands twice.

    Every pair of the text has one colon outside of strings. If there are as many colons as pairs that survived plus
    colons in the strings that survived, then no pair was swallowed. An escaped colon would spoil the count.
    """
    if "\\" in text and "\\u" in text:
        return None
    value = _loads(text, None)
    if type(value) is not dict:
        return None
    wanted = text.count(":")
    pairs = len(value) + sum(len(v) for v in value.values() if type(v) is dict)
    if pairs == wanted:
        return value
    return value if pairs + _count_colons(value) == wanted else None


def _count_colons(value: dict[str, Any]) -> int:
    count = sum(key.count(":") for key in value)
    for item in value.values():
        if type(item) is dict:
            count += sum(str(part).count(":") for pair in item.items() for part in pair if type(part) is str)
        elif type(item) is str:
            count += item.count(":")
    return count


def _loads(text: str, pairs: Callable[..., Any] | None, parse_int: Callable[[str], int] = int) -> Any:
    try:
        return json.loads(text, object_pairs_hook=pairs, parse_constant=_refuse_constant, parse_int=parse_int)
    except json.JSONDecodeError as error:
        raise BadJsonError(f"it is not JSON ({error.msg})", error.pos) from error
    except RecursionError as error:
        raise BadJsonError("it is nested too deeply") from error
    except ValueError as error:  # more than 4,300 digits
        raise BadJsonError("a number is too long") from error


def _refuse_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) == len(pairs):
        return made
    seen: dict[str, Any] = {}
    for key, value in pairs:
        if key in seen:
            both = f"{safe_text(_dump(seen[key]), 120)} and {safe_text(_dump(value), 120)}"
            raise BadJsonError(f"`{safe_text(key)}` stands twice: {both}")
        seen[key] = value
    return made


def _dump(value: Any) -> str:
    try:
        return json.dumps(value)
    except (RecursionError, ValueError):
        return "…"


def _refuse_constant(name: str) -> NoReturn:
    raise BadJsonError(f"{name} stands where a number belongs")


def _parse_int(digits: str) -> int:
    if digits == "-0":
        raise BadJsonError("-0 stands where a size belongs")
    return int(digits)


def _refuse_surrogates(value: Any) -> None:
    """Walk without recursion: the parser's own limit on nesting is higher than that of a walk."""
    todo = [value]
    while todo:
        item = todo.pop()
        if isinstance(item, dict):
            todo += [*item.keys(), *item.values()]
        elif isinstance(item, list):
            todo += item
        elif isinstance(item, str) and not is_encodable(item):
            raise BadJsonError(f"half a character (surrogate) stands in `{safe_text(item)}`")


def is_encodable(text: str) -> bool:
    """True if a text can be written as UTF-8, which half a character cannot."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
