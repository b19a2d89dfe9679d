"""Pictures of tensors, block by block, against numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ckpt_gui.core.errors import Cancelled, CheckpointError
from ckpt_gui.core.stats import (
    heat_map,
)
from tests.core.stats.arrays import bf16, make, widened

Array = np.ndarray[Any, Any]
rng = np.random.default_rng(11)


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
