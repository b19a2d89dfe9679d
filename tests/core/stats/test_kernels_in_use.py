"""Figures by the compiled kernels and by those in numpy: the same, and nothing that a start would wait for."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

import numpy as np
import pytest

from ckpt_gui.core.dtypes import BY_NAME
from ckpt_gui.core.native import Compiled, kernels
from ckpt_gui.core.stats import TensorStats
from ckpt_gui.core.stats.tally import tally_for
from ckpt_gui.core.stats.tally_base import Tally
from ckpt_gui.core.tensors import TensorRef

EACH = ("mean", "std", "l2")  # what depends on the order in which is added


@pytest.fixture
def each_way(compiled: Compiled, use_library: Callable[[Compiled | None], None]) -> Callable[..., list[Tally]]:
    """Return a function that tallies blocks of a tensor by the compiled kernels, and then without them."""

    def tallies(ref: TensorRef, blocks: list[np.ndarray]) -> list[Tally]:
        found = []
        for library in (compiled, None):
            use_library(library)
            assert kernels().is_compiled is (library is not None)
            found.append(tally_for(ref))
            for block in blocks:
                found[-1].add(block)
        return found

    return tallies


def rounded(stats: TensorStats) -> TensorStats:
    """Return figures without what the last digits of sums may change."""
    return dataclasses.replace(stats, **dict.fromkeys(EACH, 0.0))


@pytest.mark.parametrize("dtype", ["bf16", "fp16", "fp8_e4m3", "fp4", "u8", "i16"])
def test_counts_give_the_same_figures_bit_for_bit(dtype: str, each_way: Callable[..., list[Tally]]) -> None:
    bits = BY_NAME[dtype].bits
    raw = np.random.default_rng(7).integers(0, 256, 80_002).astype(np.uint8)
    ref = TensorRef("w", dtype, (raw.size * 8 // bits,))
    one, two = each_way(ref, [raw[:50_000], raw[50_000:]])
    assert one.stats(ref) == two.stats(ref)
    assert one.distribution().counts.tolist() == two.distribution().counts.tolist()


@pytest.mark.parametrize("odd", [[], [np.nan], [np.inf, -np.inf, np.nan]])
def test_sums_give_the_same_figures(odd: list[float], each_way: Callable[..., list[Tally]]) -> None:
    values = np.random.default_rng(8).normal(3.0, 0.5, 100_003).astype(np.float32)
    values[:9] = [0.0, -0.0, -0.0, 1e-40, -1e-45, 30.0, -30.0, 2.0**-126, 0.0]
    values[50_000 : 50_000 + len(odd)] = odd
    ref = TensorRef("w", "fp32", (values.size,))
    one, two = each_way(ref, [values[:30_001].view(np.uint8), values[30_001:].view(np.uint8)])
    assert rounded(one.stats(ref)) == rounded(two.stats(ref))
    for name in EACH:
        assert math.isclose(getattr(one.stats(ref), name), getattr(two.stats(ref), name), rel_tol=1e-12)
    assert one.distribution().counts.tolist() == two.distribution().counts.tolist()
    assert (one.stats(ref).zeros, one.stats(ref).neg_zeros, one.stats(ref).subnormals) == (4, 2, 2)
    assert one.stats(ref).nan == sum(map(math.isnan, odd))


def test_deviations_of_what_lies_far_from_zero_do_not_cancel(each_way: Callable[..., list[Tally]]) -> None:
    values = (1e6 + np.random.default_rng(9).integers(0, 2, 100_000)).astype(np.float32)
    ref = TensorRef("w", "fp32", (values.size,))
    for tally in each_way(ref, [values.view(np.uint8)]):
        assert tally.stats(ref).std == pytest.approx(values.astype(np.float64).std(), rel=1e-12)
