"""What is done to a great many values in C, block by block: one call for 500,000 keeps all other threads waiting.

A frozen dataclass sets its fields one by one through Python calls; for 100,000 tensors that takes longer than finding
out what to set. So columns are set by C loops. A C loop holds Python's lock until it ends, and so does letting go of a
great many values at once: a window stands still as long.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from itertools import islice, repeat
from typing import Any, TypeVar

Value = TypeVar("Value")
Key = TypeVar("Key", bound=Hashable)
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


def blocks(values: Sequence[Value]) -> Iterator[Sequence[Value]]:
    """Yield values in order, some thousand at a time."""
    for start in range(0, len(values), BLOCK):
        yield values[start : start + BLOCK]


def coming(values: Iterable[Value]) -> Iterator[list[Value]]:
    """Yield values in order as they are made, some thousand at a time."""
    left = iter(values)
    while block := list(islice(left, BLOCK)):
        yield block


def column(get: Callable[[Any], Value], values: Sequence[object]) -> list[Value]:
    """Return what a function says of each value; for one of `operator`, or such as `str.lower`.

    >>> column(str.lower, ["A", "B"])
    ['a', 'b']
    """
    found: list[Value] = []
    for block in blocks(values):
        found += map(get, block)
    return found


def tally(keys: Iterable[Key]) -> Counter[Key]:
    """Return how often each key comes.

    >>> tally("abca")
    Counter({'a': 2, 'b': 1, 'c': 1})
    """
    counts: Counter[Key] = Counter()
    for block in coming(keys):
        counts.update(block)
    return counts


def different(keys: Iterable[Key]) -> set[Key]:
    """Return the different keys.

    >>> sorted(different("abac"))
    ['a', 'b', 'c']
    """
    found: set[Key] = set()
    for block in coming(keys):
        found.update(block)
    return found


def joined(keys: Sequence[Key], values: Sequence[Value]) -> dict[Key, Value]:
    """Return key → value; of equal keys the last one counts.

    >>> joined("ab", (1, 2))
    {'a': 1, 'b': 2}
    """
    found: dict[Key, Value] = {}
    for some, theirs in zip(blocks(keys), blocks(values), strict=True):
        found.update(zip(some, theirs, strict=True))
    return found


def has_any(wanted: frozenset[Any] | set[Any], values: Sequence[object]) -> bool:
    """Return True if one of the values is among those wanted."""
    return any(not wanted.isdisjoint(block) for block in blocks(values))


def let_go(values: dict[Any, Any]) -> None:
    """Empty a dict that nobody else refers to, one item after the other."""
    while values:
        values.popitem()
