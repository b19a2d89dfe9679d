"""Strides: how far apart in a storage, in elements, the neighbours along each dimension of a tensor lie."""

from __future__ import annotations

from collections.abc import Sequence


def contiguous_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the element strides of a tensor stored row by row.

    >>> contiguous_strides((2, 3, 4))
    (12, 4, 1)
    """
    strides = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def normal_strides(shape: Sequence[int], strides: Sequence[int]) -> tuple[int, ...] | None:
    """Return None if strides describe a row-major tensor without gaps (sizes of 1 do not count), else the strides.

    >>> normal_strides((1, 3), (99, 1)) is None
    True
    """
    if 0 in shape:
        return None
    plain = contiguous_strides(shape)
    same = all(size == 1 or a == b for size, a, b in zip(shape, strides, plain, strict=True))
    return None if same else tuple(strides)
