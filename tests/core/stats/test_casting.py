"""What a cast does, against torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ckpt_gui.core.dtypes import BY_NAME
from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.stats import (
    cast_stats,
)
from tests.core.stats.arrays import make

Array = np.ndarray[Any, Any]
rng = np.random.default_rng(11)


@pytest.mark.parametrize("target", ["bf16", "fp16", "fp32", "fp64"])
@pytest.mark.parametrize("dtype", ["bf16", "fp16", "fp32", "fp64"])
def test_what_a_cast_does_is_what_torch_does(dtype: str, target: str) -> None:
    torch = pytest.importorskip("torch")
    base = np.concatenate([rng.normal(0, 1, 50_000), 10.0 ** rng.uniform(-40, 38, 20_000), [0, -0.0, np.nan, np.inf]])
    given = torch.from_numpy(base).to(getattr(torch, BY_NAME[dtype].torch))
    bits = BY_NAME[dtype].bits
    stored = given.view(getattr(torch, f"int{bits}")).numpy().view(f"uint{bits}")
    x = given.double().numpy()
    y = given.to(getattr(torch, BY_NAME[target].torch)).double().numpy()
    source, (ref,) = make(dtype, stored)
    found = cast_stats(source, ref, target)
    finite = np.isfinite(x)
    assert found.changed == np.count_nonzero((x != y) & finite)
    assert found.overflow == np.count_nonzero(np.isinf(y) & finite)
    assert found.vanished == np.count_nonzero((y == 0) & (x != 0))
    assert found.zeros == (np.count_nonzero(x == 0), np.count_nonzero(y == 0))
    assert found.infinite == (np.count_nonzero(np.isinf(x)), np.count_nonzero(np.isinf(y)))
    both = finite & np.isfinite(y)
    x_both, y_both = x[both], y[both]
    assert found.max_error == np.abs(x_both - y_both).max()
    used = x_both != 0
    relative = np.abs(x_both - y_both)[used] / np.abs(x_both)[used]
    assert found.max_relative == pytest.approx(relative.max(), rel=1e-12)
    for values, counts in ((x, found.before), (y, found.after)):
        kept = values[np.isfinite(values) & (values != 0)]
        wanted = np.bincount(np.frexp(kept)[1] - 1 - found.exponents[0], minlength=len(counts))
        assert counts == tuple(wanted.tolist())


def test_casts_that_there_are_none_of_are_refused() -> None:
    source, (ref,) = make("i8", np.zeros(3, np.int8))
    with pytest.raises(CheckpointError, match="`t0` is i8"):
        cast_stats(source, ref, "fp16")
