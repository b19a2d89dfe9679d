"""The columns of the key tree, and the three ways in which it shows keys, as tables."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Literal

from ckpt_gui.dataclasses import dataclass

Mode = Literal["tree", "flat", "families"]
FAMILIES_FROM = 2_001  # tensors from which on families are shown unless something else is chosen


class Column(IntEnum):
    """The columns, in the order in which they stand unless they are moved."""

    STATE, KEY, EXPECTED, COUNT, SHAPE, DTYPE, SIZE, SHARD, STD = range(9)


@dataclass(frozen=True, slots=True)
class ColumnSpec:
    """How a column is shown.

    Attributes:
        name: Stable name, in the settings.
        title: What its head says.
        tip: What it shows, in a sentence.
        ems: Its width in heights of a line; 0 for a share of what is left.
        shown: Whether it is shown unless the user wants otherwise.
        right: Whether its texts stand on the right.
        kept: Whether it can not be hidden.
    """

    name: str
    title: str
    tip: str
    ems: float
    shown: bool = True
    right: bool = False
    kept: bool = False


COLUMNS: Mapping[Column, ColumnSpec] = MappingProxyType({
    Column.STATE: ColumnSpec("state", "State", "How the file compares with what is expected", 7.6),
    Column.KEY: ColumnSpec("key", "Key in file", "The name in the file", 0, kept=True),
    Column.EXPECTED: ColumnSpec("expected", "Expected key", "The name in the expected layout", 0),
    Column.COUNT: ColumnSpec("number", "Number", "How many tensors a group or family holds", 4.6, right=True),
    Column.SHAPE: ColumnSpec("shape", "Shape", "The shape in the file, and the expected one if it is another", 6.2),
    Column.DTYPE: ColumnSpec("dtype", "Type", "The element type", 3.4),
    Column.SIZE: ColumnSpec("size", "Size", "Bytes in the file", 5.0, right=True),
    Column.SHARD: ColumnSpec("shard", "Shard", "The file that holds it", 9, shown=False),
    Column.STD: ColumnSpec("std", "Std", "Standard deviation; of large tensors once a scan has read them", 4.6,
                           shown=False, right=True),
})  # fmt: skip
