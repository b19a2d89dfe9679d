"""Making a great many frozen values at once.

A frozen dataclass sets its fields one by one through Python calls; for 100,000 tensors that takes longer than finding
out what to set. Here columns are set by C loops, block by block, so that none keeps other threads
waiting for long.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from itertools import repeat
from typing import TypeVar

Value = TypeVar("Value")
BLOCK = 8192  # values that are made at a time


def build(kind: type[Value], count: int, /, **columns: Iterable[object]) -> list[Value]:
    """Return as many values of a frozen, slotted dataclass, with its fields from columns.

    Every field has to have a column: defaults are not looked at, and nothing is checked.

    >>> from ckpt_gui.core.tensors import TensorSpec
    >>> build(TensorSpec, 2, key=["a", "b"], dtype=repeat("bf16"), shape=[(1,), (2,)])[1]
    TensorSpec(key='b', dtype='bf16', shape=(2,))
    """
    made: list[Value] = []
    waiting = [(kind.__dict__[name].__set__, iter(column)) for name, column in columns.items()]
    for start in range(0, count, BLOCK):
        block = list(map(kind.__new__, repeat(kind, min(BLOCK, count - start))))
        for put, column in waiting:
            deque(map(put, block, column), maxlen=0)
        made += block
    return made
