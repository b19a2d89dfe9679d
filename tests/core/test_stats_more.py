"""Quantiles, counts of odd numbers, sketches, pairs in depth, pictures and the cache, against numpy and torch."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from ckpt_gui.core.dtypes import BY_NAME
from ckpt_gui.core.errors import Cancelled, CheckpointError
from ckpt_gui.core.stats import (
    QUANTILES,
    StatsCache,
    cast_stats,
    distribution,
    heat_map,
    many_stats,
    moments,
    pair_stats,
    pattern_values,
    tally,
    tensor_stats,
)
from ckpt_gui.core.stats.elements import SMALLEST_NORMAL
from ckpt_gui.core.stats.rows import FIRST_ROWS
from ckpt_gui.core.tensors import Source, SourceFile, TensorRef
from tests.core.test_stats import Memory, bf16, make, one, pair

Array = np.ndarray[Any, Any]
rng = np.random.default_rng(11)


def widened(stored: Array, dtype: str) -> Array:
    """The values of stored patterns in fp64, by numpy alone."""
    if dtype == "bf16":
        return (stored.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return stored.astype(np.float64)


# ---------------------------------------------------------------------------------------------------------- quantiles


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


# -------------------------------------------------------------------------------------------------------------- views


def test_an_expanded_view_counts_each_element_as_often_as_it_is_shown() -> None:
    torch = pytest.importorskip("torch")
    from ckpt_gui.core.formats.memory import from_state_dict

    row = torch.arange(1, 9, dtype=torch.float32)
    tensors = {
        "expanded": row.expand(5, 8),
        "transposed": torch.arange(12.0).reshape(3, 4).t(),
        "sliced": torch.arange(40.0).reshape(5, 8)[1:4, ::2],
        "overlapping": torch.arange(20.0).unfold(0, 6, 2),
    }
    source = from_state_dict(tensors)
    for ref in source.refs:
        found, values = tensor_stats(source, ref), tensors[ref.key].double().numpy()
        assert (found.count, found.min, found.max) == (values.size, values.min(), values.max())
        assert found.mean == pytest.approx(values.mean())
        assert found.std == pytest.approx(values.std())


# -------------------------------------------------------------------------------------------------------------- pairs


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


# ----------------------------------------------------------------------------------------------------------- heat map


@pytest.mark.parametrize("shape", [(), (7,), (3, 5), (600, 900), (4, 70, 300), (5, 1), (1, 3_000_000)])
@pytest.mark.parametrize("dtype", ["bf16", "fp32"])
def test_pictures_are_means_and_maxima_of_blocks(dtype: str, shape: tuple[int, ...]) -> None:
    values = rng.normal(0, 1, shape).astype(np.float32)
    flat = values.reshape(-1)
    flat[:: max(flat.size // 5, 2)] = np.nan
    stored = bf16(values).reshape(shape) if dtype == "bf16" else values
    wide = widened(stored, dtype).reshape(-1, shape[-1] if shape else 1)
    source, (ref,) = make(dtype, stored)
    picture = heat_map(source, ref, size=(8, 16))
    assert picture.mean.shape == picture.abs_max.shape == picture.bad.shape
    assert picture.mean.shape[0] <= 8
    assert picture.mean.shape[1] <= 16
    for (r, c), mean in np.ndenumerate(picture.mean):
        block = wide[
            r * picture.row_step : (r + 1) * picture.row_step, c * picture.column_step : (c + 1) * picture.column_step
        ]
        finite = block[np.isfinite(block)]
        assert picture.bad[r, c] == block.size - finite.size
        if finite.size:
            assert mean == pytest.approx(finite.mean(), rel=1e-9, abs=1e-12)
            assert picture.abs_max[r, c] == np.abs(finite).max()
        else:
            assert np.isnan(mean)
            assert np.isnan(picture.abs_max[r, c])


def test_a_part_of_a_picture_at_its_deepest_is_the_values() -> None:
    values = rng.normal(0, 1, (500, 400)).astype(np.float32)
    source, (ref,) = make("fp32", values)
    picture = heat_map(source, ref, rows=(100, 110), columns=(390, 999), size=(20, 20))
    assert picture.true_values
    assert (picture.rows, picture.columns) == ((100, 110), (390, 400))
    np.testing.assert_array_equal(picture.mean, values[100:110, 390:400])
    assert source.readers[""].read == 10 * 10 * 4  # type: ignore[attr-defined]
    assert heat_map(source, ref, rows=(600, 700)).mean.size == 0
    with pytest.raises(Cancelled):
        heat_map(source, ref, cancelled=lambda: True)
    source, (ref,) = make("c64", np.zeros(4, np.complex64))
    with pytest.raises(CheckpointError, match="c64"):
        heat_map(source, ref)


# -------------------------------------------------------------------------------------------------------------- cache


def on_disk(dtype: str, array: Array, identity: tuple[int, ...] = (1, 2, 3, 4, 5)) -> tuple[Source, TensorRef]:
    source, (ref,) = make(dtype, array)
    return source.replace(files=(SourceFile("", "/somewhere", 9, identity),)), ref


@pytest.mark.parametrize("dtype", ["bf16", "fp16", "fp32", "fp64", "u8", "i64", "fp4"])
def test_a_second_look_reads_nothing_and_says_the_same(dtype: str, tmp_path: Path) -> None:
    cache = StatsCache(tmp_path / "cache")
    base = rng.normal(0, 50, 2_000_001)
    base[[5, 90]] = np.inf, -0.0
    stored = bf16(base) if dtype == "bf16" else np.nan_to_num(base, posinf=1).astype(BY_NAME[dtype].numpy)
    source, ref = on_disk(dtype, stored)
    if dtype == "fp4":
        ref = dataclasses.replace(ref, shape=(4_000_001,))
    first = tensor_stats(source, ref, cache=cache)
    read = source.readers[""].read  # type: ignore[attr-defined]
    assert tensor_stats(source, ref, cache=cache) == first
    assert source.readers[""].read == read  # type: ignore[attr-defined]
    found = distribution(source, ref, cache=cache).histogram(9)
    assert found == distribution(source, ref).histogram(9)


def two_on_disk(dtype: str, a: Array, b: Array) -> tuple[Source, TensorRef, TensorRef]:
    source, (left, right) = make(dtype, a, b)
    return source.replace(files=(SourceFile("", "/somewhere", 9, (1, 2, 3)),)), left, right


@pytest.mark.parametrize("equal", [True, False])
def test_a_pair_is_compared_once(equal: bool, tmp_path: Path) -> None:
    cache = StatsCache(tmp_path / "cache")
    a = rng.normal(0, 1, (3000, 400)).astype(np.float32)
    b = a.copy()
    b[[7, 900]] += 0 if equal else 1
    b[5, 5] = b[5, 5] if equal else np.nan
    source, left, right = two_on_disk("fp32", a, b)
    first = pair_stats(source, left, right, cache=cache)
    read = source.readers[""].read  # type: ignore[attr-defined]
    assert pair_stats(source, left, right, cache=cache) == first
    assert source.readers[""].read == read  # type: ignore[attr-defined]
    assert pair_stats(source, right, left, cache=cache) != first  # the other way round is another comparison
    for entry in (tmp_path / "cache").iterdir():
        entry.write_bytes(entry.read_bytes()[:-3])
    assert pair_stats(source, left, right, cache=cache) == first


def test_another_file_another_tensor_and_small_ones_are_read(tmp_path: Path) -> None:
    cache = StatsCache(tmp_path / "cache")
    array = rng.normal(0, 1, 600_000).astype(np.float32)
    tensor_stats(*on_disk("fp32", array), cache=cache)
    other, ref = on_disk("fp32", array * 2, (1, 2, 3, 4, 6))
    assert tensor_stats(other, ref, cache=cache).max == float((array * 2).max())
    assert len(list((tmp_path / "cache").iterdir())) == 2
    tensor_stats(*on_disk("fp32", array[:1000]), cache=cache)
    source, ref = make("fp32", array)[0], make("fp32", array)[1][0]
    tensor_stats(source, ref, cache=cache)  # files without an identity: a state dict in memory
    assert len(list((tmp_path / "cache").iterdir())) == 2


def test_damaged_entries_are_read_anew(tmp_path: Path) -> None:
    cache = StatsCache(tmp_path / "cache")
    source, ref = on_disk("bf16", bf16(rng.normal(0, 1, 700_000)))
    first = tensor_stats(source, ref, cache=cache)
    (entry,) = (tmp_path / "cache").iterdir()
    good = entry.read_bytes()
    for bad in (b"", good[:20], good[:-1], good[:50] + b"\x00" + good[51:], os.urandom(300), b"\0" * 5_000_000):
        entry.write_bytes(bad)
        assert tensor_stats(source, ref, cache=cache) == first
    assert entry.read_bytes() == good


def test_the_oldest_entries_go_first(tmp_path: Path) -> None:
    cache = StatsCache(tmp_path / "cache")
    pairs = [on_disk("bf16", bf16(rng.normal(0, n + 1, 600_000)), (n,)) for n in range(4)]
    paths = []
    for n, (source, ref) in enumerate(pairs):
        tensor_stats(source, ref, cache=cache)
        (path,) = set((tmp_path / "cache").iterdir()) - set(paths)
        os.utime(path, (n, n))
        paths.append(path)
    tensor_stats(*pairs[0], cache=cache)  # used again: now the youngest
    cache.most_bytes = sum(path.stat().st_size for path in (paths[0], paths[3]))
    cache.trim()
    assert [path.exists() for path in paths] == [True, False, False, True]


def test_a_folder_that_can_not_be_written_is_no_fault(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file")
    source, ref = on_disk("bf16", bf16(rng.normal(0, 1, 600_000)))
    assert tensor_stats(source, ref, cache=StatsCache(tmp_path / "cache")).count == 600_000


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


# --------------------------------------------------------------------------------------------------------------- casts


@pytest.mark.parametrize("target", ["bf16", "fp16", "fp32", "fp64"])
@pytest.mark.parametrize("dtype", ["bf16", "fp16", "fp32", "fp64"])
def test_what_a_cast_does_is_what_torch_does(dtype: str, target: str) -> None:
    torch = pytest.importorskip("torch")
    base = np.concatenate([rng.normal(0, 1, 50_000), 10.0 ** rng.uniform(-40, 38, 20_000), [0, -0.0, np.nan, np.inf]])
    given = torch.from_numpy(base).to(getattr(torch, BY_NAME[dtype].torch))
    bits = BY_NAME[dtype].bits
    stored = given.view(getattr(torch, f"int{bits}")).numpy().view(f"uint{bits}")
    x = given.double().numpy()
    y = given.to(getattr(torch, BY_NAME[target].torch)).double().numpy()
    source, (ref,) = make(dtype, stored)
    found = cast_stats(source, ref, target)
    finite = np.isfinite(x)
    assert found.changed == np.count_nonzero((x != y) & finite)
    assert found.overflow == np.count_nonzero(np.isinf(y) & finite)
    assert found.vanished == np.count_nonzero((y == 0) & (x != 0))
    assert found.zeros == (np.count_nonzero(x == 0), np.count_nonzero(y == 0))
    assert found.infinite == (np.count_nonzero(np.isinf(x)), np.count_nonzero(np.isinf(y)))
    both = finite & np.isfinite(y)
    x_both, y_both = x[both], y[both]
    assert found.max_error == np.abs(x_both - y_both).max()
    used = x_both != 0
    relative = np.abs(x_both - y_both)[used] / np.abs(x_both)[used]
    assert found.max_relative == pytest.approx(relative.max(), rel=1e-12)
    for values, counts in ((x, found.before), (y, found.after)):
        kept = values[np.isfinite(values) & (values != 0)]
        wanted = np.bincount(np.frexp(kept)[1] - 1 - found.exponents[0], minlength=len(counts))
        assert counts == tuple(wanted.tolist())


def test_casts_that_there_are_none_of_are_refused() -> None:
    source, (ref,) = make("i8", np.zeros(3, np.int8))
    with pytest.raises(CheckpointError, match="`t0` is i8"):
        cast_stats(source, ref, "fp16")


# ---------------------------------------------------------------------------------------------------------------- many


def test_many_tensors_on_two_threads_are_as_one_by_one_and_shared_ones_are_read_once() -> None:
    arrays = [rng.normal(0, n + 1, (300, 700)).astype(np.float32) for n in range(5)]
    source, refs = make("fp32", *arrays)
    alias = dataclasses.replace(refs[0], key="alias")
    steps: list[tuple[int, int]] = []
    found = many_stats(source, (*refs, alias), progress=lambda _, *step: steps.append(step))
    assert source.readers[""].read == sum(a.nbytes for a in arrays)  # type: ignore[attr-defined]
    assert found[:5] == tuple(tensor_stats(source, ref) for ref in refs)
    assert found[5] == dataclasses.replace(found[0], key="alias")
    assert steps[-1][0] == steps[-1][1] == sum(a.nbytes for a in arrays)
    with pytest.raises(Cancelled):
        many_stats(source, refs, cancelled=lambda: len(steps) > 0)


# ------------------------------------------------------------------------------------------------------ views, any


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_any_view_has_the_figures_of_its_elements(data: st.DataObject) -> None:
    torch = pytest.importorskip("torch")
    from ckpt_gui.core.formats.memory import from_state_dict

    storage = torch.from_numpy(np.random.default_rng(1).normal(0, 1, 400).astype(np.float32))
    shape = tuple(data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=3)))
    strides = tuple(data.draw(st.integers(0, 12)) for _ in shape)
    view = storage.as_strided(shape, strides, data.draw(st.integers(0, 30)))
    source = from_state_dict({"view": view})
    (ref,) = source.refs
    values = view.contiguous().double().numpy()
    found = tensor_stats(source, ref, bins=5)
    assert (found.count, found.min, found.max) == (values.size, values.min(), values.max())
    assert found.mean == pytest.approx(values.mean(), abs=1e-12)
    assert found.l2 == pytest.approx(np.linalg.norm(values), rel=1e-12)
    assert found.distinct == np.unique(values).size
    assert sum(found.histogram.counts) == values.size  # type: ignore[union-attr]
    np.testing.assert_array_equal(heat_map(source, ref).mean, values.reshape(-1, shape[-1]))
    assert pair_stats(source, ref, ref).relation == "same storage"
