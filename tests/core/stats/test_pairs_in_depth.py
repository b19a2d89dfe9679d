"""Norms, correlation, ULPs, casts and rows of pairs that differ, against numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ckpt_gui.core.dtypes import BY_NAME
from ckpt_gui.core.source import Source
from ckpt_gui.core.stats import (
    pair_stats,
)
from ckpt_gui.core.stats.rows import FIRST_ROWS
from ckpt_gui.core.tensors import TensorRef
from tests.core.stats.arrays import Memory, pair

Array = np.ndarray[Any, Any]
rng = np.random.default_rng(11)


def test_a_pair_in_depth() -> None:
    a = rng.normal(0.3, 1, (300, 2000)).astype(np.float32)
    b = a + rng.normal(0, 0.1, a.shape).astype(np.float32)
    b[:100] = a[:100]
    b[200, 5:9] = -a[200, 5:9]
    found = pair("fp32", a, b)
    wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
    assert found.diff_l2 == pytest.approx(np.linalg.norm(wide_a - wide_b), rel=1e-12)
    assert found.relative == pytest.approx(np.linalg.norm(wide_a - wide_b) / np.linalg.norm(wide_a), rel=1e-12)
    assert found.correlation == pytest.approx(np.corrcoef(wide_a.ravel(), wide_b.ravel())[0, 1], rel=1e-10)
    assert found.sign_flips == np.count_nonzero(np.sign(a) * np.sign(b) < 0)
    rows = np.flatnonzero((a != b).any(axis=1))
    assert (found.rows.differing, found.rows.first) == (rows.size, tuple(rows.tolist()))


def test_correlation_is_not_fooled_by_a_large_mean() -> None:
    a = rng.normal(1e6, 1e-3, 400_000)
    b = a + rng.normal(0, 1e-3, a.size)
    assert pair("fp64", a, b).correlation == pytest.approx(np.corrcoef(a - 1e6, b - 1e6)[0, 1], rel=1e-6)


@pytest.mark.parametrize("dtype", ["fp16", "fp32", "fp64", "bf16"])
def test_ulps_are_steps_from_number_to_number(dtype: str) -> None:
    steps = [0, 1, 5, 3]
    if dtype == "bf16":
        a = np.array([0x3F80, 0x3F80, 0x0001, 0x7F80], np.uint16)
        b = np.array([0x3F80, 0x3F81, 0x8004, 0x3F80], np.uint16)
    else:
        kind = np.dtype(BY_NAME[dtype].numpy)
        a = np.array([1, 1, np.nextafter(kind.type(0), kind.type(1)), np.inf], kind)
        low = kind.type(0)
        for _ in range(4):
            low = np.nextafter(low, kind.type(-1))
        b = np.array([1, np.nextafter(kind.type(1), kind.type(2)), low, 1], kind)
    assert pair(dtype, a, b).max_ulp == steps[2]
    assert pair(dtype, a[:2], b[:2]).max_ulp == 1
    assert pair(dtype, a[:1], a[:1]).max_ulp == 0


def test_zeros_of_both_signs_are_no_steps_apart_and_integers_have_none() -> None:
    assert pair("fp32", np.zeros(3, np.float32), -np.zeros(3, np.float32)).max_ulp == 0
    assert pair("fp64", np.array([1.7e308]), np.array([-1.7e308])).max_ulp > 2**62  # type: ignore[operator]
    assert pair("i32", np.zeros(3, np.int32), np.ones(3, np.int32)).max_ulp is None


@pytest.mark.parametrize(("wide", "narrow"), [("fp32", "bf16"), ("fp32", "fp16"), ("fp64", "fp32"), ("fp16", "bf16")])
@pytest.mark.parametrize("turned", [False, True])
def test_equal_after_a_cast(wide: str, narrow: str, turned: bool) -> None:
    from ckpt_gui.core.casts import cast

    values = rng.normal(0, 1, (40, 30)).astype(BY_NAME[wide].numpy)
    near = cast(values.reshape(-1).view(np.uint8), wide, narrow)[0]
    sides = [(wide, values.tobytes()), (narrow, near.tobytes())][:: -1 if turned else 1]
    refs = [TensorRef(n, dtype, (40, 30), storage=n) for n, (dtype, _) in zip("ab", sides, strict=True)]
    source = Source("m", "memory", (), readers={"": Memory(a=sides[0][1], b=sides[1][1])})
    found = pair_stats(source, *refs)
    if wide == "fp16" and turned:  # of two types of one size the first is cast
        assert found.relation == "different"
        return
    assert found.relation == "equal after cast"
    assert found.differing > 0
    assert "rounding changes" in found.text


def test_rows_that_differ_are_counted_across_blocks_and_listed_up_to_a_limit() -> None:
    a = np.zeros((5000, 700), np.float32)
    b = a.copy()
    b[::3, 699] = 1
    b[1::3, 0] = 1
    found = pair("fp32", a, b)
    wanted = np.flatnonzero((b != 0).any(axis=1))
    assert found.rows.differing == wanted.size
    assert found.rows.first == tuple(wanted[:FIRST_ROWS].tolist())
    long = np.zeros(3_000_000, np.float32)
    changed = long.copy()
    changed[[0, 262_143, 262_144, 2_999_999]] = 1
    assert pair("fp32", long, changed).rows.first == (0, 262_143, 262_144, 2_999_999)
