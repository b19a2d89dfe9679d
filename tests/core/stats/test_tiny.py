"""Tiny tensors looked at together have the figures that they have alone."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from ckpt_gui import dataclasses
from ckpt_gui.core.errors import Cancelled
from ckpt_gui.core.formats import open_checkpoint
from ckpt_gui.core.formats.safetensors import layout
from ckpt_gui.core.stats import TensorStats, many_stats, tensor_stats
from ckpt_gui.core.stats.tiny import windows
from ckpt_gui.core.tensors import TensorSpec

ITEM = {"bf16": 2, "fp16": 2, "fp32": 4, "fp64": 8}


def written(path: Path, dtype: str) -> Path:
    """Write tensors of all bit patterns, of few values, of subnormals and zeros, and a large one between them."""
    rng, specs, data = np.random.default_rng(3), [], {}
    for i in range(120):
        shape = ((5,), (3, 7), (64,), ())[i % 4]
        number = math.prod(shape)
        raw = rng.integers(0, 256, number * ITEM[dtype], dtype=np.uint8)
        if i % 5 == 1:
            raw[:] = 0
        elif i % 5 == 2:  # numbers of a usual size
            raw.reshape(number, -1)[:, -1] = np.where(raw.reshape(number, -1)[:, -1] % 2, 0x3C, 0xBC)
        elif i % 5 == 3:
            raw.reshape(number, -1)[:, :-1] = 0
        elif i % 5 == 4:  # small ones, and −0
            raw.reshape(number, -1)[:, -1] &= 0x80
            raw.reshape(number, -1)[0, :-1], raw.reshape(number, -1)[0, -1] = 0, 0x80
        specs.append(TensorSpec(f"t{i:03}", dtype, shape))
        data[f"t{i:03}"] = raw.tobytes()
    specs.append(TensorSpec("t050_large", dtype, (20_000,)))
    data["t050_large"] = bytes(20_000 * ITEM[dtype])
    made = layout(specs, {})
    out = bytearray(made.nbytes)
    for at, text in made.patches({}):
        out[at : at + len(text)] = text
    for key, begin in made.offsets.items():
        out[begin : begin + len(data[key])] = data[key]
    path.write_bytes(out)
    return path


def near(one: TensorStats, two: TensorStats) -> None:
    for field in dataclasses.fields(TensorStats):
        a, b = getattr(one, field.name), getattr(two, field.name)
        if field.name in ("mean", "std", "l2") and a is not None:
            assert a == pytest.approx(b, rel=1e-13, abs=0, nan_ok=True), (one.key, field.name)
        else:
            assert a == b, (one.key, field.name)


@pytest.mark.parametrize("dtype", list(ITEM))
@pytest.mark.parametrize("bins", [0, 7])
def test_together_as_alone(tmp_path: Path, dtype: str, bins: int) -> None:
    with open_checkpoint(written(tmp_path / "model.safetensors", dtype)) as source:
        assert sum(len(window.refs) for window in windows(source, source.refs)) == 120
        told: list[tuple[int, int]] = []
        found = many_stats(source, source.refs, bins=bins, progress=lambda _, *now: told.append(now))
        for ref, stats in zip(source.refs, found, strict=True):
            near(stats, tensor_stats(source, ref, bins=bins))
        assert any(stats.histogram for stats in found) is bool(bins)
        assert any(stats.nan for stats in found) or dtype == "fp64"  # few patterns of fp64 are NaN
        assert any(stats.neg_zeros for stats in found)
        assert any(stats.subnormals for stats in found)
        assert told[-1][0] == told[-1][1] == sum(ref.nbytes for ref in source.refs)
        with pytest.raises(Cancelled):
            many_stats(source, source.refs, cancelled=lambda: True)


def test_few_are_left_alone(tmp_path: Path) -> None:
    with open_checkpoint(written(tmp_path / "model.safetensors", "bf16")) as source:
        assert windows(source, source.refs[:10]) == []
