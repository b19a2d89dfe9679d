"""Cases of size, structure and fault that no other file here tests: nothing is reserved, nothing hangs, all is said."""

from __future__ import annotations

import errno
import json
import os
import struct
import zipfile

import numpy as np
import pytest

from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.formats import open_checkpoint
from ckpt_gui.core.formats.layout import StoredTensor
from ckpt_gui.core.formats.torch_layout import layout
from ckpt_gui.core.tensors import TensorSpec
from tests import builders as b
from tests.memory import growth

W = np.arange(6, dtype=np.float32)


@pytest.fixture
def frugal():
    """The test may take 300 MB; its time is bounded by the suite's guard against hangs only, for machines differ."""
    with growth() as grown:
        yield
    assert grown.megabytes < 300


def code_of(path):
    with pytest.raises(CheckpointError) as caught:
        open_checkpoint(path)
    return caught.value.code


# ---- sizes


@pytest.mark.case(4)
def test_a_header_of_exactly_the_limit_opens(tmp_path):
    text = json.dumps({"a": b.entry("F32", [6], 0, 24)}).encode()
    data = struct.pack("<Q", 100_000_000) + text + b" " * (100_000_000 - len(text)) + W.tobytes()
    with open_checkpoint(b.write(tmp_path / "x.safetensors", data)) as source:
        assert source.read(source.refs[0]) == W.tobytes()


@pytest.mark.case(60)
def test_two_to_the_forty_elements_of_six(tmp_path, frugal):
    body = b.dict_of({"w": b.tensor("0", [1 << 40, 6], numel=6, strides=[0, 1])})
    with open_checkpoint(b.write(tmp_path / "x.pt", b.torch_bytes(body, {"0": W}))) as source:
        [found] = source.problems
        assert (found.code, found.blocking) == ("limit-exceeded", True)
        assert "an expanded view of 6 stored elements" in found.message
        assert source.read(source.refs[0], (1 << 40) * 24 - 24) == W.tobytes()


@pytest.mark.case(73)
def test_five_gigabytes_in_one_record(tmp_path, frugal):
    numel = 5 << 28
    made = layout({"w": StoredTensor(TensorSpec("w", "fp32", (numel,)), "0")})
    with open(tmp_path / "x.pt", "wb") as file:
        file.truncate(made.nbytes)
        for offset, data in [*made.patches({"0": 0}), (made.offsets["0"] + 4 * numel - 24, W.tobytes())]:
            file.seek(offset)
            file.write(data)
    with open_checkpoint(tmp_path / "x.pt") as source:
        assert source.refs[0].numel == numel
        assert source.read(source.refs[0], 4 * numel - 24) == W.tobytes()


# ---- structure


@pytest.mark.case(72)
def test_central_entries_that_overlap(tmp_path):
    """Two entries that lie over each other: a bomb without nesting."""
    data = b.torch_bytes(b.dict_of({"w": b.tensor("0", [6]), "v": b.tensor("1", [6])}), {"0": W, "1": W})
    with zipfile.ZipFile(b.write(tmp_path / "x.pt", data)) as archive:
        first, second = (archive.getinfo(f"archive/data/{i}").header_offset for i in "01")
    at = data.rindex(b"archive/data/1") - 46 + 42
    changed = data[:at] + struct.pack("<L", first) + data[at + 4 :]
    assert struct.unpack_from("<L", data, at)[0] == second
    assert code_of(b.write(tmp_path / "x.pt", changed)) == "ambiguous-archive"


@pytest.mark.case(64, 68)
@pytest.mark.parametrize(("offset", "value"), [(6, 64), (8, 1), (8, 0x20), (8, 0x40), (10, 12), (34, 2)])
def test_records_that_other_readers_refuse(tmp_path, offset, value):
    """A newer version, encryption, a patch, another method, another disk."""
    data = bytearray(b.torch_bytes(b.dict_of({"w": b.tensor("0", [6])}), {"0": W}))
    data[data.rindex(b"archive/data/0") - 46 + offset] |= value
    assert code_of(b.write(tmp_path / "x.pt", bytes(data))) == "damaged"


def test_a_record_marked_as_a_folder(tmp_path):
    """Torch takes it for a folder and returns whatever lies in memory."""
    data = bytearray(b.torch_bytes(b.dict_of({"w": b.tensor("0", [6])}), {"0": W}))
    data[data.rindex(b"archive/data/0") - 46 + 38] = 0x10
    assert code_of(b.write(tmp_path / "x.pt", bytes(data))) == "ambiguous-archive"


def test_folder_entries_of_an_archive_packed_by_hand(tmp_path):
    with zipfile.ZipFile(tmp_path / "x.pt", "w") as archive:
        archive.mkdir("archive")
        archive.mkdir("archive/data")
        archive.writestr("archive/data.pkl", b.pickled(b.dict_of({"w": b.tensor("0", [6])})))
        archive.writestr("archive/data/0", W.tobytes())
        archive.writestr("archive/version", b"3\n")
    with open_checkpoint(tmp_path / "x.pt") as source:
        assert source.problems == ()
        assert source.read(source.refs[0]) == W.tobytes()


@pytest.mark.case(69)
def test_no_version_and_no_byte_order(tmp_path):
    with zipfile.ZipFile(tmp_path / "x.pt", "w") as archive:
        archive.writestr("a/data.pkl", b.pickled(b.dict_of({"w": b.tensor("0", [6])})))
        archive.writestr("a/data/0", W.tobytes())
    with open_checkpoint(tmp_path / "x.pt") as source:
        assert [(p.code, p.severity) for p in source.problems] == [("metadata-format", "warning")]
        assert source.read(source.refs[0]) == W.tobytes()


@pytest.mark.case(67)
def test_an_archive_in_an_archive(tmp_path):
    inner = b.torch_bytes(b.dict_of({"evil": b.tensor("0", [6])}), {"0": W})
    data = b.torch_bytes(b.dict_of({"w": b.tensor("0", [6])}), {"0": W}, more=[("archive/extra.zip", inner)])
    with open_checkpoint(b.write(tmp_path / "x.pt", data)) as source:
        assert [r.key for r in source.refs] == ["w"]


@pytest.mark.case(61, 78)
def test_quantised_torch_tensors_are_named(tmp_path):
    scale = b.tuple_of(b.name("torch", "per_tensor_affine"), b"G" + struct.pack(">d", 0.5), b.number(0))
    numbers = (b.number(0), b.tuple_of(b.number(600)), b.tuple_of(b.number(1)), scale, b"\x89", b"}")
    made = b.call(b.name("torch._utils", "_rebuild_qtensor"), b.storage("QInt8Storage", "0", 6), *numbers)
    data = b.torch_bytes(b.dict_of({"q": made, "w": b.tensor("1", [6])}), {"0": W[:1], "1": W})
    try:
        with open_checkpoint(b.write(tmp_path / "x.pt", data)) as source:
            assert [r.key for r in source.refs] == ["w"]
            assert source.problems[0].code == "foreign-object"
    except CheckpointError as error:
        assert "unknown type" in error.message  # noqa: PT017 - either names it


@pytest.mark.case(74)
def test_the_same_path_written_in_two_ways(tmp_path):
    body = b.dict_of({"a.b": b.tensor("0", [6]), "a": b.dict_of({"b": b.tensor("1", [6])})})
    with open_checkpoint(b.write(tmp_path / "x.pt", b.torch_bytes(body, {"0": W, "1": W + 1}))) as source:
        assert {r.path: source.read(r) for r in source.refs} == {
            ("a.b",): W.tobytes(),
            ("a", "b"): (W + 1).tobytes(),
        }


# ---- folders

SHARDS = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")


def sharded(folder, weight_map):
    folder.mkdir(exist_ok=True)
    b.write(folder / SHARDS[0], b.safetensors_bytes({"a": W}, {"format": "pt"}))
    b.write(folder / "model.safetensors.index.json", b.index_bytes(weight_map))
    return folder


@pytest.mark.case(46)
@pytest.mark.parametrize("kind", ["folder", "pipe", "device link", "loop", "the index itself"])
def test_a_shard_that_is_no_file(tmp_path, kind, frugal):
    folder = sharded(tmp_path / "m", {"a": SHARDS[0], "b": SHARDS[1]})
    odd = folder / SHARDS[1]
    if kind == "folder":
        odd.mkdir()
    elif kind == "pipe":
        os.mkfifo(odd)
    elif kind == "device link":
        odd.symlink_to("/dev/zero")
    elif kind == "loop":
        odd.symlink_to(odd)
    else:
        sharded(folder, {"a": SHARDS[0], "b": "model.safetensors.index.json"})
    try:
        with open_checkpoint(folder) as source:
            assert [r.key for r in source.refs] == ["a"]
            assert any(p.blocking for p in source.problems)
    except CheckpointError as error:
        assert error.code in ("index-unsafe", "not-a-checkpoint")  # noqa: PT017 - either is right


@pytest.mark.case(49)
def test_names_of_shards_that_differ_in_case(tmp_path):
    folder = sharded(tmp_path / "m", {"a": SHARDS[0], "b": SHARDS[0].upper()})
    b.write(folder / SHARDS[0].upper(), b.safetensors_bytes({"b": W}, {"format": "pt"}))
    with open_checkpoint(folder) as source:
        assert [(p.code, p.severity) for p in source.problems] == [("index-stale", "warning")]


@pytest.mark.case(48)
def test_an_index_of_three_hundred_thousand_keys(tmp_path, frugal):
    keys = {f"model.layers.{i}.weight": SHARDS[0] for i in range(300_000)}
    with open_checkpoint(sharded(tmp_path / "m", keys)) as source:
        assert next(p for p in source.problems if p.code == "index-stale").message.count("300,000 keys")


# ---- faults


@pytest.mark.case(90)
def test_an_error_of_the_disk_names_the_file(tmp_path, monkeypatch):
    path = b.write(tmp_path / "x.safetensors", b.safetensors_bytes({"a": W, "b": W}, {"format": "pt"}))
    with open_checkpoint(path) as source:
        real = os.preadv

        def failing(fd, buffers, offset):
            if offset >= path.stat().st_size - 24:
                raise OSError(errno.EIO, "Input/output error")
            return real(fd, buffers, offset)

        monkeypatch.setattr(os, "preadv", failing)
        assert source.read(source.refs[0]) == W.tobytes()  # others can still be read
        with pytest.raises(CheckpointError, match=r"x\.safetensors cannot be read: the disk reports"):
            source.read(source.refs[1])


@pytest.mark.case(89)
@pytest.mark.parametrize("name", ["a b.pt", "a\nb.pt", "\x1b[31m.pt", b"\xff\xfe.pt", "é" * 100 + ".pt", "%s{}.pt"])
def test_odd_names_of_files(tmp_path, name):
    path = os.path.join(os.fsencode(tmp_path), os.fsencode(name))
    shown = os.fsdecode(path)
    with open(path, "wb") as file:
        file.write(b.torch_bytes(b.dict_of({"w": b.tensor("0", [7], numel=7)}), {"0": W}))
    with open_checkpoint(shown) as source:
        assert source.problems[0].message.isprintable()
    with open(path, "wb") as file:
        file.write(b"PK\x03\x04")
    with pytest.raises(CheckpointError) as caught:
        open_checkpoint(shown)
    assert caught.value.message.isprintable()


@pytest.mark.case(89)
def test_a_link_to_nothing(tmp_path):
    (tmp_path / "x.pt").symlink_to(tmp_path / "gone")
    assert code_of(tmp_path / "x.pt") == "not-a-checkpoint"


@pytest.mark.case(88)
def test_a_file_replaced_while_open_is_noticed_before_an_export(tmp_path):
    for name, data in {
        "x.safetensors": b.safetensors_bytes({"a": W}, {"format": "pt"}),
        "x.pt": b.torch_bytes(b.dict_of({"a": b.tensor("0", [6])}), {"0": W}),
    }.items():
        path = b.write(tmp_path / name, data)
        with open_checkpoint(path) as source:
            source.readers[name].check_unchanged()
            os.replace(b.write(tmp_path / "new", data), path)
            assert source.read(source.refs[0]) == W.tobytes()  # the old file, still held
            with pytest.raises(CheckpointError, match="changed since it was opened"):
                source.readers[name].check_unchanged()
