"""Torch files: equal to what torch loads, and hostile ones inert, refused or named."""

from __future__ import annotations

import io
import struct
import sys
import warnings
import zipfile

import numpy as np
import pytest

from ckpt_gui.core.beside import ForeignObject
from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.formats import open_checkpoint
from tests import builders as b

W = np.arange(6, dtype=np.float32)


def open_bytes(tmp_path, data, name="x.pt"):
    return open_checkpoint(b.write(tmp_path / name, data))


def open_body(tmp_path, body, storages=None, **options):
    return open_bytes(tmp_path, b.torch_bytes(body, {"0": W} if storages is None else storages, **options))


def codes(source):
    return [p.code for p in source.problems]


@pytest.mark.case(51)
def test_state_dict(tmp_path):
    with open_bytes(tmp_path, b.state_dict_bytes({"a.w": W.reshape(2, 3), "b": W[:2]}), "x.bin") as source:
        assert source.container == "torch-zip"
        assert [(r.key, r.dtype, r.shape, r.section) for r in source.refs] == [
            ("a.w", "fp32", (2, 3), ()),
            ("b", "fp32", (2,), ()),
        ]
        assert source.read(source.refs[0]) == W.tobytes()
        assert source.read(source.refs[0], 5, 11) == W.tobytes()[5:11]
        assert source.checksums[("x.bin", "1")][0] == 8
        assert source.problems == ()


def test_sections_extras_and_metadata(tmp_path):
    optimizer = b.dict_of({"state": b.dict_of([(b.number(0), b.dict_of({"exp_avg": b.tensor("0", [6])}))])})
    model = b.ordered({"w": b.tensor("0", [6])}, b.dict_of({"": b.dict_of({"version": b.number(1)})}))
    body = b.dict_of({"model": model, "optimizer": optimizer, "step": b.number(7), "betas": b.list_of(b"\x88", b"N")})
    with open_body(tmp_path, body) as source:
        assert [r.path for r in source.refs] == [("model", "w"), ("optimizer", "state", "0", "exp_avg")]
        assert [(e.path, e.text) for e in source.extras] == [(("step",), "7"), (("betas",), "True, None")]
        assert source.tree["model"]["w"] is source.refs[0]
        assert source.tree["model"]._metadata == {"": {"version": 1}}
        assert source.refs[0].place == source.refs[1].place


@pytest.mark.case(75)
def test_keys_that_are_not_text(tmp_path):
    pairs = [(b.number(1), b.tensor("0", [6])), (b.text("1"), b.tensor("0", [3], numel=6)), (b"N", b.number(3))]
    pairs += [(b.tuple_of(b.number(1), b.text("x")), b.number(4)), (b.tuple_of(b.tuple_of()), b.number(5))]
    with open_body(tmp_path, b.dict_of(pairs)) as source:
        assert [r.key for r in source.refs] == ["1 (int)", "1"]
        assert [e.path[0] for e in source.extras] == ["None", "(1, 'x')", "<tuple>"]


@pytest.mark.case(60, 77)
@pytest.mark.parametrize(
    ("shape", "strides", "offset"),
    [
        ((3, 2), (1, 3), 0),
        ((2,), (3,), 1),
        ((4, 6), (0, 1), 0),
        ((1 << 40,), (0,), 5),
        ((2, 2), (1, 1), 2),
        ((1, 2), (99, 4), 0),
    ],
)
def test_strided_views(tmp_path, shape, strides, offset):
    with open_body(tmp_path, b.tensor("0", shape, numel=6, strides=strides, offset=offset)) as source:
        ref = source.refs[0]
        small = tuple(min(s, 50) for s in shape)
        view = np.lib.stride_tricks.as_strided(W[offset:], small, [s * 4 for s in strides])
        want = np.ascontiguousarray(view).tobytes()
        assert source.read(ref, 0, len(want)) == want
        for start in range(0, len(want), 7):
            assert source.read(ref, start, min(start + 9, len(want))) == want[start : start + 9]


GEOMETRY = {
    "reaches too far": {"shape": [7], "numel": 6},
    "offset too far": {"shape": [6], "offset": 1},
    "strides too far": {"shape": [2, 2], "numel": 6, "strides": [1, 5]},
    "negative stride": {"shape": [6], "strides": [-1]},
    "negative size": {"shape": [-1], "numel": 6},
    "negative offset": {"shape": [1], "numel": 6, "offset": -1},
    "claims more than its record": {"shape": [600], "numel": 600},
    "claims two billion": {"shape": [2_000_000_000], "numel": 2_000_000_000},
    "claims less than its record": {"shape": [3], "numel": 3},
    "more strides than sizes": {"shape": [6], "strides": [1, 1]},
    "of another type": {"shape": [6], "kind": "HalfStorage"},
}


@pytest.mark.case(56, 58)
@pytest.mark.parametrize("wrong", GEOMETRY.values(), ids=GEOMETRY)
def test_bad_geometry_names_the_tensor_and_lists_the_others(tmp_path, wrong):
    body = b.dict_of({"good": b.tensor("0", [6]), "bad": b.tensor("0", **wrong)})
    with open_body(tmp_path, body) as source:
        assert [r.key for r in source.refs] == ["good"]
        assert [(p.code, p.blocking, p.keys) for p in source.problems] == [("damaged", True, ("bad",))]


@pytest.mark.case(65)
def test_missing_record(tmp_path):
    body = b.dict_of({"good": b.tensor("0", [6]), "gone": b.tensor("1", [6])})
    with open_body(tmp_path, body) as source:
        assert [r.key for r in source.refs] == ["good"]
        assert "`gone`" in source.problems[0].message
        assert "storage 1 is missing" in source.problems[0].message


@pytest.mark.case(79)
def test_device_and_unknown_location_do_not_matter(tmp_path):
    with open_body(tmp_path, b.dict_of({"w": b.tensor("0", [6], location="cuda:7")})) as source:
        assert source.read(source.refs[0]) == W.tobytes()


# ---- hostile pickles


@pytest.fixture
def canary(tmp_path):
    """The command that a hostile pickle would run, and the file that would tell."""
    target = tmp_path / "canary"
    yield b.text(f"touch {target}")
    assert not target.exists()


UNSAFE = {
    "os.system": lambda cmd: b.call(b.name("os", "system"), cmd),
    "posix.system": lambda cmd: b.call(b.name("posix", "system"), cmd),
    "eval": lambda cmd: b.call(b.name("__builtin__", "eval"), cmd),
    "getattr": lambda cmd: b.call(b.call(b.name("builtins", "getattr"), b.name("os", "path"), b.text("os")), cmd),
    "stack global": lambda cmd: b.text("os") + b.text("system") + b"\x93" + b.tuple_of(cmd) + b"R",
    "inst": lambda cmd: b"(" + cmd + b"ios\nsystem\n",
    "obj": lambda cmd: b"(" + b.name("os", "system") + cmd + b"o",
    "newobj": lambda cmd: b.name("subprocess", "Popen") + b.tuple_of(cmd) + b"\x81",
    "dotted": lambda cmd: b.call(b.name("torch", "os.system"), cmd),
    "function of torch": lambda cmd: b.call(b.name("torch.hub", "load"), cmd),
    "load from bytes": lambda cmd: b.call(b.name("torch.storage", "_load_from_bytes"), cmd),
    "build": lambda cmd: b.obj(b.name("runpy", "run_path"), cmd),
    "extension": lambda cmd: b"\x82\x07" + b.tuple_of(cmd) + b"R",
}


@pytest.mark.case(52, 53)
@pytest.mark.parametrize("make", UNSAFE.values(), ids=UNSAFE)
def test_nothing_runs_and_the_tensors_are_listed(tmp_path, canary, make):
    body = b.dict_of({"w": b.tensor("0", [6]), "x": make(canary)})
    with open_body(tmp_path, body) as source:
        assert [r.key for r in source.refs] == ["w"]
        problem = next(p for p in source.problems if p.code == "unsafe-pickle")
        assert problem.severity == "error"
        assert not problem.blocking


FOREIGN = {
    "argparse.Namespace": b.obj(b.name("argparse", "Namespace"), b.dict_of({"lr": b.number(1)})),
    "mytrainer.Config": b.obj(b.name("mytrainer", "Config"), b.dict_of({})),
    "pathlib.PosixPath": b.call(b.name("pathlib", "PosixPath"), b.text("a")),
    "numpy.core.multiarray.scalar": b.call(
        b.name("numpy.core.multiarray", "scalar"), b.call(b.name("numpy", "dtype"), b.text("f8")), b.text("x")
    ),
    "functools.partial": b.call(b.name("functools", "partial"), b.name("mytrainer", "lr_lambda")),
}


@pytest.mark.case(55)
@pytest.mark.parametrize("label", FOREIGN)
def test_other_classes_are_named_and_inert(tmp_path, label):
    before = set(sys.modules)
    with open_body(tmp_path, b.dict_of({"w": b.tensor("0", [6]), "x": FOREIGN[label]})) as source:
        assert [r.key for r in source.refs] == ["w"]
        assert codes(source) == ["foreign-object"]
        assert label in source.problems[0].keys
        assert f"{label} (in `x`)" in source.problems[0].message
        assert isinstance(source.tree["x"], ForeignObject)
        assert (("x",), label) in [(e.path, e.kind) for e in source.extras]
    assert not {m for m in set(sys.modules) - before if m.startswith(("argparse", "mytrainer", "pathlib"))}


@pytest.mark.case(55)
def test_tensors_inside_foreign_objects_are_listed(tmp_path):
    module = b.obj(b.name("mymodel", "Net"), b.dict_of({"_parameters": b.ordered({"weight": b.tensor("0", [6])})}))
    with open_body(tmp_path, module) as source:
        assert [r.path for r in source.refs] == [("_parameters", "weight")]
        assert source.read(source.refs[0]) == W.tobytes()


@pytest.mark.case(52, 55)
def test_unsafe_names_are_told_with_their_place(tmp_path):
    attack = b.call(b.name("os", "system"), b.text("true"))
    inner = b.dict_of({"hooks": b.list_of(b.number(1), attack)})
    with open_body(tmp_path, b.dict_of({"w": b.tensor("0", [6]), "state": inner})) as source:
        [found] = [p for p in source.problems if p.code == "unsafe-pickle"]
        assert "it names os.system (in `state.hooks.1`)." in found.message
    thrown_away = b.dict_of({"w": b.tensor("0", [6])}) + attack + b"0"
    with open_body(tmp_path, thrown_away) as source:
        [found] = [p for p in source.problems if p.code == "unsafe-pickle"]
        assert "it names os.system." in found.message


def test_a_subclass_of_dict_keeps_its_items(tmp_path):
    body = b.name("box", "Box") + b")\x81" + b.dict_of({"w": b.tensor("0", [6])})[1:]
    with open_body(tmp_path, body) as source:
        assert [r.path for r in source.refs] == [("w",)]


@pytest.mark.case(76)
def test_an_object_that_holds_itself(tmp_path):
    cycle = b"}q\x01(" + b.text("self") + b"h\x01" + b.text("w") + b.tensor("0", [6]) + b"u"
    with open_body(tmp_path, cycle) as source:
        assert [r.key for r in source.refs] == ["w"]
        assert repr(source.tree)


def laughs(levels):
    out = b"]q\x00"
    for i in range(levels):
        out += b"](" + b"h" + bytes([i]) + b"h" + bytes([i]) + b"eq" + bytes([i + 1])
    return b.list_of(out)


def tuple_laughs(levels):
    """Tuples of shared tuples as a dict key: hashing them would never end."""
    out = b")q\x00"
    for i in range(levels):
        out += b"0h" + bytes([i]) + b"h" + bytes([i]) + b"\x86q" + bytes([i + 1])
    return b.dict_of([(out, b.number(1))])


LIMITS = {
    "deep list": b"]" * 200_000 + b"a" * 199_999,
    "billion laughs": laughs(60),
    "copies for ever": b"]("
    + b"N" * 60_000
    + b"eq\x000"
    + b"]("
    + b.call(b.name("builtins", "list"), b"h\x00") * 2000
    + b"e",
    "memo far away": b"Nr\xff\xff\xff\xff",
}
DAMAGED = {
    "stack underflow": b"R",
    "pop of nothing": b"00",
    "value never made": b"h\x07",
    "unknown opcode": b"\xff",
    "text of four gigabytes": b"X\xff\xff\xff\xffab",
    "long of two gigabytes": b"\x8b\xff\xff\xff\x7f",
    "bytes of 2^63": b"\x8e" + struct.pack("<Q", 1 << 63),
    "frame past the end": b"\x95" + struct.pack("<Q", 1 << 40),
    "item of a tensor": b.tensor("0", [6]) + b.text("a") + b"Ns",
    "append to a dict": b"}Na",
    "other persistent id": b.text("x") + b"Q",
    "persistent id in text": b"Px\n",
    "storage of no type": b.tuple_of(*map(b.text, ("storage", "x", "0", "cpu")), b.number(6)) + b"Q",
    "out-of-band buffer": b"\x97",
    "bytearray of a number": b.call(b.name("builtins", "bytearray"), b.number(1 << 40)),
    "protocol 9": b"\x80\x09N",
    "int of letters": b"Iabc\n",
    "no stop": b"N" * 3 + b"\x80",
}


@pytest.mark.case(59, 76, 80, 81)
@pytest.mark.parametrize(
    ("body", "code"),
    [(v, "limit-exceeded") for v in LIMITS.values()] + [(v, "damaged") for v in DAMAGED.values()],
    ids=[*LIMITS, *DAMAGED],
)
def test_pickles_that_are_refused(tmp_path, body, code):
    with pytest.raises(CheckpointError) as caught:
        open_body(tmp_path, body)
    assert caught.value.code == code


@pytest.mark.case(76)
def test_hashing_is_bounded(tmp_path):
    with open_body(tmp_path, tuple_laughs(60)) as source:
        assert source.refs == ()


@pytest.mark.case(54)
def test_unsafe_names_before_the_damage_are_told(tmp_path):
    with pytest.raises(CheckpointError, match=r"os\.system"):
        open_body(tmp_path, b.call(b.name("os", "system"), b.text("x")) + b"\xff\xff junk")


# ---- hostile archives


def zip_of(*entries):
    out = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(out, "w") as archive:
        warnings.simplefilter("ignore")
        for entry_name, data in entries:
            archive.writestr(entry_name, data)
    return out.getvalue()


GOOD = b.state_dict_bytes({"w": W})
PICKLE = ("a/data.pkl", b.pickled(b.dict_of({})))
ARCHIVES = {
    "pickle twice": (zip_of(PICKLE, PICKLE), "ambiguous-archive"),
    "pickle twice but for case": (zip_of(PICKLE, ("a/DATA.pkl", PICKLE[1])), "ambiguous-archive"),
    "pickle in another case": (zip_of(("a/Data.pkl", PICKLE[1])), "not-a-checkpoint"),
    "two roots": (zip_of(PICKLE, ("b/data/0", b"")), "ambiguous-archive"),
    "leads out": (zip_of(PICKLE, ("a/../../x", b"")), "ambiguous-archive"),
    "absolute": (zip_of(("/a/data.pkl", PICKLE[1])), "ambiguous-archive"),
    "no end": (GOOD[:-30], "truncated"),
    "half": (GOOD[: len(GOOD) // 2], "truncated"),
    "encrypted": (GOOD.replace(b"PK\1\2\x14\3\x14\0\0\0", b"PK\1\2\x14\3\x14\0\1\0"), "damaged"),
    "method 12": (b.torch_bytes(b.dict_of({}), {"0": W}, compression=zipfile.ZIP_BZIP2), "damaged"),
    "odd byte order": (b.torch_bytes(b.dict_of({}), byteorder=b"middle"), "damaged"),
    "npz": (zip_of(("a.npy", b"x")), "damaged"),
    "other zip": (zip_of(("word/document.xml", b"x")), "not-a-checkpoint"),
    "empty zip": (zip_of(), "not-a-checkpoint"),
}


@pytest.mark.case(64, 68, 70, 71)
@pytest.mark.parametrize(("data", "code"), ARCHIVES.values(), ids=ARCHIVES)
def test_archives_that_are_refused(tmp_path, data, code):
    with pytest.raises(CheckpointError) as caught:
        open_bytes(tmp_path, data)
    assert caught.value.code == code


@pytest.mark.case(64)
def test_junk_before_the_archive_is_no_archive(tmp_path):
    with pytest.raises(CheckpointError):
        open_bytes(tmp_path, b"junk" + GOOD)


@pytest.mark.case(64)
def test_local_header_that_disagrees(tmp_path):
    data = GOOD.replace(b"archive/data/0", b"archive/data/9", 1)
    with open_bytes(tmp_path, data) as source, pytest.raises(CheckpointError) as caught:
        source.read(source.refs[0])
    assert caught.value.code == "ambiguous-archive"


@pytest.mark.case(63)
def test_a_bomb_stops_at_the_cap(tmp_path, monkeypatch):
    monkeypatch.setattr("ckpt_gui.core.formats.zip_archive.MAX_INFLATED", 1 << 16)
    bomb = zipfile.ZIP_DEFLATED
    data = b.torch_bytes(b"N" * (1 << 20) + b.dict_of({}), {}, compression=bomb)
    with pytest.raises(CheckpointError) as caught:
        open_bytes(tmp_path, data)
    assert caught.value.code == "limit-exceeded"


def test_deflated_pickle_is_read(tmp_path):
    with open_bytes(tmp_path, b.torch_bytes(b.dict_of({"n": b.number(5)}), compression=zipfile.ZIP_DEFLATED)) as source:
        assert source.extras[0].text == "5"


@pytest.mark.case(67)
def test_trailing_bytes(tmp_path):
    with open_bytes(tmp_path, GOOD + b"tail") as source:
        assert codes(source) == ["trailing-bytes"]


@pytest.mark.case(69)
def test_no_byte_order_means_little(tmp_path):
    with open_bytes(tmp_path, b.torch_bytes(b.tensor("0", [6]), {"0": W}, byteorder=None)) as source:
        assert source.read(source.refs[0]) == W.tobytes()


@pytest.mark.case(66)
def test_without_checksums(tmp_path):
    data = bytearray(GOOD)
    for magic, at in ((b"PK\1\2", 16), (b"PK\3\4", 14)):
        start = data.find(magic)
        while start >= 0:
            data[start + at : start + at + 4] = b"\0\0\0\0"
            start = data.find(magic, start + 4)
    with open_bytes(tmp_path, bytes(data)) as source:
        assert source.checksums == {}


def test_storage_bloat(tmp_path):
    big = np.zeros(1 << 19, np.float32)
    body = b.dict_of({"view": b.tensor("0", [4], numel=big.size), "whole": b.tensor("1", [6])})
    with open_body(tmp_path, body, {"0": big, "1": W}) as source:
        assert [(p.code, p.keys) for p in source.problems] == [("storage-bloat", ("view",))]


def test_views_that_fill_their_storage_are_no_bloat(tmp_path):
    big = np.zeros(1 << 19, np.float32)
    half = big.size // 2
    body = b.dict_of(
        {"a": b.tensor("0", [half], numel=big.size), "b": b.tensor("0", [half], numel=big.size, offset=half)}
    )
    with open_body(tmp_path, body, {"0": big}) as source:
        assert source.problems == ()


def test_a_damaged_pickle_is_told_by_its_checksum(tmp_path):
    with pytest.raises(CheckpointError) as caught:
        open_bytes(tmp_path, GOOD.replace(b"\x89c", b"\x88c", 1))
    assert caught.value.code == "crc-mismatch"


def test_numbers_too_long_to_print(tmp_path):
    huge = b"\x8b" + struct.pack("<i", 4000) + b"\x01" * 4000
    values = {"a": huge, "size": b.call(b.name("torch", "Size"), b.tuple_of(huge)), "w": b.tensor("0", [6])}
    pairs = [(b.text(k), v) for k, v in values.items()] + [(b.tuple_of(huge), b"N"), (huge, b"N")]
    with open_body(tmp_path, b.dict_of(pairs)) as source:
        assert [r.key for r in source.refs] == ["w"]


def test_protocol_0_texts(tmp_path):
    body = b"(lp0\nS'a\\x41\\d'\np1\naV\\u00e9\np2\naI01\naI-7\naL5L\naF1.5\na."
    with open_body(tmp_path, body) as source:
        assert source.tree == ["aA\\d", "é", True, -7, 5, 1.5]
