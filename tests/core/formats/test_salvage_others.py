"""What is whole of cut NumPy archives, tar files of 2016 and GGUF files; repairs of padded safetensors headers."""

from __future__ import annotations

import io
import json
import struct
import zipfile

import numpy as np
import pytest

from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.formats import open_checkpoint
from ckpt_gui.core.formats.file_errors import SALVAGE_FIX
from ckpt_gui.core.formats.verify import verify_checksums
from tests import builders as b
from tests.core.formats.test_gguf import PLAIN, gguf
from tests.core.formats.test_torch_legacy import TAR_BODY, W, tar_bytes, tar_members

ARRAYS = {f"layers/{i}.weight": np.arange(i * 7, i * 7 + 50, dtype=np.float32) for i in range(6)}
FORMAT = {"__metadata__": {"format": "pt"}}


def npz(save):
    out = io.BytesIO()
    save(out, **ARRAYS)
    return out.getvalue()


def cuts(tmp_path, good, name, step):
    """Open every cut of a file; yield the source where something is whole."""
    for cut in range(8, len(good), step):
        path = b.write(tmp_path / name, good[:cut])
        with pytest.raises(CheckpointError):
            open_checkpoint(path)
        try:
            source = open_checkpoint(path, salvage=True)
        except CheckpointError as error:
            assert error.code in ("truncated", "damaged", "not-a-checkpoint")  # noqa: PT017 - either is right
            continue
        with source:
            assert all(p.blocking for p in source.problems if p.code == "truncated")
            yield source


def lost(source):
    return {key for p in source.problems if p.code == "truncated" for key in p.keys}


@pytest.mark.case(71)
@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_arrays_of_numpy(tmp_path, save):
    most, counts = 0, set()
    for source in cuts(tmp_path, npz(save), "x.npz", 17):
        assert all(source.read(r) == ARRAYS[r.key].tobytes() for r in source.refs)
        assert most <= len(source.refs)
        most = len(source.refs)
        counts.add(most)
        assert any(p.code == "truncated" for p in source.problems)
        assert len(lost(source)) <= 1  # the names of the others stood in the directory
    assert counts >= {1, 2, 3, 4, 5, 6}


@pytest.mark.case(71)
def test_a_tar_of_2016_keeps_what_its_storages_hold(tmp_path):
    members = tar_members(b.pickled(TAR_BODY))
    good = tar_bytes(members)
    good = good[: good.rindex(members["storages"]) + len(members["storages"])]  # without what fills up the blocks
    whole = {"w": W.tobytes(), "t": W.reshape(2, 3).T.tobytes(), "part": W[3:5].tobytes()}
    seen = set()
    for source in cuts(tmp_path, good, "x.tar", 5):
        seen.add(frozenset(r.key for r in source.refs))
        assert all(source.read(r) == whole[r.key] for r in source.refs)
        assert lost(source) | {r.key for r in source.refs} == set(whole)
    assert frozenset() in seen
    assert frozenset({"w", "t"}) in seen


@pytest.mark.case(71)
def test_a_gguf_file(tmp_path):
    most = 0
    for source in cuts(tmp_path, gguf(PLAIN), "x.gguf", 5):
        assert all(source.read(r) == data for r in source.refs for name, _, _, data in PLAIN if name == r.key)
        assert lost(source) | {r.key for r in source.refs} == {name for name, *_ in PLAIN}
        most = max(most, len(source.refs))
    assert most == len(PLAIN) - 1


@pytest.mark.case(19)
def test_bytes_after_a_gguf_file(tmp_path):
    with open_checkpoint(b.write(tmp_path / "x.gguf", gguf(PLAIN) + b"x" * 5000)) as source:
        assert [p.code for p in source.problems] == ["trailing-bytes"]
    with open_checkpoint(b.write(tmp_path / "y.gguf", gguf(PLAIN) + bytes(26))) as source:
        assert source.problems == ()


# ---- headers of safetensors

ONE = b.entry("F32", [6], 0, 24)


@pytest.mark.case(8)
@pytest.mark.parametrize("head", [b"\xef\xbb\xbf", b""], ids=["mark", "none"])
@pytest.mark.parametrize("tail", [b"\0\0\0", b""], ids=["nul", "bare"])
def test_padding_is_refused_and_read_around_when_asked(tmp_path, head, tail):
    data = b.raw_safetensors(head + json.dumps({**FORMAT, "a": ONE}).encode() + tail, W.tobytes())
    path = b.write(tmp_path / "x.safetensors", data)
    if head or tail:
        with pytest.raises(CheckpointError) as caught:
            open_checkpoint(path)
        assert (caught.value.code, caught.value.fix) == ("damaged", SALVAGE_FIX)
    with open_checkpoint(path, salvage=True) as source:
        assert source.read(source.refs[0]) == W.tobytes()
        assert [p.code for p in source.problems] == (["metadata-format"] if head or tail else [])


@pytest.mark.case(7)
def test_spaces_before_a_header_are_noted(tmp_path):
    data = b.raw_safetensors("  " + json.dumps({**FORMAT, "a": ONE}), W.tobytes())
    with open_checkpoint(b.write(tmp_path / "x.safetensors", data)) as source:
        assert [(p.code, p.severity) for p in source.problems] == [("metadata-format", "info")]


@pytest.mark.case(17, 20)
def test_what_can_be_saved_is_offered(tmp_path):
    hole = b.raw_safetensors({"a": ONE, "b": b.entry("F32", [1], 28, 32)}, bytes(32))
    cut = b.safetensors_bytes({"a": W, "b": W})[:-3]
    for data in (hole, cut):
        with pytest.raises(CheckpointError) as caught:
            open_checkpoint(b.write(tmp_path / "x.safetensors", data))
        assert caught.value.fix == SALVAGE_FIX
    with pytest.raises(CheckpointError) as caught:
        open_checkpoint(b.write(tmp_path / "x.safetensors", b.safetensors_bytes({"a": W})[:-3]))
    assert caught.value.fix != SALVAGE_FIX


# ---- what only `--deep` can see


@pytest.mark.case(34)
def test_truth_values_that_are_neither(tmp_path):
    header = {**FORMAT, "good": b.entry("BOOL", [3], 0, 3), "odd": b.entry("BOOL", [4], 3, 7)}
    path = b.write(tmp_path / "x.safetensors", b.raw_safetensors(header, b"\0\1\0" + b"\0\1\7\xff"))
    with open_checkpoint(path) as source:
        assert source.problems == ()
        assert [(f.code, f.keys) for f in verify_checksums(source) if f.severity == "warning"] == [
            ("odd-bool", ("odd",))
        ]
    wide = b.torch_bytes(b.tensor("0", [1 << 40], kind="BoolStorage", numel=4, strides=[0]), {"0": b"\0\1\7\xff"})
    with open_checkpoint(b.write(tmp_path / "x.pt", wide)) as source:
        assert "odd-bool" not in [f.code for f in verify_checksums(source)]  # and it ends


@pytest.mark.case(67)
def test_an_archive_in_an_archive_is_noted(tmp_path):
    inner = b.torch_bytes(b.dict_of({"evil": b.tensor("0", [6])}), {"0": W})
    body = b.dict_of({"w": b.tensor("0", [6])})
    data = b.torch_bytes(body, {"0": W}, more=[("archive/extra.zip", inner)])
    with open_checkpoint(b.write(tmp_path / "x.pt", data)) as source:
        [found] = verify_checksums(source)
        assert (found.code, "archive/extra.zip" in found.message) == ("foreign-object", True)


@pytest.mark.case(67)
@pytest.mark.parametrize("place", ["between", "before the directory"])
def test_bytes_between_records_are_noted(tmp_path, place):
    data = b.torch_bytes(b.dict_of({"w": b.tensor("0", [6])}), {"0": W})
    at = data.index(b"PK\x03\x04", 10) if place == "between" else data.index(b"PK\x01\x02")
    hidden = b"h" * 100
    end = data.rindex(b"PK\x05\x06")
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        offsets = [(info.filename, info.header_offset) for info in archive.infolist()]
    made = bytearray(data[:at] + hidden + data[at:])
    for name, offset in offsets:
        if offset >= at:
            entry = made.index(name.encode(), made.index(b"PK\x01\x02")) - 46
            made[entry + 42 : entry + 46] = struct.pack("<L", offset + len(hidden))
    (start,) = struct.unpack_from("<L", data, end + 16)
    made[end + len(hidden) + 16 : end + len(hidden) + 20] = struct.pack("<L", start + len(hidden))
    for raw, codes in ((data, []), (bytes(made), ["trailing-bytes"])):
        with open_checkpoint(b.write(tmp_path / "x.pt", raw)) as source:
            assert source.read(source.refs[0]) == W.tobytes()
            found = verify_checksums(source)
            assert [f.code for f in found] == codes
            assert all("100 bytes" in f.message for f in found)
