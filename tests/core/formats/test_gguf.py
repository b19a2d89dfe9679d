"""GGUF files: plain tensors read, quantised ones named, damaged headers refused."""

from __future__ import annotations

import random
import struct

import numpy as np
import pytest

from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.formats import open_checkpoint
from ckpt_gui.core.source import Blocks
from tests import builders as b

W = np.arange(64, dtype=np.float32).reshape(2, 32)


def text(value):
    raw = value.encode()
    return struct.pack("<Q", len(raw)) + raw


def value(key, kind, data):
    return text(key) + struct.pack("<I", kind) + data


VALUES = [
    value("general.architecture", 8, text("llama")),
    value("llama.block_count", 4, struct.pack("<I", 2)),
    value("llama.rope.freq_base", 6, struct.pack("<f", 10000.0)),
    value("tokenizer.ggml.tokens", 9, struct.pack("<IQ", 8, 3) + text("a") + text("b") + text("\x1b[1m")),
    value("tokenizer.ggml.scores", 9, struct.pack("<IQ", 6, 3) + bytes(12)),
    value("general.flag", 7, b"\x01"),
]


def gguf(tensors, values=VALUES, *, version=3, align=32, count=None):
    """`tensors`: (name, shape outermost first, type number, bytes)."""
    head = b"GGUF" + struct.pack("<IQQ", version, len(tensors) if count is None else count, len(values))
    head += b"".join(values)
    data = b""
    for name, shape, kind, raw in tensors:
        data += bytes(-len(data) % align)
        sizes = struct.pack(f"<I{len(shape)}Q", len(shape), *reversed(shape))
        head += text(name) + sizes + struct.pack("<IQ", kind, len(data))
        data += raw
    return head + bytes(-len(head) % align) + data


PLAIN = [
    ("token_embd.weight", (2, 32), 0, W.tobytes()),
    ("blk.0.attn_norm.weight", (5,), 0, W.tobytes()[:20]),
    ("output.weight", (2, 32), 1, W.astype(np.float16).tobytes()),
    ("b.weight", (3,), 30, bytes(6)),
]


@pytest.mark.parametrize("version", [2, 3])
def test_plain_tensors(tmp_path, version):
    with open_checkpoint(b.write(tmp_path / "x.gguf", gguf(PLAIN, version=version))) as source:
        assert (source.container, source.problems) == ("gguf", ())
        assert [(r.key, r.shape) for r in source.refs] == [(name, shape) for name, shape, _, _ in PLAIN]
        assert [source.read(r) for r in source.refs] == [raw for *_, raw in PLAIN]
        assert {e.path[0]: e.text for e in source.extras} == {
            "general.architecture": "llama",
            "llama.block_count": "2",
            "llama.rope.freq_base": "10000.0",
            "tokenizer.ggml.tokens": "3 values",
            "tokenizer.ggml.scores": "3 values",
            "general.flag": "True",
        }


def test_alignment(tmp_path):
    values = [value("general.alignment", 4, struct.pack("<I", 128))]
    with open_checkpoint(b.write(tmp_path / "x.gguf", gguf(PLAIN, values, align=128))) as source:
        assert [source.read(r) for r in source.refs] == [raw for *_, raw in PLAIN]


def test_quantised_tensors_are_named(tmp_path):
    tensors = [*PLAIN, ("q", (3, 64), 8, bytes(3 * 68)), ("k", (256,), 12, bytes(144)), ("i", (256,), 16, bytes(66))]
    with open_checkpoint(b.write(tmp_path / "x.gguf", gguf(tensors))) as source:
        assert [(r.dtype, r.shape) for r in source.refs[-3:]] == [("u8", (3, 68)), ("u8", (144,)), ("u8", (66,))]
        assert source.blocks == {"q": Blocks("Q8_0", 32, 34), "k": Blocks("Q4_K", 256, 144)}
        known, other = source.problems
        assert (known.code, known.blocking, known.keys) == ("quantised", False, ("q", "k"))
        assert "(1 Q4_K, 1 Q8_0)" in known.message
        assert (other.code, other.blocking, other.keys) == ("quantised", True, ("i",))
        assert "(1 IQ2_XXS)" in other.message


GOOD = gguf(PLAIN)
BAD = {
    "cut in the header": (GOOD[:100], "truncated"),
    "cut in the data": (GOOD[:-1], "truncated"),
    "version 1": (gguf(PLAIN, version=1), "not-a-checkpoint"),
    "big endian": (b"GGUF\0\0\0\3" + bytes(60), "not-a-checkpoint"),
    "2^60 tensors": (gguf(PLAIN, count=1 << 60), "limit-exceeded"),
    "text of 2^40 bytes": (gguf([], [struct.pack("<Q", 1 << 40)]), "limit-exceeded"),
    "array of arrays": (gguf([], [value("x", 9, struct.pack("<IQ", 9, 3))]), "limit-exceeded"),
    "array past the end": (gguf([], [value("x", 9, struct.pack("<IQ", 12, 1 << 20))]), "truncated"),
    "unknown value": (gguf([], [value("x", 77, b"")]), "damaged"),
    "unknown type": (gguf([("a", (2,), 99, bytes(8))]), "damaged"),
    "odd block": (gguf([("a", (33,), 8, bytes(34))]), "damaged"),
    "same name": (gguf([PLAIN[0], PLAIN[0]]), "damaged"),
    "overflow": (gguf([("a", (1 << 40, 1 << 40), 0, b"")]), "damaged"),
    "9 dimensions": (gguf([("a", (1,) * 9, 0, bytes(4))]), "damaged"),
    "alignment 0": (gguf(PLAIN, [value("general.alignment", 4, bytes(4))]), "damaged"),
    "alignment of text": (gguf(PLAIN, [value("general.alignment", 8, text("x"))]), "damaged"),
    "overlap": (gguf([("a", (8,), 0, b""), ("b", (8,), 0, bytes(32))]), "damaged"),
}


@pytest.mark.parametrize(("data", "code"), BAD.values(), ids=BAD)
def test_refused(tmp_path, data, code):
    with pytest.raises(CheckpointError) as caught:
        open_checkpoint(b.write(tmp_path / "x.gguf", data))
    assert caught.value.code == code


def test_mutations(tmp_path):
    rng = random.Random(4)
    opened = 0
    for _ in range(300):
        data = bytearray(GOOD)
        data[rng.randrange(len(data) // 2)] = rng.randrange(256)
        try:
            with open_checkpoint(b.write(tmp_path / "x.gguf", bytes(data))) as source:
                opened += sum(len(source.read(r)) for r in source.refs) >= 0
        except CheckpointError:
            pass
    assert 0 < opened < 300
