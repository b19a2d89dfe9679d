"""Any bytes either open or raise `CheckpointError`: nothing else comes out of a parser."""

from __future__ import annotations

import contextlib
import io
import json
import random
import struct
import tarfile
import tempfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.formats import open_checkpoint
from ckpt_gui.core.formats.pickle_load import load_pickle
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
        return [reads_or_raises(path, salvage=salvage) for salvage in (True, False)][-1]


def reads_or_raises(path, **options):
    try:
        with open_checkpoint(path, **options) as source:
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


# ---- every other parser, behind its magic

MAGIC = b.pickled(b"\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19") + b.pickled(b.number(1001)) + b.pickled(b"}")


@settings(max_examples=100, deadline=None)
@given(st.lists(PIECES, max_size=30), st.lists(st.sampled_from(["0", "1", "x"]), max_size=3), st.binary(max_size=60))
def test_legacy_stream_of_any_opcodes(pieces, keys, data):
    listed = b.pickled(b.list_of(*map(b.text, keys)))
    opens_or_raises(MAGIC + b"\x80\x02" + b"".join(pieces) + b"." + listed + data)
    opens_or_raises(MAGIC + b.pickled(b.tensor("0", [2])) + listed + struct.pack("<q", 2) + data)


@settings(max_examples=100, deadline=None)
@given(*[st.binary(max_size=200) | st.lists(PIECES, max_size=20).map(b"".join)] * 3)
def test_tar_of_any_members(storages, tensors, pickled):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:") as tar:
        for name, data in {"storages": storages, "tensors": tensors, "pickle": pickled}.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    opens_or_raises(out.getvalue(), ".tar")


NUMBERS = st.integers(0, 40) | st.sampled_from([1 << 31, 1 << 32, 1 << 62, (1 << 64) - 1])
CHUNKS = (
    NUMBERS.map(lambda n: struct.pack("<Q", n))
    | st.integers(0, 40).map(lambda n: struct.pack("<I", n))
    | st.text(max_size=4).map(lambda t: struct.pack("<Q", len(t.encode())) + t.encode())
    | st.binary(max_size=9)
)


@settings(max_examples=200, deadline=None)
@given(NUMBERS, NUMBERS, st.lists(CHUNKS, max_size=20))
def test_gguf_of_any_numbers(tensors, values, chunks):
    opens_or_raises(b"GGUF" + struct.pack("<IQQ", 3, tensors, values) + b"".join(chunks), ".gguf")


NAMES_OF_TYPES = st.sampled_from(["<f4", ">i2", "|b1", "|O", "<V2", "x", ""])
HEADERS = st.fixed_dictionaries(
    {},
    optional={
        "descr": NAMES_OF_TYPES | st.integers() | st.lists(st.tuples(st.text(max_size=2), NAMES_OF_TYPES), max_size=2),
        "fortran_order": st.booleans() | st.none(),
        "shape": st.lists(st.integers(-2, 9) | st.just(1 << 62), max_size=4).map(tuple) | st.integers(),
    },
)


@settings(max_examples=100, deadline=None)
@given(HEADERS.map(lambda h: repr(h).encode()) | st.binary(max_size=40), st.binary(max_size=40))
def test_npz_of_any_header(header, data):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("w.npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + data)
    opens_or_raises(out.getvalue(), ".npz")


DCP = "torch.distributed.checkpoint.metadata"
CLASSES = ("Metadata", "TensorStorageMetadata", "ChunkStorageMetadata", "MetadataIndex", "TensorProperties")
FIELDS = ("state_dict_metadata", "storage_data", "size", "chunks", "offsets", "sizes", "fqn", "offset", "properties")
LEAVES = st.integers(-1, 9).map(b.number) | st.text(max_size=2).map(b.text) | st.just(b"N") | st.just(b"}")
OBJECTS = st.recursive(
    LEAVES,
    lambda s: (
        st.tuples(st.sampled_from(CLASSES), st.dictionaries(st.sampled_from(FIELDS), s, max_size=4)).map(
            lambda made: b.obj(b.name(DCP, made[0]), b.dict_of(made[1]))
        )
        | st.lists(s, max_size=3).map(lambda items: b.list_of(*items))
        | st.lists(st.tuples(s, s), max_size=2).map(b.dict_of)
    ),
    max_leaves=12,
)


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(st.sampled_from(FIELDS), OBJECTS, max_size=4))
def test_metadata_of_any_objects(fields):
    with tempfile.TemporaryDirectory() as folder:
        b.write(Path(folder) / ".metadata", b.pickled(b.obj(b.name(DCP, "Metadata"), b.dict_of(fields))))
        with contextlib.suppress(CheckpointError), open_checkpoint(folder) as source:
            assert source.container == "dcp"


SHARD = b.safetensors_bytes({"a": W}, {"format": "pt"})


def folder_or_raises(found):
    with tempfile.TemporaryDirectory() as folder:
        for name, data in found.items():
            b.write(Path(folder) / name, data)
        reads_or_raises(folder)


def as_json(value):
    return json.dumps(value).encode("utf-8", "surrogatepass")


INDEX = st.fixed_dictionaries(
    {},
    optional={
        "weight_map": st.dictionaries(
            st.sampled_from(["a", "b", ""]) | st.text(max_size=3),
            st.sampled_from(["x.safetensors", "y.safetensors", "../x", "x.safetensors.index.json"]) | JSON,
        )
        | JSON,
        "metadata": st.dictionaries(st.just("total_size"), JSON) | JSON,
    },
)


@settings(max_examples=100, deadline=None)
@given(INDEX.map(as_json) | st.binary(max_size=60))
def test_index_of_any_json(index):
    folder_or_raises({"x.safetensors": SHARD, "x.safetensors.index.json": index})


SIDE = st.dictionaries(st.sampled_from(["model_type", "dim", "quantization_config", "text_config"]), JSON)


@settings(max_examples=60, deadline=None)
@given(SIDE.map(as_json) | st.binary(max_size=60), SIDE.map(as_json), JSON.map(as_json))
def test_sidecars_of_any_json(config, params, report):
    sidecars = {"config.json": config, "params.json": params, "EXPORT_REPORT.json": report}
    folder_or_raises({"x.safetensors": SHARD, **sidecars})


GGUF_KEYS = st.sampled_from(["general.architecture", "general.alignment", "llama.block_count", "split.count", "x"])
GGUF_VALUES = st.sampled_from([4, 6, 8, 9, 11]) | st.integers(0, 20)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(GGUF_KEYS, GGUF_VALUES, CHUNKS), max_size=5), st.lists(CHUNKS, max_size=12))
def test_gguf_of_any_values(values, chunks):
    head = b"".join(struct.pack("<Q", len(k)) + k.encode() + struct.pack("<I", kind) + v for k, kind, v in values)
    opens_or_raises(b"GGUF" + struct.pack("<IQQ", 3, 1, len(values)) + head + b"".join(chunks), ".gguf")


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(range(46)), st.binary(min_size=1, max_size=4)), min_size=1, max_size=4))
def test_directories_of_any_numbers(changes):
    data = bytearray(GOOD["torch"])
    at = data.rindex(b"PK\x01\x02")
    for offset, new in changes:
        data[at + offset : at + offset + len(new)] = new
    opens_or_raises(bytes(data))


@settings(max_examples=100, deadline=None)
@given(st.lists(PIECES, max_size=30), st.lists(PIECES, max_size=10))
def test_programs_of_any_opcodes(pieces, constants):
    more = [("archive/constants.pkl", b"\x80\x02" + b"".join(constants) + b".")]
    opens_or_raises(b.torch_bytes(b"".join(pieces), {"0": W}, more=more))


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(["safetensors", "torch", "foreign"]), st.integers(0, 2000), st.binary(max_size=40))
def test_what_is_whole_of_any_cut(kind, cut, tail):
    opens_or_raises(GOOD[kind][: max(0, len(GOOD[kind]) - cut)] + tail)


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
