"""Values of parts of tensors against numpy's own indexing; what is read is bounded."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from ckpt_gui.core import slices
from ckpt_gui.core.dtypes import BY_NAME
from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.source import Blocks, Source
from ckpt_gui.core.stats import pattern_values, tensor_stats
from ckpt_gui.core.tensors import TensorRef
from ckpt_gui.core.values import parse_index, read_values, shape_of
from tests.core.stats.arrays import Memory, make


def read(dtype: str, array: np.ndarray[Any, Any], index: str) -> np.ndarray[Any, Any]:
    source, (ref,) = make(dtype, array)
    return read_values(source, ref, index).array


@settings(deadline=None)
@given(st.data())
def test_any_index_gives_what_numpy_gives(data: st.DataObject) -> None:
    shape = data.draw(hnp.array_shapes(min_dims=1, max_dims=4, min_side=1, max_side=6))
    array = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    wanted: list[Any] = []
    texts: list[str] = []
    for size in shape[: data.draw(st.integers(0, len(shape)))]:
        if data.draw(st.booleans()):
            number = data.draw(st.integers(-size, size - 1))
            wanted.append(number)
            texts.append(str(number))
        else:
            low, high = (data.draw(st.none() | st.integers(-size - 1, size + 1)) for _ in "ab")
            step = data.draw(st.none() | st.integers(1, 3))
            wanted.append(slice(low, high, step))
            texts.append(f"{'' if low is None else low}:{'' if high is None else high}" + (f":{step}" if step else ""))
    if data.draw(st.booleans()):
        wanted.append(...)
        texts.append("...")
    found = read("fp32", array, f"[{', '.join(texts)}]")
    np.testing.assert_array_equal(found, array[tuple(wanted)])


@pytest.mark.parametrize("dtype", ["bf16", "fp16", "fp64", "i64", "u64", "i8", "bool", "c64"])
def test_every_type_keeps_its_values(dtype: str) -> None:
    if dtype == "bf16":
        assert read(dtype, np.array([[0x3F80, 0xC000], [0x7F80, 0x0001]], np.uint16), "[:, 1]").tolist() == [
            -2,
            2**-133,
        ]
        return
    array = np.array([[1, 0], [3, 200]]).astype(BY_NAME[dtype].numpy)
    if dtype in ("i64", "u64"):
        array[1, 1] = 2**63 - 1
    found = read(dtype, array, "[1]")
    assert found.tolist() == array[1].tolist()
    assert found.dtype.kind == (array.dtype.kind if dtype != "fp16" else "f")


def test_a_scalar_an_empty_tensor_and_packed_ones() -> None:
    assert read("fp32", np.array(2.5, np.float32), "[]").shape == ()
    assert read("fp32", np.array(2.5, np.float32), "[...]").item() == 2.5
    assert read("fp32", np.zeros((0, 4), np.float32), "[:, 1]").shape == (0,)
    ref = TensorRef("p", "fp4", (3, 3), storage="p")
    source = Source("m", "memory", (), readers={"": Memory(p=bytes([0x21, 0x43, 0x65, 0x97, 0x0F]))})
    assert read_values(source, ref, "[1, 1:]").array.tolist() == [3, 4]
    assert read_values(source, ref, "[2]").array.tolist() == [6, -0.5, -6]


def test_only_the_part_is_read() -> None:
    array = np.arange(4_000_000, dtype=np.float32).reshape(2000, 2000)
    source, (ref,) = make("fp32", array)
    found = read_values(source, ref, "[10:14, -3:]")
    np.testing.assert_array_equal(found.array, array[10:14, -3:])
    assert source.readers[""].read == 4 * 3 * 4  # type: ignore[attr-defined]
    assert str(found.index) == "[10:14, 1997:2000]"


@pytest.mark.parametrize(
    ("index", "sentence"),
    [
        ("[0, 0, 0]", "more parts than the tensor's 2"),
        ("[4]", "asks for 4 of a dimension of 4"),
        ("[a]", "no number and no range"),
        ("[0,]", "no number and no range"),
        ("[::0]", "a step of 0"),
        ("[..., ...]", "more parts"),
        ("[__import__('os')]", "no number"),
        ("[1:2:-1]", "no number and no range"),
    ],
)
def test_mistakes_are_sentences(index: str, sentence: str) -> None:
    with pytest.raises(CheckpointError, match=sentence) as caught:
        parse_index(index, (4, 5))
    assert caught.value.code == "bad-index"


def test_too_much_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    source, (ref,) = make("fp32", np.zeros((100, 100), np.float32))
    with pytest.raises(CheckpointError, match="at most 500"):
        read_values(source, ref, "[:]", most=500)
    monkeypatch.setattr(slices, "MOST_READ", 1000)
    with pytest.raises(CheckpointError, match="so far apart"):
        read_values(source, ref, "[:, ::50]")
    source, (ref,) = make("fp6_e2m3", np.zeros(3, np.uint8))
    with pytest.raises(CheckpointError, match="fp6_e2m3"):
        read_values(source, ref, "[0]")


# ----------------------------------------------------------------------------------------------------------- quantised


def source_of(**tensors: tuple[str, np.ndarray[Any, Any]]) -> Source:
    refs = tuple(TensorRef(k.replace("__", "."), d, a.shape, storage=k) for k, (d, a) in tensors.items())
    return Source("m", "memory", refs, readers={"": Memory(**{k: a.tobytes() for k, (_, a) in tensors.items()})})


@pytest.mark.parametrize("index", ["[...]", "[1, 2, 5]", "[0, :, 30:70:3]", "[:, 1, 64:]", "[0, 0, 0:0]"])
def test_mxfp4_is_shown_as_weights(index: str) -> None:
    rng = np.random.default_rng(1)
    blocks = rng.integers(0, 256, (2, 3, 4, 16)).astype(np.uint8)
    scales = rng.integers(120, 134, (2, 3, 4)).astype(np.uint8)
    codes = np.stack([blocks & 15, blocks >> 4], axis=-1).reshape(2, 3, 4, 32)
    table = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])
    wanted = (table[codes] * 2.0 ** (scales.astype(float)[..., None] - 127)).reshape(2, 3, 128)
    source = source_of(experts__w_blocks=("u8", blocks), experts__w_scales=("u8", scales))
    found = read_values(source, source.refs[0], index)
    at = eval(f"np.s_{index}")
    np.testing.assert_array_equal(found.array, wanted[at])
    assert (found.shape, found.note) == ((2, 3, 128), "decoded from MXFP4 with experts.w_scales")
    assert shape_of(source, source.refs[0]) == (2, 3, 128)
    assert (
        read_values(source, source.refs[0], "[0, 0, 0, :2]", plain=True).array.tolist() == blocks[0, 0, 0, :2].tolist()
    )


@pytest.mark.parametrize("ending", ["_scale_inv", "_scale"])
@pytest.mark.parametrize("index", ["[...]", "[129, 5]", "[100:200:7, 250:]"])
def test_fp8_is_multiplied_by_its_scales(ending: str, index: str) -> None:
    rng = np.random.default_rng(2)
    codes = rng.integers(0, 127, (200, 300)).astype(np.uint8)
    blocked = ending == "_scale_inv"
    scales = rng.uniform(0.5, 2, (2, 3) if blocked else (200, 1)).astype(np.float32)
    whole = np.repeat(np.repeat(scales, 128, 0), 128, 1)[:200, :300] if blocked else scales
    wanted = pattern_values("fp8_e4m3")[codes] * whole
    source = source_of(**{"w__weight": ("fp8_e4m3", codes), f"w__weight{ending}": ("fp32", scales)})
    found = read_values(source, source.refs[0], index)
    np.testing.assert_array_equal(found.array, wanted[eval(f"np.s_{index}")])
    assert found.note == f"FP8 times w.weight{ending}"


def test_schemes_in_doubt_are_shown_as_they_are() -> None:
    codes = np.zeros((8, 8), np.uint8)
    alone = source_of(w__weight=("fp8_e4m3", codes))
    odd = source_of(w__weight=("fp8_e4m3", codes), w__weight_scale=("fp32", np.ones(3, np.float32)))
    blocks = source_of(w_blocks=("u8", np.zeros((2, 3, 15), np.uint8)), w_scales=("u8", np.zeros((2, 3), np.uint8)))
    for source in (alone, odd, blocks):
        assert shape_of(source, source.refs[0]) == source.refs[0].shape
        assert read_values(source, source.refs[0], "[0]").note == ""


def test_blocks_of_gguf_are_decoded_and_have_no_figures() -> None:
    rng = np.random.default_rng(3)
    raw = np.zeros((4, 3 * 34), np.uint8)
    scales, codes = rng.uniform(0, 1, (4, 3)).astype(np.float16), rng.integers(-128, 128, (4, 3, 32)).astype(np.int8)
    for r in range(4):
        for b in range(3):
            raw[r, b * 34 : b * 34 + 2] = scales[r, b : b + 1].view(np.uint8)
            raw[r, b * 34 + 2 : b * 34 + 34] = codes[r, b].view(np.uint8)
    wanted = (codes * scales.astype(np.float32)[..., None]).reshape(4, 96)
    source = source_of(w=("u8", raw)).replace(blocks={"w": Blocks("Q8_0", 32, 34)})
    found = read_values(source, source.refs[0], "[1:, 30:70]")
    np.testing.assert_array_equal(found.array, wanted[1:, 30:70])
    assert found.note == "decoded from Q8_0"
    assert "blocks of Q8_0" in (tensor_stats(source, source.refs[0]).reason or "")
