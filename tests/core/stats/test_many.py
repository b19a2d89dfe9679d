"""Many tensors at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ckpt_gui import dataclasses
from ckpt_gui.core.errors import Cancelled
from ckpt_gui.core.stats import (
    many_stats,
    tensor_stats,
)
from tests.core.stats.arrays import make

Array = np.ndarray[Any, Any]
rng = np.random.default_rng(11)


def test_many_tensors_on_two_threads_are_as_one_by_one_and_shared_ones_are_read_once() -> None:
    arrays = [rng.normal(0, n + 1, (300, 700)).astype(np.float32) for n in range(5)]
    source, refs = make("fp32", *arrays)
    alias = dataclasses.replace(refs[0], key="alias")
    steps: list[tuple[int, int]] = []
    found = many_stats(source, (*refs, alias), progress=lambda _, *step: steps.append(step))
    assert source.readers[""].read == sum(a.nbytes for a in arrays)  # type: ignore[attr-defined]
    assert found[:5] == tuple(tensor_stats(source, ref) for ref in refs)
    assert found[5] == dataclasses.replace(found[0], key="alias")
    assert steps[-1][0] == steps[-1][1] == sum(a.nbytes for a in arrays)
    with pytest.raises(Cancelled):
        many_stats(source, refs, cancelled=lambda: len(steps) > 0)
