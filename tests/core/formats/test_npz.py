"""NumPy archives: equal to what numpy loads."""

from __future__ import annotations

import io
import zipfile

import numpy as np
import pytest

from ckpt_gui import normalise, write
from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.formats import open_checkpoint
from tests import builders as b

W = np.arange(24, dtype=np.float32).reshape(4, 6)
ARRAYS = {
    "w": W,
    "fortran": np.asfortranarray(W),
    "model/layers.0": W[::2].astype(np.float16),
    "big": W.astype(">f4"),
    "big fortran": np.asfortranarray(W.astype(">i8")),
    "complex": W.astype(">c16"),
    "bool": W > 3,
    "bytes": W.astype(np.uint8),
    "scalar": np.float64(2.5),
    "empty": np.zeros((0, 3), np.int16),
}


def native(array):
    array = np.asarray(array)
    return np.ascontiguousarray(array).astype(array.dtype.newbyteorder("=")).tobytes()


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("names", [list(ARRAYS), ["w"]], ids=["many", "one"])
def test_equal_to_numpy(tmp_path, save, names):
    save(tmp_path / "x.npz", **{name: ARRAYS[name] for name in names})
    with open_checkpoint(tmp_path / "x.npz") as source, np.load(tmp_path / "x.npz") as loaded:
        assert (source.container, source.problems) == ("npz", ())
        assert [r.key for r in source.refs] == names
        for ref in source.refs:
            want = native(loaded[ref.key])
            assert (ref.shape, source.read(ref)) == (loaded[ref.key].shape, want)
            if len(want) > 9:
                assert source.read(ref, 3, len(want) - 3) == want[3:-3]


def test_export(tmp_path):
    np.savez(tmp_path / "x.npz", **{"a.weight": W, "b.weight": np.asfortranarray(W)})
    with open_checkpoint(tmp_path / "x.npz") as source:
        write(normalise(source), tmp_path / "out", container="safetensors")
    with open_checkpoint(tmp_path / "out") as made:
        assert {r.key: made.read(r) for r in made.refs} == {"a.weight": W.tobytes(), "b.weight": W.tobytes()}


def test_arrays_of_objects_are_named_and_never_opened(tmp_path):
    canary = tmp_path / "canary"

    class Attack:
        def __reduce__(self):
            return (open, (str(canary), "w"))

    np.savez(tmp_path / "x.npz", w=W, bad=np.array([Attack()], dtype=object), pair=np.zeros(2, "f4,i4"))
    with open_checkpoint(tmp_path / "x.npz") as source:
        assert [r.key for r in source.refs] == ["w"]
        assert [(p.code, p.keys) for p in source.problems] == [
            ("unsafe-pickle", ("io.open",)),
            ("foreign-object", ("bad", "pair")),
        ]
    assert not canary.exists()


@pytest.mark.case(52)
@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("descr", ["|O", "O", [("a", "<f4"), ("b", "O")]])
def test_an_array_of_objects_in_a_file_of_its_own(tmp_path, version, descr):
    attack = b.pickled(b.call(b.name("os", "system"), b.text("true")))
    header = {"descr": descr, "fortran_order": False, "shape": (1,)}
    path = b.write(tmp_path / "x.npy", member(header, attack, version))
    with pytest.raises(CheckpointError) as caught:
        open_checkpoint(path)
    assert caught.value.code == "unsafe-pickle"
    assert "x.npy is a NumPy array of objects that would run code" in caught.value.message
    assert "os.system" in caught.value.message
    b.write(tmp_path / "model.safetensors", b.safetensors_bytes({"w": W}))
    with open_checkpoint(tmp_path) as source:
        assert [p.code for p in source.problems] == ["unsafe-pickle"]
        assert source.problems[0].message.startswith("x.npy, beside the weights, would run code")


def test_an_escape_in_the_header_hides_nothing(tmp_path):
    attack = b.pickled(b.call(b.name("os", "system"), b.text("true")))
    header = b"{'descr': '|\\x4f', 'fortran_order': False, 'shape': (1,)}"
    with pytest.raises(CheckpointError, match="would run code"):
        open_checkpoint(b.write(tmp_path / "x.npy", member(header, attack)))


@pytest.mark.parametrize("values", [W, np.array(["plain"], dtype=object)])
def test_an_array_that_runs_nothing_is_no_checkpoint(tmp_path, values):
    np.save(tmp_path / "x.npy", values)
    with pytest.raises(CheckpointError, match="is a NumPy array file") as caught:
        open_checkpoint(tmp_path / "x.npy")
    assert caught.value.code == "not-a-checkpoint"


def member(header, data=b"", version=1):
    text = header if isinstance(header, bytes) else repr(header).encode()
    return b"\x93NUMPY" + bytes([version, 0]) + len(text).to_bytes(2 if version == 1 else 4, "little") + text + data


GOOD = {"descr": "<f4", "fortran_order": False, "shape": (2,)}
MEMBERS = {
    "no magic": b"hello",
    "too short": member(GOOD, bytes(7)),
    "too long": member(GOOD, bytes(9)),
    "negative": member(GOOD | {"shape": (-2,)}, bytes(8)),
    "overflow": member(GOOD | {"shape": (1 << 40, 1 << 40)}, bytes(8)),
    "no shape": member({"descr": "<f4", "fortran_order": False}, bytes(8)),
    "code": member(b"__import__('os').system('true')", bytes(8)),
    "deep": member(b"(" * 5000, bytes(8)),
    "long header": b"\x93NUMPY\x02\x00\xff\xff\xff\x7f" + bytes(100),
    "version 9": member(GOOD, bytes(8), version=9),
}


@pytest.mark.parametrize("data", MEMBERS.values(), ids=MEMBERS)
@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_damaged_members(tmp_path, data, method):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        archive.writestr("w.npy", data)
    with pytest.raises(CheckpointError) as caught:
        open_checkpoint(b.write(tmp_path / "x.npz", out.getvalue()))
    assert caught.value.code == "damaged"


@pytest.mark.parametrize("version", [1, 2, 3])
def test_versions_of_the_header(tmp_path, version):
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("w.npy", member(GOOD, W.tobytes()[:8], version))
    with open_checkpoint(tmp_path / "x.npz") as source:
        assert source.read(source.refs[0]) == W.tobytes()[:8]
