"""Any bytes either open or raise `CheckpointError`: nothing else comes out of a parser."""

from __future__ import annotations

import contextlib
import random
import struct
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.formats import open_checkpoint
from ckpt_gui.core.formats.pickle_vm import load_pickle
from tests import builders as b

W = np.arange(8, dtype=np.float32)
GOOD = {
    "safetensors": b.safetensors_bytes({"a": W, "b": W[:3], "c.d": W[:0]}, {"format": "pt"}),
    "torch": b.state_dict_bytes({"a": W, "b": W[:3]}, "model"),
    "foreign": b.torch_bytes(
        b.dict_of({"w": b.tensor("0", [8]), "x": b.obj(b.name("m", "C"), b.dict_of({}))}), {"0": W}
    ),
}


def opens_or_raises(data, suffix=".bin"):
    with tempfile.TemporaryDirectory() as folder:
        path = b.write(Path(folder) / f"x{suffix}", data)
        try:
            with open_checkpoint(path) as source:
                for ref in source.refs:
                    if ref.nbytes < 1 << 20:
                        source.read(ref)
        except CheckpointError:
            return False
    return True


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=300))
def test_header_of_any_bytes(data):
    opens_or_raises(struct.pack("<Q", len(data)) + data, ".safetensors")


SCALARS = st.none() | st.booleans() | st.integers() | st.text() | st.floats()
JSON = st.recursive(SCALARS, lambda s: st.lists(s) | st.dictionaries(st.text(), s), max_leaves=8)


@settings(max_examples=150, deadline=None)
@given(JSON)
def test_header_of_any_json(value):
    opens_or_raises(b.raw_safetensors(value), ".safetensors")
    opens_or_raises(b.raw_safetensors({"a": value}), ".safetensors")


OPCODES = st.sampled_from(
    [bytes([op]) for op in b"(0.12FGIJKLMNRSTUVX]abcde}ghijlopqrstuBC)" + bytes(range(0x80, 0x99))]
)
NAMES = ("collections.OrderedDict", "torch.FloatStorage", "torch._utils._rebuild_tensor_v2", "builtins.set", "a.B")
NAMES += ("builtins.bytearray", "torch.Size", "os.system")
GLOBALS = st.sampled_from([b.name(*name.rsplit(".", 1)) for name in NAMES])
VALUES = st.integers(-5, 300).map(b.number) | st.text(max_size=3).map(b.text)
PIECES = OPCODES | GLOBALS | VALUES | st.binary(max_size=6)


@settings(max_examples=600, deadline=None)
@given(st.lists(PIECES, max_size=40))
def test_pickle_of_any_opcodes(pieces):
    with contextlib.suppress(CheckpointError):
        load_pickle(b"\x80\x02" + b"".join(pieces) + b".")


@settings(max_examples=100, deadline=None)
@given(st.lists(PIECES, max_size=40))
def test_torch_file_of_any_opcodes(pieces):
    opens_or_raises(b.torch_bytes(b"".join(pieces), {"0": W}))


@pytest.mark.parametrize("kind", GOOD)
def test_mutations(kind):
    rng = random.Random(kind)
    good = GOOD[kind]
    opened = 0
    for _ in range(400):
        data = bytearray(good)
        for _ in range(rng.choice((1, 1, 2, 8))):
            choice = rng.random()
            at = rng.randrange(len(data) or 1)
            if choice < 0.6 and data:
                data[at] = rng.randrange(256)
            elif choice < 0.8:
                del data[at : at + rng.randrange(1, 40)]
            else:
                data[at:at] = data[rng.randrange(len(data) or 1) :][: rng.randrange(40)]
        opened += opens_or_raises(bytes(data))
    assert 0 < opened < 400
