"""The table of element types, against safetensors and torch."""

from __future__ import annotations

import numpy as np
import pytest

from ckpt_gui.core.dtypes import BY_NAME, BY_SAFETENSORS, BY_STORAGE, BY_TORCH, CASTABLE, DTYPES, DType, num_bytes


def test_names_are_unique() -> None:
    assert len(BY_NAME) == len(DTYPES)
    assert len(BY_SAFETENSORS) == sum(d.safetensors is not None for d in DTYPES)
    assert len(BY_TORCH) == sum(d.torch is not None for d in DTYPES)
    assert len(BY_STORAGE) == sum(d.storage is not None for d in DTYPES)


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.name)
def test_sizes_agree_with_numpy_and_torch(dtype: DType) -> None:
    torch = pytest.importorskip("torch")
    if dtype.bits >= 8:
        assert np.dtype(dtype.numpy).itemsize == dtype.itemsize
    if dtype.torch is not None and dtype.bits >= 8:
        made = getattr(torch, dtype.torch)
        assert made.itemsize == dtype.itemsize
        assert made.is_floating_point == (dtype.kind == "float")
        assert made.is_complex == (dtype.kind == "complex")
    if dtype.storage is not None:
        assert hasattr(torch, dtype.storage)


@pytest.mark.parametrize(
    ("dtype", "count", "size"),
    [
        ("bf16", 3, 6),
        ("fp32", 0, 0),
        ("fp4", 3, 2),
        ("fp4", 4, 2),
        ("fp6_e2m3", 4, 3),
        ("fp6_e3m2", 5, 4),
        ("c128", 1, 16),
    ],
)
def test_num_bytes(dtype: str, count: int, size: int) -> None:
    assert num_bytes(dtype, count) == size


def test_castable_types_are_plain_floats() -> None:
    assert all(BY_NAME[name].kind == "float" and BY_NAME[name].bits >= 16 for name in CASTABLE)
