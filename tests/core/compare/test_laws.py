"""Laws of comparing: nothing is lost, a model is the same as itself, and it does not matter which comes first."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckpt_gui.core.compare import Side, compare, fold, side_of_plan
from tests.core import models

MIRROR = {"only-a": "only-b", "only-b": "only-a"}
SHAPES = ((), (0,), (3,), (2, 3), (3, 2))
DTYPES = (np.float32, np.float16, np.float64, np.int32)
NAMES = ("a", "b", "m.0.w", "m.1.w", "m.10.w", "m.0.x.3.w", "m.1.x.3.w", "{}", "a.b", "ü")

tensors = st.builds(
    lambda shape, dtype, seed: np.full(shape, seed, dtype),
    st.sampled_from(SHAPES), st.sampled_from(DTYPES), st.integers(0, 2),
)  # fmt: skip
states = st.dictionaries(st.sampled_from(NAMES), tensors, max_size=7)
alike = st.dictionaries(st.sampled_from("abcde"), st.integers(0, 2).map(lambda n: np.full(3, n, np.float32)))


def side(state: dict[str, Any]) -> Side:
    return side_of_plan(models.plan(state))


@given(st.one_of(st.tuples(states, states), st.tuples(alike, alike)), st.booleans())
def test_any_two(two_models: tuple[dict[str, Any], dict[str, Any]], values: bool) -> None:
    one, two = two_models
    a, b = side(one), side(two)
    there = compare(a, b, values=values)
    back = compare(b, a, values=values)
    assert Counter(MIRROR.get(s, s) for s in there.counts.elements()) == back.counts
    assert sorted(r.a.key for r in there.rows if r.a) == sorted(one)
    assert sorted(r.b.key for r in there.rows if r.b) == sorted(two)
    assert compare(a, a, values=values).same is True
    assert there.same in (True, False)
    folds = fold(there.rows)
    assert sorted(r.key for f in folds for r in f.rows) == sorted(r.key for r in there.rows)
    for row in there.rows:
        if row.state == "equal":
            assert row.a is not None
            assert row.b is not None
            assert one[row.a.key].tobytes() == two[row.b.key].tobytes()


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_the_number_of_workers_does_not_count(workers: int) -> None:
    state = models.state("hf")
    changed = {key: value + (n % 3 == 0) for n, (key, value) in enumerate(state.items())}
    a, b = (side_of_plan(models.plan(s, models.config())) for s in (state, changed))
    assert compare(a, b, values=True, workers=workers).rows == compare(a, b, values=True).rows
