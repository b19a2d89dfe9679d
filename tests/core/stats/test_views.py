"""Views that are expanded, overlapping, sliced or turned."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ckpt_gui.core.stats import (
    heat_map,
    pair_stats,
    tensor_stats,
)

Array = np.ndarray[Any, Any]
rng = np.random.default_rng(11)


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
