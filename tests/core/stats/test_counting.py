"""Counting by numba and by numpy: the same counts; numba only where it pays, and never at the start."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from ckpt_gui.core.dtypes import BY_NAME
from ckpt_gui.core.stats import counting
from ckpt_gui.core.stats.patterns import Patterns
from ckpt_gui.core.tensors import TensorRef

SIZES = (0, 1, 2, 3, 5, 1001, (1 << 18) + 3)


@pytest.fixture
def undecided(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counting, "_CHOSEN", [counting.by_numpy])


@pytest.mark.parametrize("width", [8, 16])
@pytest.mark.parametrize("size", SIZES)
def test_both_count_alike(width: int, size: int) -> None:
    pytest.importorskip("numba")
    fast = counting.accelerated()
    assert fast is not None
    patterns = np.random.default_rng(size).integers(0, 1 << width, size).astype(f"uint{width}")
    one, two = np.arange(1 << width), np.arange(1 << width)  # counts are added to those that are there
    counting.by_numpy(one, patterns)
    fast(two, patterns)
    assert (one == two).all()
    assert one.sum() == np.arange(1 << width).sum() + size


@pytest.mark.parametrize("dtype", ["bf16", "fp16", "fp8_e4m3"])
def test_the_figures_are_the_same_bit_for_bit(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numba")
    bits = BY_NAME[dtype].bits
    raw = np.random.default_rng(7).integers(0, 256, 40_001 * bits // 8 // 2 * 2).astype(np.uint8)
    ref = TensorRef("w", dtype, (raw.size * 8 // bits,))
    found = []
    for way in (counting.by_numpy, counting.accelerated()):
        monkeypatch.setattr(counting, "_CHOSEN", [way])
        tally = Patterns(dtype, ref.numel)
        tally.add(raw)
        found.append((tally.stats(ref), tally.counts.tolist()))
    assert found[0] == found[1]


@pytest.mark.usefixtures("undecided")
def test_it_is_loaded_for_large_work_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counting, "accelerated", lambda: np.add)
    assert not counting.prepare(counting.WORTH - 1)
    assert counting.prepare(counting.WORTH)
    assert counting.prepare(1)


@pytest.mark.usefixtures("undecided")
def test_without_it_numpy_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counting, "accelerated", lambda: None)
    assert not counting.prepare(counting.WORTH)
    counts = np.zeros(256, dtype=np.int64)
    counting.count_into(counts, np.array([3, 3, 5], dtype=np.uint8))
    assert counts[[3, 5]].tolist() == [2, 1]


def test_numba_is_not_imported_by_importing() -> None:
    code = "import sys, ckpt_gui.core.stats, ckpt_gui.core.scan; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
