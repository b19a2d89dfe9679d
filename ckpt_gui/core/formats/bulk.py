"""Making a great many `TensorRef` at once."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat

from ckpt_gui.core.bulk import build
from ckpt_gui.core.tensors import TensorRef


def make_refs(
    keys: Sequence[str], dtypes: Sequence[str], shapes: Sequence[tuple[int, ...]], file: str
) -> list[TensorRef]:
    """Return refs of tensors that lie row by row, each in a storage of its own named like its key."""
    return build(
        TensorRef, len(keys), key=keys, dtype=dtypes, shape=shapes, section=repeat(()), file=repeat(file),
        storage=keys, offset=repeat(0), strides=repeat(None),
    )  # fmt: skip
