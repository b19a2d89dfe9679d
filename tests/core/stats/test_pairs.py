"""Pairs against numpy; what is read, and how work is stopped."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from ckpt_gui.core import stats
from ckpt_gui.core.errors import Cancelled, CheckpointError
from ckpt_gui.core.source import Source
from ckpt_gui.core.stats import (
    PairStats,
    pair_stats,
    tensor_stats,
)
from ckpt_gui.core.tensors import TensorRef
from tests.core.stats.arrays import Memory, bf16, check, make, pair

Array = np.ndarray[Any, Any]
rng = np.random.default_rng(7)


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
