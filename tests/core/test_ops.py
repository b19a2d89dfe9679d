"""Value changes: the rotary permutation against loops, streams by any block size, inverses."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.exprs import chain, needed_dims, ops_of
from ckpt_gui.core.ops import Cast, Op, RefStream, RopePermute, Stream
from tests.core import models

DIMS = {"heads": 4, "kv_heads": 2}


def read(stream: Stream, step: int | None = None) -> bytes:
    """All bytes of a stream, read in blocks."""
    total = int(np.prod(stream.shape)) * {"fp32": 4, "bf16": 2, "fp16": 2, "fp64": 8}[stream.dtype]
    out = np.zeros(total, np.uint8)
    size = max(step or total, 1) * stream.unit if step else max(total, 1)
    for start in range(0, total, size):
        stream.read_into(start, out[start : start + size])
    return out.tobytes()


def stream_of(array: np.ndarray, ops: tuple[Op, ...], dims: dict[str, int]) -> Stream:
    source = models.source({"x": array})
    stream: Stream = RefStream(source, source.refs[0])
    for op in ops:
        stream = op.apply([stream], dims)
    return stream


@pytest.mark.parametrize("heads", [1, 2, 3])
@pytest.mark.parametrize("size", [2, 4, 6, 8, 64, 128])
@pytest.mark.parametrize("columns", [(), (1,), (5,), (3, 2)])
def test_permutation(heads: int, size: int, columns: tuple[int, ...]) -> None:
    shape = (heads * size, *columns)
    hf = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    meta = models.to_pairs(hf, heads)
    there, back = RopePermute("heads", "pairs"), RopePermute("heads", "halves")
    assert read(stream_of(hf, (there,), {"heads": heads})) == meta.tobytes()
    assert read(stream_of(meta, (back,), {"heads": heads})) == hf.tobytes()
    assert there.shape([shape], {}) == shape
    assert there.inverse() == back
    assert back.inverse() == there


def test_the_permutation_is_not_its_own_inverse() -> None:
    hf = np.arange(16, dtype=np.float32)
    op = RopePermute("heads", "pairs")
    assert read(stream_of(hf, (op, op), {"heads": 2})) != hf.tobytes()


@pytest.mark.parametrize("shape", [(), (7, 3), (6, 2), (10,)])
@pytest.mark.parametrize("heads", [2, 4])
def test_heads_that_do_not_divide_the_rows_are_refused(shape: tuple[int, ...], heads: int) -> None:
    if shape and shape[0] % heads == 0 and (shape[0] // heads) % 2 == 0:
        pytest.skip("fits")
    with pytest.raises(CheckpointError) as caught:
        RopePermute("heads").check(shape, {"heads": heads}, "layers.0.attention.wq.weight")
    assert caught.value.code == "heads-unknown"
    assert "layers.0.attention.wq.weight" in caught.value.message
    assert "--heads" in (caught.value.fix or "")


@pytest.mark.parametrize("heads", [0, -1])
def test_no_heads_are_refused(heads: int) -> None:
    with pytest.raises(CheckpointError, match="heads"):
        RopePermute("heads").check((8, 2), {"heads": heads})


@given(
    st.lists(st.sampled_from(["pairs", "halves", "bf16", "fp16", "fp64"]), max_size=4),
    st.integers(1, 9),
    st.integers(1, 3),
    st.sampled_from([(), (3,), (5,)]),
)
def test_any_block_size_reads_the_same_bytes(kinds: list[str], step: int, heads: int, columns: tuple[int, ...]) -> None:
    array = np.arange(heads * 8 * int(np.prod(columns)), dtype=np.float32).reshape(heads * 8, *columns) * 300
    ops: list[Op] = []
    dtype = "fp32"
    for kind in kinds:
        if kind in ("pairs", "halves"):
            ops.append(RopePermute("heads", kind))
        elif kind != dtype:
            ops.append(Cast(dtype, kind))
            dtype = kind
    dims = {"heads": heads}
    stream = stream_of(array, tuple(ops), dims)
    assert stream.dtype == dtype
    assert stream.shape == array.shape
    assert read(stream_of(array, tuple(ops), dims), step) == read(stream)


def test_what_undoes_itself_is_not_kept() -> None:
    ref = models.source({"x": np.zeros((8, 2), np.float32)}).refs[0]
    to, back, other = RopePermute("heads", "pairs"), RopePermute("heads", "halves"), RopePermute("kv_heads", "halves")

    def kept(*ops: Op) -> tuple[Op, ...]:
        return ops_of(chain(ops, ref))

    assert kept(to, back) == ()
    assert chain((to, back), ref) is ref
    assert kept(to, other) == (to, other)
    assert kept(to, to, back, back) == ()
    assert kept(Cast("fp32", "bf16"), Cast("bf16", "fp32")) == (Cast("fp32", "bf16"), Cast("bf16", "fp32"))
    assert needed_dims(chain((to, other), ref)) == ("heads", "kv_heads")


def test_overflow_is_counted() -> None:
    stream = stream_of(
        np.array([1.0, 7e4, -7e4, np.inf, np.nan, 65519.0, 65520.0], np.float32), (Cast("fp32", "fp16"),), {}
    )
    read(stream, 2)
    assert stream.overflow == 3  # type: ignore[attr-defined]


def test_ops_are_described() -> None:
    assert RopePermute("heads").describe(DIMS) == "rotary rows pairs → halves, 4 heads"
    assert RopePermute("kv_heads", "pairs").describe(DIMS) == "rotary rows halves → pairs, 2 heads"
    assert Cast("fp32", "bf16").describe({}) == "cast fp32 → bf16"
