"""Ranges of whole numbers as people write them: `>1MiB`, `1M..2M`, `0-7`."""

from __future__ import annotations

import re

from ckpt_gui.dataclasses import dataclass

BINARY = {"KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}
BYTES = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12} | BINARY
BYTES |= {"K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "KI": 2**10, "MI": 2**20, "GI": 2**30, "TI": 2**40}
COUNTS = {"": 1, "K": 10**3, "M": 10**6, "B": 10**9, "G": 10**9, "T": 10**12}
NONE = {"": 1}
# Units that a number is written in again where it has no rest, the largest first.
_SHOWN = (("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10), ("GB", 10**9), ("MB", 10**6), ("KB", 10**3))
_SHOWN_COUNTS = (("T", 10**12), ("B", 10**9), ("M", 10**6), ("K", 10**3))
_NUMBER = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,9})?)\s*([A-Za-z]{0,3})")
_OPERATOR = re.compile(r"(<=|>=|<|>|=)?(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Bounds:
    """A range of whole numbers, both ends counted.

    Attributes:
        low: The least; None for none.
        high: The greatest; None for none.
    """

    low: int | None
    high: int | None

    def text(self, units: dict[str, int]) -> str:
        """Return it as it is written, in the unit that has no rest."""
        low, high = self.low, self.high
        if low is not None and high is not None:
            return _short(low, units) if low == high else f"{_short(low, units)}..{_short(high, units)}"
        if low is not None:
            return min((f">={_short(low, units)}", f">{_short(low - 1, units)}"), key=len) if low else ">=0"
        assert high is not None
        return min((f"<={_short(high, units)}", f"<{_short(high + 1, units)}"), key=len) if high >= 0 else "<0"


def read_bounds(text: str, units: dict[str, int]) -> Bounds | None:
    """Return the range that a text stands for; None if it is none.

    >>> read_bounds(">1MiB", BYTES), read_bounds("0-7", NONE)
    (Bounds(low=1048577, high=None), Bounds(low=0, high=7))
    """
    first, dots, last = text.partition(".." if ".." in text else "-")
    if dots:
        low, high = _number(first, units), _number(last, units)
        return Bounds(low, high) if low is not None and high is not None and low <= high else None
    match = _OPERATOR.fullmatch(text)
    number = _number(match[2], units) if match else None
    if match is None or number is None:
        return None
    return {
        None: Bounds(number, number), "=": Bounds(number, number), ">": Bounds(number + 1, None),
        ">=": Bounds(number, None), "<": Bounds(None, number - 1), "<=": Bounds(None, number),
    }[match[1]]  # fmt: skip


def _number(text: str, units: dict[str, int]) -> int | None:
    match = _NUMBER.fullmatch(text.strip())
    unit = units.get(match[2].upper()) if match else None
    if match is None or unit is None:
        return None
    if "." not in match[1]:
        return int(match[1]) * unit
    return int(float(match[1]) * unit) if unit > 1 else None


def _short(number: int, units: dict[str, int]) -> str:
    shown = _SHOWN if "KIB" in units else _SHOWN_COUNTS if "K" in units else ()
    name, unit = next(((n, u) for n, u in shown if number and number % u == 0), ("", 1))
    return f"{number // unit}{name}"
