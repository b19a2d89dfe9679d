"""The safetensors container: what opens, what is refused and with which words, and what is written."""

from __future__ import annotations

import json
import os
import struct

import numpy as np
import pytest

from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.formats import open_checkpoint, safetensors
from ckpt_gui.core.tensors import TensorSpec
from tests.builders import entry, raw_safetensors, safetensors_bytes, write

F4 = b"\0" * 4
ONE = entry("F32", [1], 0, 4)


def header_of(**entries):
    return raw_safetensors(entries, F4)


def open_bytes(tmp_path, data, name="x.safetensors"):
    return open_checkpoint(write(tmp_path / name, data))


@pytest.mark.case(1)
def test_good_file(tmp_path):
    arrays = {"b": np.arange(6, dtype=np.float32).reshape(2, 3), "a": np.array(3, dtype=np.int64)}
    with open_bytes(tmp_path, safetensors_bytes(arrays, {"format": "pt"})) as source:
        assert [(r.key, r.dtype, r.shape) for r in source.refs] == [("b", "fp32", (2, 3)), ("a", "i64", ())]
        assert all(source.read(r) == arrays[r.key].tobytes() for r in source.refs)
        assert source.read(source.refs[0], 4, 9) == arrays["b"].tobytes()[4:9]
        assert source.container == "safetensors"
        assert source.metadata == {"format": "pt"}
        assert source.problems == ()
        assert source.files[0].identity[2] == os.path.getsize(source.path)


REFUSED = {
    "seven bytes": (b"\1\0\0\0\0\0\0", "truncated"),
    "header past the end": (raw_safetensors({"a": ONE}, F4, length=10_000), "truncated"),
    "header of 2^63 bytes": (raw_safetensors({"a": ONE}, F4, length=1 << 63), "damaged"),
    "header of 2^64-1 bytes": (raw_safetensors({"a": ONE}, F4, length=(1 << 64) - 1), "damaged"),
    "header one over the limit": (raw_safetensors({"a": ONE}, F4, length=100_000_001), "damaged"),
    "not UTF-8": (raw_safetensors(b'{"\xff":{}}'), "damaged"),
    "not JSON": (raw_safetensors(b"{nonsense}"), "damaged"),
    "an array": (raw_safetensors(b"[]      "), "damaged"),
    "null": (raw_safetensors(b"null    "), "damaged"),
    "text after the object": (raw_safetensors(b'{"a":1} x'), "damaged"),
    "byte order mark": (raw_safetensors(b"\xef\xbb\xbf{}"), "damaged"),
    "padded with NUL": (raw_safetensors(json.dumps({"a": ONE}).encode() + b"\0\0", F4), "damaged"),
    "NaN": (raw_safetensors(b'{"a":NaN}'), "damaged"),
    "deep": (raw_safetensors(b'{"a":' + b"[" * 200_000 + b"]" * 200_000 + b"}"), "damaged"),
    "raw control character": (raw_safetensors(b'{"a\nb":{}}'), "damaged"),
    "lone surrogate": (raw_safetensors(b'{"a\\ud800":' + json.dumps(ONE).encode() + b"}", F4), "damaged"),
    "lone surrogate in metadata": (raw_safetensors(b'{"__metadata__":{"a":"\\ud800"}}'), "damaged"),
    "number of 5000 digits": (raw_safetensors('{"a":' + "9" * 5000 + "}"), "damaged"),
    "metadata of numbers": (raw_safetensors({"__metadata__": {"a": 1}}), "damaged"),
    "nested metadata": (raw_safetensors({"__metadata__": {"a": {}}}), "damaged"),
    "metadata list": (raw_safetensors({"__metadata__": []}), "damaged"),
    "entry is a number": (header_of(a=1), "damaged"),
    "no type": (header_of(a={"shape": [1], "data_offsets": [0, 4]}), "damaged"),
    "unknown type": (header_of(a=entry("F99", [1], 0, 4)), "damaged"),
    "type in lower case": (header_of(a=entry("f32", [1], 0, 4)), "damaged"),
    "type is a list": (header_of(a=entry([], [1], 0, 4)), "damaged"),
    "negative size": (header_of(a=entry("F32", [-1], 0, 4)), "damaged"),
    "minus zero": (raw_safetensors('{"a":{"dtype":"F32","shape":[-0],"data_offsets":[0,0]}}'), "damaged"),
    "size is a float": (header_of(a=entry("F32", [1.0], 0, 4)), "damaged"),
    "size is a text": (header_of(a=entry("F32", ["1"], 0, 4)), "damaged"),
    "size is true": (header_of(a=entry("F32", [True], 0, 4)), "damaged"),
    "size is 1e0": (raw_safetensors('{"a":{"dtype":"F32","shape":[1e0],"data_offsets":[0,4]}}', F4), "damaged"),
    "size of 2^64": (header_of(a=entry("F32", [1 << 64], 0, 4)), "damaged"),
    "sizes that overflow": (header_of(a=entry("F32", [1 << 32, 1 << 32], 0, 4)), "damaged"),
    "sizes that wrap to four": (header_of(a=entry("F32", [(1 << 62) + 1, 4], 0, 4)), "damaged"),
    "zero after an overflow": (raw_safetensors({"a": entry("F32", [1 << 32, 1 << 32, 0], 0, 0)}), "damaged"),
    "overlap": (raw_safetensors({"a": entry("F32", [2], 0, 8), "b": entry("F32", [2], 4, 12)}, F4 * 3), "damaged"),
    "same bytes twice": (raw_safetensors({"a": ONE, "b": ONE}, F4), "damaged"),
    "hole": (raw_safetensors({"a": ONE, "b": entry("F32", [1], 8, 12)}, F4 * 3), "damaged"),
    "hole at the start": (raw_safetensors({"a": entry("F32", [1], 4, 8)}, F4 * 2), "damaged"),
    "backwards": (header_of(a=entry("F32", [1], 4, 0)), "damaged"),
    "past the end": (header_of(a=entry("F32", [2], 0, 8)), "truncated"),
    "size does not fit": (header_of(a=entry("F32", [2], 0, 4)), "damaged"),
    "three offsets": (header_of(a={"dtype": "F32", "shape": [1], "data_offsets": [0, 4, 4]}), "damaged"),
    "odd number of half bytes": (raw_safetensors({"a": entry("F4", [3], 0, 2)}, b"\0\0"), "damaged"),
}


@pytest.mark.case(2, 3, 4, 5, 6, 8, 12, 13, 14, 16, 17, 18, 21, 22, 26, 27, 28, 29, 33)
@pytest.mark.parametrize(("data", "code"), REFUSED.values(), ids=REFUSED)
def test_refused(tmp_path, data, code):
    with pytest.raises(CheckpointError) as caught:
        open_bytes(tmp_path, data)
    assert caught.value.code == code
    assert "x.safetensors" in caught.value.message


def twice(text):
    return raw_safetensors(text.replace("E", json.dumps(ONE)), F4)


@pytest.mark.case(9, 10)
@pytest.mark.parametrize(
    "data",
    [
        twice('{"a":E,"a":E}'),
        twice('{"a":5,"a":E}'),
        twice('{"a":{},"a":E}'),
        twice('{"a\\u003a":1,"a\\u003a":E}'),
        twice('{"__metadata__":{"a":"b"},"a":E,"__metadata__":{"a":"b"}}'),
        twice('{"__metadata__":{"a":"b","a":"c:"},"a":E}'),
        raw_safetensors('{"a":{"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]}}', F4),
    ],
)
def test_a_key_that_stands_twice_is_refused(tmp_path, data):
    with pytest.raises(CheckpointError, match="stands twice") as caught:
        open_bytes(tmp_path, data)
    assert caught.value.code == "damaged"
    assert caught.value.offset is None, "the parser does not say where"
    assert "has a damaged header: `" in caught.value.message


ACCEPTED = {
    "leading space": (raw_safetensors(b"  " + json.dumps({"a": ONE}).encode(), F4), ["a"]),
    "empty by a zero first": (raw_safetensors({"a": entry("F32", [0, 1 << 32, 1 << 32], 0, 0)}), ["a"]),
    "metadata is null": (raw_safetensors({"__metadata__": None, "a": ONE}, F4), ["a"]),
    "no tensors": (raw_safetensors({}), []),
    "only metadata": (raw_safetensors({"__metadata__": {"format": "pt"}}), []),
    "empty key": (raw_safetensors({"": ONE}, F4), [""]),
    "hostile key": (raw_safetensors({"\x1b[31m<b>\u202e": ONE}, F4), ["\x1b[31m<b>\u202e"]),
    "colons in keys": (raw_safetensors({"a:b": ONE}, F4), ["a:b"]),
    "key of a megabyte": (raw_safetensors({"k" * (1 << 20): ONE}, F4), ["k" * (1 << 20)]),
    "a thousand sizes": (raw_safetensors({"a": entry("F32", [1] * 1000, 0, 4)}, F4), ["a"]),
    "scalar": (raw_safetensors({"a": entry("F32", [], 0, 4)}, F4), ["a"]),
    "out of order": (raw_safetensors({"b": entry("U8", [1], 4, 5), "a": ONE}, F4 + b"\1"), ["b", "a"]),
    "not aligned": (
        raw_safetensors({"a": entry("U8", [1], 0, 1), "b": entry("F32", [1], 1, 5)}, b"\1\2\3\4\5"),
        ["a", "b"],
    ),
    "four bits": (raw_safetensors({"a": entry("F4", [4], 0, 2)}, b"\0\0"), ["a"]),
    "six bits": (raw_safetensors({"a": entry("F6_E2M3", [4], 0, 3)}, b"\0\0\0"), ["a"]),
    "zip inside": (raw_safetensors({"a": entry("U8", [4], 0, 4)}, b"PK\3\4"), ["a"]),
}


@pytest.mark.case(7, 15, 22, 23, 24, 31, 32, 33, 36)
@pytest.mark.parametrize(("data", "keys"), ACCEPTED.values(), ids=ACCEPTED)
def test_accepted(tmp_path, data, keys):
    with open_bytes(tmp_path, data) as source:
        assert [r.key for r in source.refs] == keys
        assert not [p for p in source.problems if p.severity == "error"]


@pytest.mark.case(11, 19)
@pytest.mark.parametrize(
    ("data", "code"),
    [
        (safetensors_bytes({"a": np.zeros(1, np.float32)}) + b"tail", "trailing-bytes"),
        (raw_safetensors({"a": {**ONE, "extra": 1}}, F4), "metadata-format"),
        (raw_safetensors({"__metadata__": {}, "a": ONE}, F4), "metadata-format"),
        (raw_safetensors({"__metadata__": {"format": "np"}, "a": ONE}, F4), "metadata-format"),
    ],
)
def test_opens_with_a_warning(tmp_path, data, code):
    with open_bytes(tmp_path, data) as source:
        assert [(p.code, p.severity) for p in source.problems] == [(code, "warning")]
        assert source.read(source.refs[0]) == F4


@pytest.mark.parametrize("length", [640, 896, 23_117, 35_615, 0x10708])
def test_a_header_length_that_looks_like_another_format(tmp_path, length):
    text = json.dumps({"a": ONE})
    with open_bytes(tmp_path, raw_safetensors(text + " " * (length - len(text)), F4)) as source:
        assert [r.key for r in source.refs] == ["a"]


@pytest.mark.case(20)
def test_truncated_says_what_is_whole(tmp_path):
    data = safetensors_bytes({k: np.zeros(4, np.float32) for k in "abc"})
    with pytest.raises(CheckpointError, match=r"20 missing.*1 of 3 tensors are whole.*`b`") as caught:
        open_bytes(tmp_path, data[:-20])
    assert caught.value.code == "truncated"


@pytest.mark.case(4)
def test_a_huge_header_is_refused_unread(tmp_path):
    path = tmp_path / "x.safetensors"
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", 100_000_001) + b"{")
        file.truncate(200_000_000)
    with pytest.raises(CheckpointError, match="100,000,000"):
        open_checkpoint(path)


@pytest.mark.case(39)
def test_six_gigabytes_open_without_being_read(tmp_path):
    path = tmp_path / "sparse.safetensors"
    size = 3 << 30
    header = raw_safetensors({"a": entry("U8", [size], 0, size), "b": entry("U8", [size], size, 2 * size)})
    with open(path, "wb") as file:
        file.write(header)
        file.seek(len(header) + 2 * size - 2)
        file.write(b"xy")
    with open_checkpoint(path) as source:
        assert source.read(source.refs[1], size - 3) == b"\0xy"


def test_layout_is_that_of_safetensors(tmp_path):
    specs = [TensorSpec("z", "fp32", (2,)), TensorSpec("a", "bf16", (3,)), TensorSpec("b", "fp32", (1,))]
    made = safetensors.layout(specs, {"format": "pt"})
    assert list(made.offsets) == ["b", "z", "a"]
    assert made.nbytes == made.offsets["a"] + 6
    assert made.offsets["b"] % 8 == 0
    out = bytearray(made.nbytes)
    for offset, data in made.patches({}):
        out[offset : offset + len(data)] = data
    with open_bytes(tmp_path, bytes(out)) as source:
        assert {r.key: source.readers[r.file].region(r)[0] for r in source.refs} == made.offsets


@pytest.mark.case(24, 102)
@pytest.mark.parametrize("key", ["", "__metadata__", "a\ud800"])
def test_layout_refuses_keys_that_the_format_cannot_hold(key):
    with pytest.raises(CheckpointError, match="cannot hold"):
        safetensors.layout([TensorSpec(key, "fp32", (1,))], {})


@pytest.mark.parametrize(
    "specs",
    [
        [TensorSpec("a", "c128", (1,))],
        [TensorSpec("a", "fp4", (3,))],
        [TensorSpec("a", "fp32", (1,)), TensorSpec("a", "fp32", (1,))],
    ],
)
def test_layout_refuses_tensors_that_the_format_cannot_hold(specs):
    with pytest.raises(CheckpointError, match="cannot hold"):
        safetensors.layout(specs, {})


@pytest.mark.case(104)
def test_layout_refuses_a_header_above_the_limit(monkeypatch):
    monkeypatch.setattr(safetensors, "MAX_HEADER", 100)
    with pytest.raises(CheckpointError) as caught:
        safetensors.layout([TensorSpec("a" * 100, "fp32", (1,))], {})
    assert caught.value.code == "limit-exceeded"


@pytest.mark.case(36, 86)
def test_same_verdict_and_bytes_as_the_reference(tmp_path):
    reference = pytest.importorskip("safetensors")
    reference_numpy = pytest.importorskip("safetensors.numpy")
    for label, (data, _) in {**REFUSED, **ACCEPTED}.items():
        try:
            theirs = {key: bytes(entry["data"]) for key, entry in reference.deserialize(data)}
        except reference.SafetensorError:
            theirs = None
        assert (theirs is not None) == (label in ACCEPTED), label
        if theirs is not None:
            with open_bytes(tmp_path, data) as source:
                assert {r.key: source.read(r) for r in source.refs} == theirs, label
    arrays = {"b": np.arange(6, dtype=np.float32).reshape(2, 3), "a": np.ones(3, np.float16), 'é\n"': np.ones(2, bool)}
    raw = reference_numpy.save(arrays, {"format": "pt"})
    with open_bytes(tmp_path, raw) as source:
        assert {r.key: source.read(r) for r in source.refs} == {k: a.tobytes() for k, a in arrays.items()}
        made = safetensors.layout([TensorSpec(r.key, r.dtype, r.shape) for r in source.refs], {"format": "pt"})
    assert b"".join(data for _, data in made.patches({})) == raw[: 8 + struct.unpack("<Q", raw[:8])[0]]
