"""Taking apart and putting together: against numpy, by any block size, and what undoes what."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from ckpt_gui.core import part_streams
from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.exprs import make, shape_of
from ckpt_gui.core.families.rule_schema import Rule, Split
from ckpt_gui.core.families.rules import joined, parted, to_hub, to_stored
from ckpt_gui.core.ops import Op, RopePermute
from ckpt_gui.core.part_ops import Concat, Pick, Stack, Take
from ckpt_gui.core.shape_ops import Regroup, Reshape, Transpose
from ckpt_gui.core.symbols import EQUAL
from ckpt_gui.core.tensors import TensorRef

DIMS = {"heads": 3, "kv_heads": 1, "head_dim": 2, "e": 3, "h": 5, "i": 4}
BLOCKS = (1, 37, 1000, 1 << 20)


class ArrayStream:
    """An array as a stream that insists on its unit."""

    def __init__(self, array: np.ndarray, unit: int = 1) -> None:
        self.dtype, self.shape, self.unit = {2: "bf16", 4: "fp32"}[array.itemsize], array.shape, unit
        self._bytes = np.ascontiguousarray(array).view(np.uint8).reshape(-1)

    def read_into(self, start: int, out: np.ndarray) -> None:
        assert start % self.unit == 0
        out[:] = self._bytes[start : start + out.nbytes]


def check(op: Op, parts: Sequence[ArrayStream], expected: np.ndarray) -> None:
    """Read the result of an op in blocks of several sizes."""
    stream = op.apply(parts, DIMS)
    assert stream.shape == expected.shape == op.shape([p.shape for p in parts], DIMS)
    wanted = np.ascontiguousarray(expected).view(np.uint8).reshape(-1)
    for block in BLOCKS:
        step = max(block // stream.unit, 1) * stream.unit
        out = np.zeros_like(wanted)
        for start in range(0, wanted.nbytes, step):
            stream.read_into(start, out[start : start + step])
        assert (out == wanted).all()


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def test_concat_and_take(rng: np.random.Generator) -> None:
    sizes = ("heads*head_dim", "kv_heads*head_dim", 2)
    parts = [rng.integers(0, 60000, (n, 7), dtype=np.uint16) for n in (6, 2, 2)]
    whole = np.concatenate(parts)
    check(Concat(0), [ArrayStream(p, 14) for p in parts], whole)
    wide = [p.T.copy() for p in parts]
    check(Concat(1), [ArrayStream(p) for p in wide], np.concatenate(wide, 1))
    for i, part in enumerate(parts):
        check(Take(0, i, sizes), [ArrayStream(whole, 28)], part)
        check(Take(1, i, sizes), [ArrayStream(np.concatenate(wide, 1), 20)], wide[i])


def test_long_slices_are_read_row_by_row(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(part_streams, "_ROW_READS", 1)
    array = rng.integers(0, 60000, (4, 9), dtype=np.uint16)
    check(Take(1, 1, (EQUAL,) * 3), [ArrayStream(array, 18)], array[:, 3:6])


def test_stack_pick_transpose_reshape(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    slices = [rng.integers(0, 60000, (5, 4), dtype=np.uint32) for _ in range(3)]
    stack = np.stack(slices)
    check(Stack(), [ArrayStream(s) for s in slices], stack)
    check(Pick(1, 3), [ArrayStream(stack)], slices[1])
    check(Reshape(("e", "h", "i"), ("e*h", "i")), [ArrayStream(stack)], stack.reshape(15, 4))
    for block in (4 << 20, 60):
        monkeypatch.setattr(part_streams, "_TRANSPOSE_BLOCK", block)
        check(Transpose(), [ArrayStream(stack)], stack.transpose(0, 2, 1))
        check(Transpose(), [ArrayStream(slices[0])], slices[0].T)


def test_regroup(rng: np.random.Generator) -> None:
    """Rows of q, k and v head by head, and all of q, all of k, all of v."""
    array = rng.integers(0, 60000, (18, 7), dtype=np.uint16)
    by_kind = array.reshape(3, 3, 2, 7).transpose(1, 0, 2, 3).reshape(18, 7)
    check(Regroup("heads", 3), [ArrayStream(array, 14)], by_kind)
    check(Regroup(2, 3), [ArrayStream(array)], array.reshape(2, 3, 3, 7).transpose(1, 0, 2, 3).reshape(18, 7))
    check(Regroup(2, 3).inverse(), [ArrayStream(array)], array.reshape(3, 2, 3, 7).transpose(1, 0, 2, 3).reshape(18, 7))
    check(Regroup("heads", 3), [ArrayStream(array[:, 0].copy())], by_kind[:, 0])
    ref = TensorRef("qkv", "bf16", (18, 7))
    assert make(Regroup("heads", 3), make(Regroup(3, "heads"), ref)) is ref
    assert Regroup("heads", 3).needs == ("heads",)
    assert "3 groups of 4" in Regroup(3, "i").describe(DIMS)


@pytest.mark.parametrize(
    ("op", "shapes"),
    [
        (Take(0, 0, ("heads", "heads")), [(5, 2)]),
        (Take(0, 0, (EQUAL, EQUAL)), [(5, 2)]),
        (Take(2, 0, (EQUAL, EQUAL)), [(4, 2)]),
        (Concat(0), [(2, 3), (2, 4)]),
        (Stack(), [(2, 3), (2, 4)]),
        (Pick(3, 4), [(3, 2)]),
        (Transpose(), [(3,)]),
        (Reshape(("h",), ("i",)), [(5,)]),
        (Regroup("heads", 3), [(10, 2)]),
        (Regroup("heads", 3), [()]),
    ],
)
def test_what_does_not_fit_is_refused(op: Op, shapes: list[tuple[int, ...]]) -> None:
    with pytest.raises(CheckpointError) as caught:
        op.shape(shapes, DIMS)
    assert caught.value.code == "shape-mismatch"


def test_mixed_types_are_refused() -> None:
    parts = [ArrayStream(np.zeros((2, 2), np.uint16)), ArrayStream(np.zeros((2, 2), np.uint32))]
    with pytest.raises(CheckpointError, match="bf16, fp32"):
        Concat(0).apply(parts, {})


QKV = Rule(
    "h.{layer}.qkv",
    ("l.{layer}.q", "l.{layer}.k", "l.{layer}.v"),
    split=Split(("heads*head_dim", "kv_heads*head_dim", "kv_heads*head_dim")),
    each=((RopePermute("heads"),), (RopePermute("kv_heads"),), ()),
)
EXPERTS = Rule(
    "h.{layer}.experts",
    ("l.{layer}.experts.{expert}.gate", "l.{layer}.experts.{expert}.up"),
    ops=(Transpose(),),
    split=Split((EQUAL, EQUAL)),
    stack="expert",
)


MERGED = Rule(
    ("l.{layer}.q", "l.{layer}.k", "l.{layer}.v"),
    "h.{layer}.qkv",
    split=Split(("heads*head_dim", "kv_heads*head_dim", "kv_heads*head_dim")),
    each=((RopePermute("heads"),), (RopePermute("kv_heads"),), ()),
)


def test_parts_that_make_up_a_tensor_and_the_way_back_are_nothing() -> None:
    refs = [TensorRef(name, "bf16", (rows, 4)) for name, rows in (("q", 6), ("k", 2), ("v", 2))]
    hub = joined(MERGED, refs)
    assert shape_of(hub, DIMS) == (10, 4)
    assert all(back is ref for back, ref in zip(parted(MERGED, hub), refs, strict=True))
    whole = TensorRef("qkv", "bf16", (10, 4))
    assert joined(MERGED, parted(MERGED, whole)) is whole


@pytest.mark.parametrize(("rule", "shape", "count"), [(QKV, (10, 4), 0), (EXPERTS, (3, 5, 8), 3)])
def test_a_rule_and_its_way_back_are_nothing(rule: Rule, shape: tuple[int, ...], count: int) -> None:
    ref = TensorRef("stored", "bf16", shape)
    parts = to_hub(rule, ref, {"layer": 2}, count)
    assert len({key for key, _ in parts}) == len(parts) == len(rule.hubs) * max(count, 1)
    assert to_stored(rule, [expr for _, expr in parts]) is ref
    assert all(math.prod(shape_of(expr, DIMS)) * len(parts) >= 1 for _, expr in parts)


def test_parts_in_another_order_are_not_the_whole() -> None:
    ref = TensorRef("stored", "bf16", (6, 4))
    first, second = (make(Take(0, i, (EQUAL, EQUAL)), ref) for i in (0, 1))
    assert make(Concat(0, (EQUAL, EQUAL)), first, second) is ref
    assert make(Concat(0, (EQUAL, EQUAL)), second, first) is not ref
    assert make(Concat(0, (EQUAL, EQUAL)), first, first) is not ref
