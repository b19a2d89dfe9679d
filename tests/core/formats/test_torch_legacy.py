"""Torch files of before 1.6 and of 2016: equal to what torch loads from them."""

from __future__ import annotations

import io
import pickle
import struct
import tarfile

import numpy as np
import pytest

from ckpt_gui import normalise, write
from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.formats import open_checkpoint
from ckpt_gui.core.formats.torch_legacy import MAGIC
from tests import builders as b

torch = pytest.importorskip("torch")

W = np.arange(6, dtype=np.float32)


def raw(tensor):
    flat = tensor.detach().contiguous().reshape(-1)
    return flat.clone().view(torch.uint8).numpy().tobytes() if flat.numel() else b""


def stream(body, storages, *, keys=None, counts=None):
    """A legacy file by hand: `storages` are arrays by key."""
    keys = list(storages) if keys is None else keys
    head = b.pickled(b"\x8a\x0a" + MAGIC.to_bytes(10, "little")) + b.pickled(b.number(1001)) + b.pickled(b.dict_of({}))
    out = head + b.pickled(body) + b.pickled(b.list_of(*map(b.text, keys)))
    for key, array in storages.items():
        out += struct.pack("<q", (counts or {}).get(key, array.size)) + array.tobytes()
    return out


def outcome(path):
    """The first finding, or the error, and the tensors that are listed."""
    try:
        with open_checkpoint(path) as source:
            return source.problems[0].code, [r.key for r in source.refs]
    except CheckpointError as error:
        return error.code, []


@pytest.mark.case(51)
@pytest.mark.filterwarnings("ignore:Detected pickle protocol:UserWarning")
@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_equal_to_torch(tmp_path, protocol):
    w = torch.randn(30, 40)
    tensors = {"w": w, "t": w.t(), "slice": w[2:, ::3], "tied": w, "empty": torch.zeros(0), "one": torch.tensor(3.0)}
    tensors |= {d: torch.arange(5).to(getattr(torch, d)) for d in ("bfloat16", "int8", "bool", "float64")}
    value = {"model": tensors, "step": 7}
    path = tmp_path / "x.pt"
    torch.save(value, path, _use_new_zipfile_serialization=False, pickle_protocol=protocol)
    expected = torch.load(path, weights_only=False)
    with open_checkpoint(path) as source:
        assert source.container == "torch-legacy"
        assert [(p.code, p.severity) for p in source.problems] == [("legacy-container", "info")]
        assert {r.key: source.read(r) for r in source.refs} == {k: raw(v) for k, v in expected["model"].items()}
        places = {r.key: r.place for r in source.refs}
        assert places["w"] == places["tied"]
        assert source.tree["step"] == 7


def test_a_storage_that_is_a_part_of_another(tmp_path):
    part = b.tuple_of(b.text("9"), b.number(2), b.number(3))
    pid = [b.text("storage"), b.name("torch", "FloatStorage"), b.text("0"), b.text("cpu"), b.number(6), part]
    numbers = (b.number(1), b.tuple_of(b.number(2)), b.tuple_of(b.number(1)), b"\x89", b"}")
    view = b.call(b.name("torch._utils", "_rebuild_tensor_v2"), b.tuple_of(*pid) + b"Q", *numbers)
    path = b.write(tmp_path / "x.pt", stream(b.dict_of({"v": view}), {"0": W}))
    assert torch.load(path)["v"].tolist() == [3.0, 4.0]
    with open_checkpoint(path) as source:
        assert source.read(source.refs[0]) == W[3:5].tobytes()
    outside = (b.number(2), b.tuple_of(b.number(2)), b.tuple_of(b.number(1)), b"\x89", b"}")
    bad = b.call(b.name("torch._utils", "_rebuild_tensor_v2"), b.tuple_of(*pid) + b"Q", *outside)
    with open_checkpoint(b.write(tmp_path / "y.pt", stream(b.dict_of({"v": bad}), {"0": W}))) as source:
        assert source.refs == ()
        assert source.problems[0].code == "damaged"


def test_module_with_source(tmp_path):
    module = b.tuple_of(b.text("module"), b.name("mymodel", "Net"), b.text("a.py"), b.text("class Net: pass")) + b"Q"
    body = b.dict_of({"kind": module, "w": b.tensor("0", [6])})
    with open_checkpoint(b.write(tmp_path / "x.pt", stream(body, {"0": W}))) as source:
        assert [r.key for r in source.refs] == ["w"]
        assert "foreign-object" in [p.code for p in source.problems]


@pytest.mark.case(71)
def test_cut_anywhere(tmp_path):
    data = stream(b.dict_of({"a": b.tensor("0", [6]), "b": b.tensor("1", [3])}), {"0": W, "1": W[:3]})
    for cut in range(20, len(data)):
        with pytest.raises(CheckpointError) as caught:
            open_checkpoint(b.write(tmp_path / "x.pt", data[:cut]))
        assert caught.value.code in ("truncated", "damaged")
    assert "(1 missing)" in caught.value.message


@pytest.mark.case(57)
def test_two_billion_elements_in_a_small_file(tmp_path):
    body = b.dict_of({"w": b.tensor("0", [2_000_000_000])})
    data = stream(body, {"0": W}, counts={"0": 2_000_000_000})
    with pytest.raises(CheckpointError) as caught:
        open_checkpoint(b.write(tmp_path / "x.pt", data))
    assert caught.value.code == "truncated"


WRONG = {
    "another count": {"counts": {"0": 5}},
    "negative count": {"counts": {"0": -6}},
    "unknown key": {"keys": ["7"]},
    "key twice": {"keys": ["0", "0"]},
    "no key": {"keys": []},
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_lists_of_storages_that_do_not_fit(tmp_path, wrong):
    path = b.write(tmp_path / "x.pt", stream(b.dict_of({"w": b.tensor("0", [6])}), {"0": W}, **wrong) + bytes(99))
    assert outcome(path) == ("damaged", [])


def test_trailing_bytes(tmp_path):
    data = stream(b.dict_of({"w": b.tensor("0", [6])}), {"0": W}) + b"extra"
    with open_checkpoint(b.write(tmp_path / "x.pt", data)) as source:
        assert {p.code: p.message for p in source.problems}["trailing-bytes"].count("5 bytes")


@pytest.mark.case(52)
@pytest.mark.parametrize("tail", [b"", b"\xff\xff junk"], ids=["whole", "then junk"])
def test_nothing_runs(tmp_path, tail):
    canary = tmp_path / "canary"
    attack = b.call(b.name("posix", "system"), b.text(f"touch {canary}"))
    body = b.dict_of({"w": b.tensor("0", [6]), "x": attack}) + tail
    path = b.write(tmp_path / "x.pt", stream(body, {"0": W}))
    assert outcome(path) == ("unsafe-pickle", [] if tail else ["w"])
    assert not canary.exists()


@pytest.mark.case(52)
def test_an_attack_in_any_of_its_pickles_is_told(tmp_path):
    attack = b.pickled(b.call(b.name("os", "system"), b.text("true")))
    data = b.pickled(b"\x8a\x0a" + MAGIC.to_bytes(10, "little")) + attack
    with pytest.raises(CheckpointError) as caught:
        open_checkpoint(b.write(tmp_path / "x.pt", data))
    assert caught.value.code == "unsafe-pickle"


# ---- tar


def tar_bytes(members):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:", format=tarfile.PAX_FORMAT) as tar:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


def int_pickle(value):
    return pickle.dumps(value, 2)


def storage_bytes(key, kind, array):
    head = b.pickled(b.tuple_of(b.number(key), b.text("cpu"), b.name("torch", kind)))
    return head + struct.pack("<q", array.size) + array.tobytes()


def tensor_bytes(key, storage, shape, strides, offset):
    kind = b.name("torch", "FloatTensor")
    head = b.pickled(b.tuple_of(b.number(key), b.number(storage), kind))
    return head + struct.pack(f"<2i{2 * len(shape) + 1}q", len(shape), 0, *shape, *strides, offset)


def tar_members(pickled):
    storages = int_pickle(1) + storage_bytes(10, "FloatStorage", W) + int_pickle([(11, 10, 2, 3)])
    tensors = [(20, 10, (2, 3), (3, 1), 0), (21, 10, (3, 2), (1, 3), 0), (22, 11, (2,), (1,), 1)]
    described = int_pickle(len(tensors)) + b"".join(tensor_bytes(*t) for t in tensors)
    return {"sys_info": int_pickle({}), "pickle": pickled, "tensors": described, "storages": storages}


TAR_BODY = b.dict_of({k: b.text(v) + b"Q" for k, v in {"w": "20", "t": "21", "part": "22"}.items()})


def test_tar_equal_to_torch(tmp_path):
    path = b.write(tmp_path / "x.pt", tar_bytes(tar_members(b.pickled(TAR_BODY))))
    expected = torch.load(path, weights_only=False)
    assert expected["part"].tolist() == [3.0, 4.0]
    with open_checkpoint(path) as source:
        assert source.container == "torch-tar"
        assert [(p.code, p.severity) for p in source.problems] == [("legacy-container", "info")]
        assert {r.key: source.read(r) for r in source.refs} == {k: raw(v) for k, v in expected.items()}


@pytest.mark.case(52)
def test_tar_that_carries_an_attack(tmp_path):
    canary = tmp_path / "canary"
    attack = b.call(b.name("posix", "system"), b.text(f"touch {canary}"))
    body = b.dict_of({"w": b.text("20") + b"Q", "x": attack})
    with open_checkpoint(b.write(tmp_path / "x.tar", tar_bytes(tar_members(b.pickled(body))))) as source:
        assert [r.key for r in source.refs] == ["w"]
        assert source.problems[0].code == "unsafe-pickle"
    hidden = tar_members(b.pickled(TAR_BODY))
    hidden["storages"] = b.pickled(attack) + hidden["storages"]
    with pytest.raises(CheckpointError):
        open_checkpoint(b.write(tmp_path / "y.tar", tar_bytes(hidden)))
    assert not canary.exists()


def test_tar_damaged_anywhere(tmp_path):
    good = tar_bytes(tar_members(b.pickled(TAR_BODY)))
    for at in range(0, 7000, 13):
        data = bytearray(good)
        data[at] ^= 0xFF
        try:
            with open_checkpoint(b.write(tmp_path / "x.tar", bytes(data))) as source:
                for ref in source.refs:
                    source.read(ref)
        except CheckpointError:
            pass


def test_tar_of_something_else(tmp_path):
    with pytest.raises(CheckpointError, match="tar archive that torch did not write") as caught:
        open_checkpoint(b.write(tmp_path / "x.tar", tar_bytes({"a.txt": b"hello"})))
    assert caught.value.code == "not-a-checkpoint"


def test_export_of_old_forms(tmp_path):
    body = b.dict_of({"a.weight": b.tensor("0", [6]), "b.weight": b.tensor("1", [3])})
    b.write(tmp_path / "x.pt", stream(body, {"0": W, "1": W[3:]}))
    b.write(tmp_path / "y.pt", tar_bytes(tar_members(b.pickled(TAR_BODY))))
    for name in ("x", "y"):
        with open_checkpoint(tmp_path / f"{name}.pt") as source:
            write(normalise(source), tmp_path / name)
            with open_checkpoint(tmp_path / name / f"{name}.pt") as made:
                assert made.container == "torch-zip"
                assert {r.key: made.read(r) for r in made.refs} == {r.key: source.read(r) for r in source.refs}
