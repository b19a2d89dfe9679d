"""Statistics against numpy in fp64, on tensors in memory."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from ckpt_gui.core import stats
from ckpt_gui.core.dtypes import BY_NAME
from ckpt_gui.core.errors import Cancelled, CheckpointError
from ckpt_gui.core.stats import PairStats, TensorStats, first_values, pair_stats, pattern_values, tally, tensor_stats
from ckpt_gui.core.tensors import Source, TensorRef

Array = np.ndarray[Any, Any]


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


SPECIAL = np.array([0.0, -0.0, 1e-40, -1e-45, np.nan, np.inf, -np.inf, np.inf, 3.5, -2.25, 65504.0], dtype=np.float32)
rng = np.random.default_rng(7)


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


# -------------------------------------------------------------------------------------------------------------- pairs


def check_pair(result: PairStats, a: Array, b: Array, same_bits: Array) -> None:
    shape = a.shape
    a, b = a.astype(np.float64), b.astype(np.float64)
    check(result.a, a)
    check(result.b, b)
    with np.errstate(invalid="ignore", over="ignore"):
        diff = np.abs(a - b)
    known = np.isfinite(diff)
    assert result.count == a.size
    assert result.differing == a.size - np.count_nonzero(same_bits)
    assert result.relation == ("different" if result.differing else "equal")
    if not known.any():
        assert result.max_diff is None
        return
    assert result.max_diff == diff[known].max()
    assert result.mean_diff == pytest.approx(diff[known].mean(), rel=1e-11)
    rest = int(np.prod(shape[1:])) if shape else 1
    if result.max_diff:
        assert result.where == divmod(int(np.where(known, diff, -1).argmax()), rest)
    rows = np.where(known, diff, 0).reshape(shape[0] if shape else 1, rest).mean(axis=1)
    check_rows(result, rows)
    size = math.sqrt((a[known] ** 2).sum()) * math.sqrt((b[known] ** 2).sum())
    if size:
        assert result.cosine == pytest.approx(float((a[known] * b[known]).sum()) / size, rel=1e-9, abs=1e-12)
    finite = np.concatenate([x[np.isfinite(x)] for x in (a.ravel(), b.ravel())])
    if finite.max() - finite.min() < 1e-9 * np.abs(finite).max():  # numpy refuses bins that narrow
        assert (sum(result.hist_a), sum(result.hist_b)) == (result.a.finite, result.b.finite)
        return
    edges = np.histogram_bin_edges(finite, bins=stats.BINS)
    assert result.edges == tuple(edges.tolist())
    for values, counts in ((a, result.hist_a), (b, result.hist_b)):
        assert counts == tuple(np.histogram(values[np.isfinite(values)], bins=edges)[0].tolist())


def check_rows(result: PairStats, rows: Array) -> None:
    step = max(-(-rows.size // stats.MAX_ROWS), 1)
    assert result.rows.step == step
    assert len(result.rows.rows) == len(result.rows.values) == -(-rows.size // step) <= stats.MAX_ROWS
    for point, (row, value) in enumerate(zip(result.rows.rows, result.rows.values, strict=True)):
        chunk = rows[point * step : (point + 1) * step]
        assert value == pytest.approx(chunk.max(), rel=1e-9, abs=1e-300)
        assert rows[row] == pytest.approx(chunk.max(), rel=1e-9, abs=1e-300)
        assert row // step == point


@pytest.mark.parametrize("shape", [(), (0, 4), (5,), (3, 7), (700, 1024), (300_000,), (2, 900_001), (5001, 40, 3)])
@pytest.mark.parametrize("dtype", ["bf16", "fp32"])
def test_pairs_are_compared_as_numpy_does(dtype: str, shape: tuple[int, ...]) -> None:
    a = rng.normal(0, 0.02, shape).astype(np.float32)
    b = a.copy()
    flat = b.reshape(-1)
    flat[flat.size // 3 : flat.size // 3 + 40_000 : 3] += 0.01
    flat[flat.size // 2 :: 50_001] = np.nan
    if dtype == "fp32":
        check_pair(pair("fp32", a, b), a, b, a.view(np.uint32) == b.view(np.uint32))
        return
    stored = bf16(a).reshape(shape), bf16(b).reshape(shape)
    values = [(x.astype(np.uint32) << 16).view(np.float32) for x in stored]
    check_pair(pair("bf16", *stored), *values, stored[0] == stored[1])


def test_an_equal_pair_and_one_that_shares_its_bytes() -> None:
    values = rng.normal(size=(900, 400)).astype(np.float32)
    equal = pair("fp32", values, values)
    assert (equal.relation, equal.text, equal.differing, equal.where) == ("equal", "equal", 0, None)
    assert (equal.max_diff, equal.mean_diff) == (0.0, 0.0)
    assert equal.cosine == pytest.approx(1)
    source, (ref, _) = make("fp32", values, values)
    shared = pair_stats(source, ref, TensorRef("head", "fp32", ref.shape, storage=ref.storage))
    assert (shared.relation, shared.differing) == ("same storage", 0)
    assert shared.a.std == shared.b.std == equal.a.std
    assert shared.hist_a == shared.hist_b == equal.hist_a
    assert source.readers[""].read == 2 * values.nbytes  # type: ignore[attr-defined]


def test_bits_decide_and_not_values() -> None:
    a = np.array([0.0, np.nan, 1.0], dtype=np.float32)
    b = np.array([-0.0, np.nan, 1.0], dtype=np.float32)
    result = pair("fp32", a, b)
    assert (result.differing, result.max_diff, result.where) == (1, 0.0, None)
    assert result.text == "different in 1 of 3 elements"


def test_types_that_differ_are_compared_by_value() -> None:
    values = np.array([[1.0, 2.5], [np.nan, -3.0]], dtype=np.float32)
    source = Source("m", "memory", (), readers={"": Memory(a=bf16(values).tobytes(), b=values.tobytes())})
    a, b = TensorRef("a", "bf16", (2, 2), storage="a"), TensorRef("b", "fp32", (2, 2), storage="b")
    result = pair_stats(source, a, b)
    assert (result.relation, result.by_value, result.max_diff) == ("equal", True, 0.0)


def test_large_tensors_of_two_types_keep_step() -> None:
    values = np.round(rng.normal(0, 8, (600, 1001))).astype(np.float32)
    wide = values.astype(np.float64)
    wide[-1, -1] += 0.5
    source = Source("m", "memory", (), readers={"": Memory(a=bf16(values).tobytes(), b=wide.tobytes())})
    a, b = TensorRef("a", "bf16", values.shape, storage="a"), TensorRef("b", "fp64", values.shape, storage="b")
    check_pair(pair_stats(source, a, b), values, wide, values == wide)


def test_two_sources_can_be_compared() -> None:
    (left, (a,)), (right, (b,)) = make("u8", np.arange(9, dtype=np.uint8)), make("u8", np.ones(9, dtype=np.uint8))
    assert a.place == b.place
    assert pair_stats(left, a, b, other=right).relation == "different"


def test_packed_and_complex_types_are_compared_by_bits() -> None:
    a = np.arange(4, dtype=np.complex64)
    result = pair("c64", a, a + 1j)
    assert (result.relation, result.differing, result.reason is None) == ("different", 4, False)
    b = np.arange(4, dtype=np.complex128)
    assert pair("c128", b, b * [1, 1, 2, 1]).differing == 1
    packed = TensorRef("p", "fp4", (8,), storage="p")
    source = Source("m", "memory", (), readers={"": Memory(p=bytes(4), q=bytes([0, 1, 0, 0]))})
    assert pair_stats(source, packed, TensorRef("q", "fp4", (8,), storage="q")).text == "different in 1 of 4 elements"


def test_shapes_must_agree() -> None:
    with pytest.raises(CheckpointError, match=r"`t0` is 2×3 and `t1` is 3×2") as caught:
        pair("u8", np.zeros((2, 3), np.uint8), np.zeros((3, 2), np.uint8))
    assert caught.value.code == "shape-mismatch"


@settings(deadline=None)
@given(st.data())
def test_any_pair(data: st.DataObject) -> None:
    shape = data.draw(hnp.array_shapes(min_dims=0, max_dims=2, min_side=0, max_side=8))
    numbers = st.floats(width=32, min_value=-(2.0**100), max_value=2.0**100) | st.sampled_from(
        [math.nan, math.inf, -math.inf]
    )
    a = data.draw(hnp.arrays(np.float32, shape, elements=numbers))
    b = np.where(data.draw(hnp.arrays(bool, shape)), a, data.draw(hnp.arrays(np.float32, shape, elements=numbers)))
    check_pair(pair("fp32", a, b), a, b, a.view(np.uint32) == b.view(np.uint32))


# ----------------------------------------------------------------------------------------------- progress and stopping


@pytest.mark.parametrize("dtype", ["bf16", "fp32"])
def test_progress_ends_at_the_total_and_work_can_be_stopped(dtype: str) -> None:
    array = rng.normal(size=900_000).astype(np.float32)
    stored = bf16(array) if dtype == "bf16" else array
    source, (a, b) = make(dtype, stored, stored[::-1])
    for work in (
        lambda **kw: tensor_stats(source, a, bins=8, **kw),
        lambda **kw: pair_stats(source, a, b, **kw),
    ):
        seen: list[tuple[str, int, int]] = []
        work(progress=lambda *step, seen=seen: seen.append(step))
        assert seen[-1][1] == seen[-1][2] > 0
        assert [s[1] for s in seen] == sorted(s[1] for s in seen)
        asked: list[int] = []
        with pytest.raises(Cancelled):
            work(cancelled=lambda asked=asked: len(asked) == 1 or asked.append(1))
