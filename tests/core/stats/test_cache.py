"""Counts and comparisons that are kept on disk."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ckpt_gui import dataclasses
from ckpt_gui.core.dtypes import BY_NAME
from ckpt_gui.core.source import Source, SourceFile
from ckpt_gui.core.stats import (
    StatsCache,
    distribution,
    pair_stats,
    tensor_stats,
)
from ckpt_gui.core.tensors import TensorRef
from tests.core.stats.arrays import bf16, make

Array = np.ndarray[Any, Any]
rng = np.random.default_rng(11)


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
