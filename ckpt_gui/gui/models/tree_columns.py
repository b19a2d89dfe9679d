"""The columns of the key tree."""

from __future__ import annotations

from enum import IntEnum


class Column(IntEnum):
    """The columns."""

    STATE, KEY, EXPECTED, SHAPE, DTYPE, SIZE = range(6)
