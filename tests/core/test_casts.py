"""Casts, bit for bit against torch."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckpt_gui.core.casts import _table, as_float, cast
from ckpt_gui.core.dtypes import BY_NAME, CASTABLE
from ckpt_gui.core.native import Compiled

torch = pytest.importorskip("torch")
PAIRS = [(a, b) for a in CASTABLE for b in CASTABLE if a != b]


@pytest.fixture(params=["compiled", "numpy"], autouse=True)
def _each_way(
    request: pytest.FixtureRequest, compiled: Compiled, use_library: Callable[[Compiled | None], None]
) -> None:
    use_library(compiled if request.param == "compiled" else None)
    _table.cache_clear()


def patterns(dtype: str) -> np.ndarray:
    """All patterns of a 16-bit type; a wide spread of a larger one, with every boundary of the smaller types."""
    if BY_NAME[dtype].bits == 16:
        return np.arange(65536, dtype=np.uint16).view(np.uint8)
    random = np.random.default_rng(5)
    if dtype == "fp32":
        bits = random.integers(0, 2**32, 200_000, dtype=np.uint64).astype(np.uint32)
        near = (np.arange(65536, dtype=np.uint32)[:, None] << 16) + np.array([0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF])
        halves = np.arange(65536, dtype=np.uint16).view(np.float16).astype(np.float32).view(np.uint32)
        return np.concatenate([bits, near.astype(np.uint32).ravel(), halves, halves + 1, halves + 0x1000]).view(
            np.uint8
        )
    bits64 = random.integers(0, 2**64, 100_000, dtype=np.uint64).view(np.float64)
    with np.errstate(all="ignore"):
        floats = as_float(patterns("fp32"), "fp32").astype(np.float64)
        spread = random.normal(size=100_000) * 10.0 ** random.integers(-12, 12, 100_000)
        return np.concatenate(
            [floats, bits64, spread, np.nextafter(floats, np.inf), np.nextafter(floats, -np.inf)]
        ).view(np.uint8)


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_casts_agree_with_torch(source: str, target: str) -> None:
    raw = patterns(source)
    result, overflow = cast(raw, source, target)
    before = torch.from_numpy(raw.copy()).view(getattr(torch, BY_NAME[source].torch or ""))
    wanted = before.to(getattr(torch, BY_NAME[target].torch or ""))
    after = torch.from_numpy(result.copy()).view(wanted.dtype)
    assert torch.equal(after.isnan(), before.isnan())
    number = ~before.isnan()
    bits = {16: torch.int16, 32: torch.int32, 64: torch.int64}[BY_NAME[target].bits]
    assert torch.equal(after.view(bits)[number], wanted.view(bits)[number])
    assert overflow == int((wanted.isinf() & before.isfinite()).sum())


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_any_block_size_gives_the_same(source: str, target: str) -> None:
    raw = patterns(source)[: 8 * 1024]
    whole, overflow = cast(raw, source, target)
    step = 8 * 37
    parts = [cast(raw[i : i + step], source, target) for i in range(0, len(raw), step)]
    assert np.concatenate([p[0] for p in parts]).tobytes() == whole.tobytes()
    assert sum(p[1] for p in parts) == overflow


def test_a_cast_to_itself_is_nothing() -> None:
    raw = np.arange(16, dtype=np.uint8)
    assert cast(raw, "bf16", "bf16") == (raw, 0)


@given(st.lists(st.floats(width=32), max_size=50))
def test_up_and_down_again(values: list[float]) -> None:
    raw = np.array(values, np.float32).view(np.uint8)
    up, overflow = cast(raw, "fp32", "fp64")
    assert overflow == 0
    assert (
        cast(up, "fp64", "fp32")[0].view(np.float32).tobytes() == raw.view(np.float32).tobytes()
        or np.isnan(values).any()
    )


@pytest.mark.parametrize(
    ("dtype", "kind"), [("i8", np.float32), ("u16", np.float32), ("i64", np.float64), ("bool", np.float32)]
)
def test_as_float(dtype: str, kind: type) -> None:
    raw = np.array([0, 1], BY_NAME[dtype].numpy).view(np.uint8)
    assert as_float(raw, dtype).dtype == kind
    assert list(as_float(raw, dtype)) == [0, 1]


def test_an_overflow_is_counted_from_the_first_number_that_is_too_large() -> None:
    """65,504 and what rounds to it fit fp16; bf16's next number above does not, and its negative neither."""
    largest, next_one = np.array([0x477F, 0x4780], dtype=np.uint16)
    for patterns, wanted in (([largest], 0), ([next_one], 1), ([largest, next_one | 0x8000, next_one], 2)):
        assert cast(np.array(patterns, dtype=np.uint16).view(np.uint8), "bf16", "fp16")[1] == wanted
