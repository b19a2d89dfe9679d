"""Tensors in memory for tests of statistics, and the plain computation to compare with."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from ckpt_gui.core import stats
from ckpt_gui.core.source import Source
from ckpt_gui.core.stats import (
    PairStats,
    TensorStats,
    pair_stats,
    tensor_stats,
)
from ckpt_gui.core.tensors import TensorRef

Array = np.ndarray[Any, Any]
rng = np.random.default_rng(7)


class Memory:
    """A reader of bytes in memory that counts what is read."""

    def __init__(self, **tensors: bytes) -> None:
        self.tensors = tensors
        self.read = 0

    def read_into(self, ref: TensorRef, start: int, out: memoryview) -> None:
        assert start + len(out) <= ref.nbytes
        assert len(out) <= stats.BLOCK
        out[:] = self.tensors[ref.storage][start : start + len(out)]
        self.read += len(out)

    def close(self) -> None:
        pass


def bf16(values: Array) -> Array:
    """Cut fp32 to bf16 patterns."""
    return (np.asarray(values, dtype=np.float32).view(np.uint32) >> 16).astype(np.uint16)


def make(dtype: str, *arrays: Array) -> tuple[Source, tuple[TensorRef, ...]]:
    names = [f"t{n}" for n in range(len(arrays))]
    data = {name: np.ascontiguousarray(a).tobytes() for name, a in zip(names, arrays, strict=True)}
    refs = tuple(TensorRef(n, dtype, a.shape, storage=n) for n, a in zip(names, arrays, strict=True))
    return Source("memory", "memory", refs, readers={"": Memory(**data)}), refs


def one(dtype: str, array: Array, **options: Any) -> TensorStats:
    source, (ref,) = make(dtype, array)
    return tensor_stats(source, ref, **options)


def pair(dtype: str, a: Array, b: Array) -> PairStats:
    source, (left, right) = make(dtype, a, b)
    return pair_stats(source, left, right)


def check(result: TensorStats, values: Array) -> None:
    """Compare with the plain computation on all the values at once."""
    with np.errstate(invalid="ignore"):
        values = np.asarray(values, dtype=np.float64).ravel()
    finite = values[np.isfinite(values)]
    assert result.count == values.size
    assert result.zeros == np.count_nonzero(values == 0)
    assert result.nan == np.count_nonzero(np.isnan(values))
    assert result.pos_inf == np.count_nonzero(values == np.inf)
    assert result.neg_inf == np.count_nonzero(values == -np.inf)
    assert result.finite == finite.size
    if not finite.size:
        assert (result.min, result.max, result.mean, result.std, result.l2, result.abs_max) == (None,) * 6
        return
    assert result.min == finite.min()
    assert result.max == finite.max()
    assert result.abs_max == np.abs(finite).max()
    size = float(np.abs(finite).max())
    assert result.mean == pytest.approx(finite.mean(), rel=1e-12, abs=1e-13 * size)
    assert result.std == pytest.approx(finite.std(), rel=1e-9, abs=1e-13 * size)
    assert result.l2 == pytest.approx(math.sqrt((finite * finite).sum()), rel=1e-12)


def widened(stored: Array, dtype: str) -> Array:
    """The values of stored patterns in fp64, by numpy alone."""
    if dtype == "bf16":
        return (stored.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return stored.astype(np.float64)
