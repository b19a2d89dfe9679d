"""Attacks beside the weights: in records that torch does not load, in arrays of objects, in odd pickles."""

from __future__ import annotations

import io
import zipfile

import numpy as np
import pytest

from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.formats import open_checkpoint
from tests import builders as b

W = np.arange(6, dtype=np.float32)
ATTACK = b.pickled(b.call(b.name("os", "system"), b.text("true")))
HARMLESS = b.pickled(b.dict_of({"a": b.number(1)}))
BODY = b.dict_of({"w": b.tensor("0", [6])})


def zip_of(members, compression=zipfile.ZIP_STORED):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", compression) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return out.getvalue()


@pytest.mark.case(52)
@pytest.mark.parametrize("name", ["archive/extra.pkl", "archive/notes.bin", "archive/constants.pkl"])
def test_beside_the_weights(tmp_path, name):
    data = b.torch_bytes(BODY, {"0": W}, more=[(name, ATTACK)])
    with open_checkpoint(b.write(tmp_path / "x.pt", data)) as source:
        assert [r.key for r in source.refs] == ["w"]
        [found] = [p for p in source.problems if p.code == "unsafe-pickle"]
        assert found.keys == ("os.system",)
        assert name in found.message
    data = b.torch_bytes(BODY, {"0": W}, more=[(name, HARMLESS)])
    with open_checkpoint(b.write(tmp_path / "y.pt", data)) as source:
        assert "unsafe-pickle" not in [p.code for p in source.problems]


@pytest.mark.case(52, 54)
@pytest.mark.parametrize("damage", [None, "checksum", "local name"])
@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_in_an_archive_that_is_no_checkpoint(tmp_path, damage, method):
    data = zip_of({"model/config.pkl": ATTACK, "model/readme.txt": b"hello"}, method)
    if damage == "checksum":
        at = data.rindex(b"PK\x01\x02", 0, data.rindex(b"model/config.pkl"))
        data = data[: at + 16] + b"\1\2\3\4" + data[at + 20 :]
    elif damage == "local name":
        data = data.replace(b"model/config.pkl", b"model/config.txt", 1)
    with pytest.raises(CheckpointError, match=r"os\.system") as caught:
        open_checkpoint(b.write(tmp_path / "x.zip", data))
    assert caught.value.code == "unsafe-pickle"


@pytest.mark.case(52)
@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_in_arrays_of_objects(tmp_path, save):
    class Attack:
        def __reduce__(self):
            return exec, ("raise SystemExit",)

    save(tmp_path / "x.npz", w=W, evil=np.array([Attack()], dtype=object), good=np.array([None, 1], dtype=object))
    with open_checkpoint(tmp_path / "x.npz") as source:
        assert [r.key for r in source.refs] == ["w"]
        assert [(p.code, p.severity) for p in source.problems] == [
            ("unsafe-pickle", "error"),
            ("foreign-object", "warning"),
        ]
        assert source.problems[0].keys == ("builtins.exec",)


@pytest.mark.case(53, 54)
@pytest.mark.parametrize("tail", [b".", b".\n\n\t junk", b"\xff\xfe"], ids=["whole", "junk", "cut"])
@pytest.mark.parametrize(
    "head",
    [
        b"Vos\np2\n0Vsystem\np3\n0Vtorch\np0\n0g2\ng3\n\x93(Vls\ntR",
        b"(S'ls'\ni__builtin__\nexec\n",
        b"S'os'\nS'system'\n\x93S'ls'\n\x85R",
        b"I1\n0cposix\nsystem\n(S'ls'\ntR",
    ],
)
def test_pickles_that_begin_with_any_letter(tmp_path, head, tail):
    with pytest.raises(CheckpointError) as caught:
        open_checkpoint(b.write(tmp_path / "x.bin", head + tail))
    assert caught.value.code == "unsafe-pickle"


@pytest.mark.parametrize(
    "data",
    [b"column\nvalue\n1\n", b"import os\nsystem\n", b"Vertices and edges\n", b"hello", b"{'a': 1}", b"cmod\n\xf8\n"],
)
def test_texts_are_not_called_unsafe(tmp_path, data):
    with pytest.raises(CheckpointError) as caught:
        open_checkpoint(b.write(tmp_path / "x.bin", data))
    assert caught.value.code == "not-a-checkpoint"
