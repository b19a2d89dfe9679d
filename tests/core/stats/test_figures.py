"""Statistics against numpy in fp64, on tensors in memory."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from ckpt_gui.core.dtypes import BY_NAME
from ckpt_gui.core.source import Source
from ckpt_gui.core.stats import (
    first_values,
    pattern_values,
    tally,
)
from ckpt_gui.core.tensors import TensorRef
from tests.core.stats.arrays import Memory, bf16, check, make, one

Array = np.ndarray[Any, Any]
rng = np.random.default_rng(7)


SPECIAL = np.array([0.0, -0.0, 1e-40, -1e-45, np.nan, np.inf, -np.inf, np.inf, 3.5, -2.25, 65504.0], dtype=np.float32)


@pytest.mark.parametrize("number", [0, 1, 11, 5000, tally.FEW, 700_000])
@pytest.mark.parametrize(
    "dtype", ["bf16", "fp16", "fp32", "fp64", "i8", "u8", "i16", "u16", "i32", "u32", "i64", "bool"]
)
def test_figures_are_those_of_numpy(dtype: str, number: int) -> None:
    kind = BY_NAME[dtype]
    if dtype == "bool":
        stored = values = rng.integers(0, 2, number).astype(bool)
    elif kind.kind == "int":
        info = np.iinfo(kind.numpy)
        stored = values = rng.integers(max(info.min, -(2**50)), min(info.max, 2**50), number, dtype=kind.numpy)
    else:
        base = np.resize(SPECIAL, number) if number == 11 else rng.normal(0.01, 0.02, number)
        base[number // 2 :: 5000] = 0.0
        base[3::70_001] = np.nan
        base[5::90_001] = np.inf
        stored = bf16(base) if dtype == "bf16" else base.astype(kind.numpy)
        values = (stored.astype(np.uint32) << 16).view(np.float32) if dtype == "bf16" else stored
    check(one(dtype, stored), values)


@pytest.mark.parametrize("dtype", ["bf16", "fp16", "fp32", "fp64"])
def test_a_scalar_and_all_special_values(dtype: str) -> None:
    stored = bf16(np.float32(2.5)) if dtype == "bf16" else np.array(2.5, dtype=BY_NAME[dtype].numpy)
    result = one(dtype, np.asarray(stored))
    assert (result.shape, result.count, result.mean, result.std) == ((), 1, 2.5, 0.0)
    nothing = np.full(20_000, np.nan)
    check(one(dtype, bf16(nothing) if dtype == "bf16" else nothing.astype(BY_NAME[dtype].numpy)), nothing)


def test_subnormals_are_not_zeros() -> None:
    patterns = np.array([1, 0x8001, 0, 0x8000], dtype=np.uint16)
    for dtype in ("bf16", "fp16"):
        for repeat in (1, tally.FEW):
            result = one(dtype, np.repeat(patterns, repeat))
            assert result.zeros == 2 * repeat
            assert result.max is not None
            assert 0 < result.max < 1e-7


def test_64_bit_integers_are_exact() -> None:
    result = one("u64", np.array([2**64 - 1, 2**63 + 1], dtype=np.uint64))
    assert (result.max, result.min) == (2**64 - 1, 2**63 + 1)
    assert one("i64", np.array([-(2**63), 5])).abs_max == 2**63


def test_a_large_mean_does_not_cancel_the_deviation() -> None:
    values = rng.normal(1e6, 1e-3, 600_000)
    assert one("fp64", values).std == pytest.approx(values.std(), rel=1e-9)


def test_huge_values_give_no_warning_and_the_right_extremes() -> None:
    result = one("fp64", np.array([1.7e308, -1.7e308, 1.5e308]), bins=8)
    assert (result.min, result.max, result.zeros) == (-1.7e308, 1.7e308, 0)


@pytest.mark.parametrize("dtype", ["fp8_e4m3", "fp8_e5m2", "fp8_e8m0", "fp8_e4m3fnuz", "fp8_e5m2fnuz"])
def test_fp8_tables_are_those_of_torch(dtype: str) -> None:
    torch = pytest.importorskip("torch")
    name = BY_NAME[dtype].torch
    if not hasattr(torch, name):
        pytest.skip(f"this torch has no {name}")
    wanted = torch.arange(256, dtype=torch.uint8).view(getattr(torch, name)).to(torch.float64).numpy()
    np.testing.assert_array_equal(pattern_values(dtype), wanted)
    check(one(dtype, np.resize(np.arange(256, dtype=np.uint8), 100_000)), np.resize(wanted, 100_000))


@pytest.mark.parametrize("dtype", ["fp6_e3m2", "fp6_e2m3", "c64"])
def test_types_without_figures_say_why(dtype: str) -> None:
    result = one(dtype, np.zeros(8, dtype=np.complex64))
    assert result.reason
    assert dtype in result.reason
    assert (result.min, result.finite) == (None, 0)


@pytest.mark.parametrize("dtype", ["bf16", "fp32", "fp64", "u8"])
@pytest.mark.parametrize("number", [100, 300_000])
def test_histograms_are_those_of_numpy(dtype: str, number: int) -> None:
    if dtype == "u8":
        stored = values = rng.integers(3, 200, number).astype(np.uint8)
    else:
        base = rng.normal(0, 0.02, number).astype(np.float32)
        base[1] = np.inf
        stored = bf16(base) if dtype == "bf16" else base.astype(BY_NAME[dtype].numpy)
        values = (stored.astype(np.uint32) << 16).view(np.float32) if dtype == "bf16" else stored
    histogram = one(dtype, stored, bins=64).histogram
    assert histogram is not None
    wanted, edges = np.histogram(values[np.isfinite(values)].astype(np.float64), bins=64)
    assert histogram.edges == tuple(edges.tolist())
    assert histogram.counts == tuple(wanted.tolist())


def test_a_histogram_of_one_value_and_of_none() -> None:
    constant = one("fp32", np.full(9, 2.0, dtype=np.float32), bins=4).histogram
    assert constant is not None
    assert sum(constant.counts) == 9
    assert one("fp32", np.full(9, np.nan, dtype=np.float32), bins=4).histogram is None
    tight = one("fp64", np.array([1.0, np.nextafter(1.0, 2.0)]), bins=64).histogram
    assert tight is not None
    assert sum(tight.counts) == 2


@settings(deadline=None)
@given(hnp.arrays(np.float32, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=9)))
def test_any_fp32_tensor(array: Array) -> None:
    check(one("fp32", array), array)


@settings(deadline=None)
@given(hnp.arrays(np.uint16, st.integers(0, 60)), st.sampled_from(["bf16", "fp16"]), st.booleans())
def test_any_16_bit_patterns_by_both_ways(patterns: Array, dtype: str, many: bool) -> None:
    values = (patterns.astype(np.uint32) << 16).view(np.float32) if dtype == "bf16" else patterns.view(np.float16)
    before, tally.FEW = tally.FEW, 0 if many else 1 << 14
    try:
        check(one(dtype, patterns), values)
    finally:
        tally.FEW = before


def test_first_values() -> None:
    source, (ref,) = make("bf16", bf16(np.array([[1.5, -2.0], [np.inf, 0.0]])).reshape(2, 2))
    assert first_values(source, ref, 3) == (1.5, -2.0, math.inf)
    assert first_values(source, ref) == (1.5, -2.0, math.inf, 0.0)
    source, (ref,) = make("i64", np.array([7, -1]))
    assert first_values(source, ref) == (7, -1)
    source, (ref,) = make("fp6_e2m3", np.zeros(4, np.uint8))
    assert first_values(source, ref) == ()
    packed = TensorRef("p", "fp4", (3,), storage="p")
    assert first_values(Source("m", "memory", (), readers={"": Memory(p=bytes([0x7A, 0x0F]))}), packed) == (-1, 6, -6)
