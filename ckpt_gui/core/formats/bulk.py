"""Making a great many `TensorRef` at once.

A frozen dataclass sets its fields one by one through Python calls; for 100,000 tensors that takes longer than parsing
the header. Here whole columns are set by C loops.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from itertools import repeat
from typing import Any

from ckpt_gui.core.tensors import TensorRef

_FIELDS = ("key", "dtype", "shape", "section", "file", "storage", "offset", "strides")


def make_refs(
    keys: Sequence[str], dtypes: Sequence[str], shapes: Sequence[tuple[int, ...]], file: str
) -> list[TensorRef]:
    """Return refs of tensors that lie row by row, each in a storage of its own named like its key."""
    refs = list(map(TensorRef.__new__, repeat(TensorRef, len(keys))))
    columns: tuple[Iterable[Any], ...] = (keys, dtypes, shapes, repeat(()), repeat(file), keys, repeat(0), repeat(None))
    for name, column in zip(_FIELDS, columns, strict=True):
        deque(map(getattr(TensorRef, name).__set__, refs, column), maxlen=0)
    return refs
