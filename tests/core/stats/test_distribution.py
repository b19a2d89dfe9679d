"""Quantiles, histograms of any binning, and counts of odd numbers, against numpy and torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from ckpt_gui.core.dtypes import BY_NAME
from ckpt_gui.core.source import Source
from ckpt_gui.core.stats import (
    QUANTILES,
    distribution,
    moments,
    pattern_values,
    tally,
    tensor_stats,
)
from ckpt_gui.core.stats.elements import SMALLEST_NORMAL
from ckpt_gui.core.tensors import TensorRef
from tests.core.stats.arrays import Memory, bf16, make, one, widened

Array = np.ndarray[Any, Any]
rng = np.random.default_rng(11)


@pytest.mark.parametrize("number", [1, 10, 5000, 40_000])
@pytest.mark.parametrize("dtype", ["bf16", "fp16", "i8", "fp32", "fp64", "i32"])
def test_quantiles_are_elements_and_those_of_numpy(dtype: str, number: int) -> None:
    base = rng.normal(0, 40, number)
    stored = bf16(base) if dtype == "bf16" else base.astype(BY_NAME[dtype].numpy)
    found = one(dtype, stored)
    assert found.exact
    assert "exact" in found.caption
    values = widened(stored, dtype)
    for share, value in found.quantiles:
        assert value == np.quantile(values, share, method="inverted_cdf")
    assert [share for share, _ in found.quantiles] == list(QUANTILES)
    assert found.distinct == np.unique(values).size


@pytest.mark.parametrize("dtype", ["fp32", "fp64", "i64"])
def test_a_sketch_is_near_and_says_that_it_is_one(dtype: str) -> None:
    values = (rng.standard_cauchy(300_000) * 1000).astype(BY_NAME[dtype].numpy)
    found = one(dtype, values)
    assert not found.exact
    assert "sketch" in found.caption
    assert found.distinct is None
    for share, value in found.quantiles:
        assert value == pytest.approx(float(np.quantile(values, share)), rel=1 / 120, abs=1)


def test_a_sketch_holds_numbers_that_fp32_does_not() -> None:
    values = np.resize([1e300, -1e300, 1e-300, 0.0, np.inf], 100_000)
    found = one("fp64", values)
    assert (found.min, found.max, found.pos_inf, found.zeros) == (-1e300, 1e300, 20_000, 20_000)
    assert dict(found.quantiles)[0.5] == pytest.approx(0, abs=1e-30)
    assert found.subnormals == 0


def test_any_binning_comes_from_one_count() -> None:
    stored = bf16(rng.normal(0, 1, 50_000))
    source, (ref,) = make("bf16", stored)
    found = distribution(source, ref)
    values = widened(stored, "bf16")
    for bins in (1, 7, 300):
        histogram = found.histogram(bins)
        assert histogram is not None
        assert histogram.counts == tuple(np.histogram(values, bins)[0].tolist())
    edges = np.array([-0.5, 0.0, 0.1, 0.5])
    inside = np.clip(values, -0.5, 0.5)
    assert found.histogram(edges=edges).counts == tuple(np.histogram(inside, edges)[0].tolist())  # type: ignore[union-attr]


# ---------------------------------------------------------------------------------------------- zeros and subnormals


@pytest.mark.parametrize("dtype", ["bf16", "fp16", "fp8_e4m3", "fp8_e5m2", "fp8_e4m3fnuz", "fp8_e5m2fnuz", "fp8_e8m0"])
@pytest.mark.parametrize("repeat", [1, 70])
def test_every_pattern_of_a_narrow_type_is_counted_right(dtype: str, repeat: int) -> None:
    bits = BY_NAME[dtype].bits
    found = one(dtype, np.repeat(np.arange(1 << bits, dtype=f"uint{bits}"), repeat))
    values = pattern_values(dtype)
    finite = values[np.isfinite(values)]
    tiny = SMALLEST_NORMAL.get(dtype, 0.0)
    assert found.neg_zeros == repeat * np.count_nonzero((values == 0) & np.signbit(values))
    assert found.zeros == repeat * np.count_nonzero(values == 0)
    assert found.subnormals == repeat * np.count_nonzero((finite != 0) & (np.abs(finite) < tiny))
    assert found.distinct == np.unique(finite).size
    assert (found.nan, found.finite) == (repeat * np.count_nonzero(np.isnan(values)), repeat * finite.size)


def test_smallest_normals_are_those_of_torch() -> None:
    torch = pytest.importorskip("torch")
    for dtype, tiny in SMALLEST_NORMAL.items():
        if dtype != "fp4":
            assert torch.finfo(getattr(torch, BY_NAME[dtype].torch)).smallest_normal == tiny


@settings(deadline=None)
@given(
    hnp.arrays(
        np.float64,
        st.integers(0, 40),
        elements=st.sampled_from([0.0, -0.0, 5e-324, -1e-310, 2.5e-308, np.nan, np.inf, -np.inf, 1.0, -7e7]),
    ),
    st.sampled_from(["fp32", "fp64"]),
    st.booleans(),
)
def test_odd_numbers_of_wide_types(values: Array, dtype: str, sketched: bool) -> None:
    with np.errstate(over="ignore"):
        stored = values.astype(BY_NAME[dtype].numpy)
    before, moments.SMALL = moments.SMALL, -1 if sketched else 1 << 16
    try:
        found = one(dtype, stored)
    finally:
        moments.SMALL = before
    info = np.finfo(stored.dtype)
    assert found.neg_zeros == np.count_nonzero((stored == 0) & np.signbit(stored))
    assert found.subnormals == np.count_nonzero((stored != 0) & (np.abs(stored) < info.smallest_normal))
    assert found.zeros == np.count_nonzero(stored == 0)


@pytest.mark.parametrize("number", [0, 1, 2, 9, 16_384, 40_001])
def test_fp4_has_the_figures_of_its_halves(number: int) -> None:
    codes = rng.integers(0, 16, number + number % 2).astype(np.uint8)
    codes[number:] = 7  # the half byte that pads
    packed = codes[0::2] | codes[1::2] << 4
    ref = TensorRef("p", "fp4", (number,), storage="p")
    source = Source("m", "memory", (ref,), readers={"": Memory(p=packed.tobytes())})
    size = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
    values = np.concatenate([size, -size])[codes[:number]]
    found = tensor_stats(source, ref, bins=4)
    assert (found.count, found.finite, found.zeros) == (number, number, np.count_nonzero(values == 0))
    assert found.subnormals == np.count_nonzero(np.abs(values) == 0.5)
    if number:
        assert (found.min, found.max) == (values.min(), values.max())
        assert found.mean == pytest.approx(values.mean(), abs=1e-12)
        assert found.std == pytest.approx(values.std(), abs=1e-12)


# ---------------------------------------------------------------------------------------- what a narrower type holds


@pytest.mark.parametrize(
    ("dtype", "values", "fits"),
    [
        ("fp32", [1.0, -2.5, 0.0, np.nan, np.inf], ("bf16", "fp16")),
        ("fp32", [1.0, 1e30], ("bf16",)),
        ("fp32", [1.0, 1 + 2**-10], ("fp16",)),
        ("fp32", [1.0, 2.0**-24], ("bf16", "fp16")),
        ("fp32", [1.0, 0.1], ()),
        ("fp64", [1.0, 0.1], ()),
        ("fp64", [1.0, float(np.float32(0.1))], ("fp32",)),
        ("bf16", [1.0], ()),
    ],
)
def test_types_that_lose_nothing(dtype: str, values: list[float], fits: tuple[str, ...]) -> None:
    if fits == ("bf16",):
        values = widened(bf16(np.array(values)), "bf16").tolist()
    stored = bf16(np.array(values)) if dtype == "bf16" else np.array(values, BY_NAME[dtype].numpy)
    assert one(dtype, stored).fits == fits
    assert one(dtype, np.resize(stored, 600_000)).fits == fits


def test_the_two_ways_of_counting_agree() -> None:
    stored = bf16(rng.normal(0, 1, 12_000))
    few = one("bf16", stored)
    before, tally.FEW = tally.FEW, 0
    try:
        many = one("bf16", stored)
    finally:
        tally.FEW = before
    assert (few.quantiles, few.distinct, few.zeros, few.subnormals) == (
        many.quantiles, many.distinct, many.zeros, many.subnormals,
    )  # fmt: skip
