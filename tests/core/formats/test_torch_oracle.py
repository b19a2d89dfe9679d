"""What torch saves opens with equal bytes; what the layout writes loads in torch with equal values."""

from __future__ import annotations

import os
import zipfile
import zlib

import pytest

from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.formats import open_checkpoint
from ckpt_gui.core.formats.layout import StoredTensor
from ckpt_gui.core.formats.torch_layout import layout
from ckpt_gui.core.formats.torch_values import StateDict, TorchDevice, TorchDType, TorchSize
from ckpt_gui.core.tensors import TensorSpec

torch = pytest.importorskip("torch")

DTYPES = [
    "bfloat16",
    "float16",
    "float32",
    "float64",
    "float8_e4m3fn",
    "float8_e5m2",
    "int8",
    "uint8",
    "int16",
    "uint16",
]
DTYPES += ["int32", "uint32", "int64", "uint64", "bool", "complex64", "complex128"]


def raw(tensor):
    flat = tensor.detach().contiguous().reshape(-1)
    return flat.clone().view(torch.uint8).numpy().tobytes() if flat.numel() else b""


@pytest.mark.case(51, 78)
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_type(tmp_path, dtype):
    tensor = torch.arange(6).reshape(2, 3).to(getattr(torch, dtype))
    torch.save({"w": tensor}, tmp_path / "x.pt")
    with open_checkpoint(tmp_path / "x.pt") as source:
        assert source.problems == ()
        assert source.read(source.refs[0]) == raw(tensor)


@pytest.mark.case(51, 77)
def test_views_parameters_modules_and_training_state(tmp_path):
    w = torch.randn(6, 8)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.LayerNorm(4))
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    tensors = {"w": w, "t": w.t(), "slice": w[1:, 2:7:2], "one": w[2, 3], "wide": torch.zeros(1).expand(5, 3)}
    tensors |= {"parameter": torch.nn.Parameter(w), "empty": torch.zeros(0, 4), "copy": w}
    torch.save({"t": tensors, "model": model.state_dict(), "optimizer": optimizer.state_dict()}, tmp_path / "x.pt")
    expected = {("t", k): v for k, v in tensors.items()} | {("model", k): v for k, v in model.state_dict().items()}
    for number, state in optimizer.state_dict()["state"].items():
        expected |= {("optimizer", "state", str(number), k): v for k, v in state.items()}
    with open_checkpoint(tmp_path / "x.pt") as source:
        assert source.problems == ()
        assert {r.path: source.read(r) for r in source.refs} == {k: raw(v) for k, v in expected.items()}
        by_key = {r.key: r for r in source.refs if r.section == ("t",)}
        assert by_key["w"].place == by_key["copy"].place == by_key["parameter"].place
        assert source.tree["model"]._metadata == model.state_dict()._metadata
        assert ("optimizer", "param_groups", "0", "lr") in [e.path for e in source.extras]


def test_protocols_and_whole_modules(tmp_path):
    model = torch.nn.Linear(3, 4)
    for protocol in (2, 3, 4, 5):
        torch.save(model, tmp_path / "m.pt", pickle_protocol=protocol)
        with open_checkpoint(tmp_path / "m.pt") as source:
            assert {r.path: source.read(r) for r in source.refs} == {
                ("_parameters", "weight"): raw(model.weight),
                ("_parameters", "bias"): raw(model.bias),
            }
            assert [(p.code, p.keys) for p in source.problems] == [
                ("foreign-object", ("torch.nn.modules.linear.Linear",))
            ]


@pytest.mark.case(78)
def test_tensors_that_hold_no_plain_values(tmp_path):
    sparse = torch.eye(3).to_sparse()
    torch.save({"meta": torch.zeros(2, device="meta"), "sparse": sparse, "w": torch.ones(2)}, tmp_path / "x.pt")
    with open_checkpoint(tmp_path / "x.pt") as source:
        assert "w" in [r.key for r in source.refs]
        assert {p.code: p.keys for p in source.problems}["missing-tensor"] == ("meta",)
        assert "foreign-object" in [p.code for p in source.problems]


def test_saved_without_checksums(tmp_path):
    torch.serialization.set_crc32_options(False)
    try:
        torch.save({"w": torch.ones(3)}, tmp_path / "x.pt")
    finally:
        torch.serialization.set_crc32_options(True)
    with open_checkpoint(tmp_path / "x.pt") as source:
        assert source.checksums == {}


def stored(key, dtype, shape, record, **more):
    return StoredTensor(TensorSpec(key, dtype, shape), record, **more)


def write_torch(path, tree, root="archive"):
    made = layout(tree, root)
    data = {record: os.urandom(size) for record, size in made.sizes.items()}
    crcs = {record: zlib.crc32(content) for record, content in data.items()}
    with open(path, "wb") as file:
        file.truncate(made.nbytes)
        for offset, content in [(made.offsets[r], c) for r, c in data.items()] + list(made.patches(crcs)):
            file.seek(offset)
            file.write(content)
    assert path.stat().st_size == made.nbytes
    return made, data


@pytest.mark.parametrize("mapped", [False, True])
def test_layout_loads_in_torch(tmp_path, mapped):
    model = StateDict(a=stored("a", "fp32", (2, 3), "0"), tied=stored("tied", "fp32", (2, 3), "0"))
    model |= {"f8": stored("f8", "fp8_e4m3", (4,), "1"), "u16": stored("u16", "u16", (4,), "2")}
    model |= {"empty": stored("e", "bf16", (0, 5), "3"), "one": stored("s", "i64", (), "4", requires_grad=True)}
    model |= {"bits": stored("v", "i32", (6,), "0"), "grad": stored("g", "fp16", (2,), "5", requires_grad=True)}
    model.attributes = {"_metadata": {"": {"version": 1}}}
    plain = {
        "b": b"ab\xff",
        "none": b"",
        "set": {1, 2},
        "c": 1 + 2j,
        "f": 1.5,
        "t": (1, [2, None, True]),
        1: 2,
        (1, 2): 3,
    }
    plain |= {"ints": [0, 255, 256, 65535, 65536, -1, -(1 << 31), 1 << 31, 1 << 63, -(1 << 63)], "é": "\u2028", "": {}}
    torch_values = {"size": TorchSize((1, 2)), "dtype": TorchDType("float16"), "device": TorchDevice(("cuda", 1))}
    path = tmp_path / "x.pt"
    made, data = write_torch(path, {"model": model, **plain, **torch_values})
    loaded = torch.load(path, weights_only=True, mmap=mapped)
    assert {k: loaded[k] for k in plain} == plain
    assert loaded["size"] == torch.Size([1, 2])
    assert (loaded["dtype"], loaded["device"]) == (torch.float16, torch.device("cuda", 1))
    assert loaded["model"]._metadata == {"": {"version": 1}}
    assert {k: raw(v) for k, v in loaded["model"].items()} == {k: data[v.record] for k, v in model.items()}
    assert loaded["model"]["a"].data_ptr() == loaded["model"]["tied"].data_ptr()
    assert [k for k, v in loaded["model"].items() if v.requires_grad] == ["grad"]
    assert all(offset % 64 == 0 for offset in made.offsets.values())
    assert zipfile.ZipFile(path).testzip() is None


def test_layout_opens_here_and_is_deterministic(tmp_path):
    tree = {"w": stored("w", "fp32", (3,), "0")}
    made, data = write_torch(tmp_path / "x.pt", tree, "consolidated.00")
    assert list(layout(tree, "r").patches({"0": 1})) == list(layout(tree, "r").patches({"0": 1}))
    with open_checkpoint(tmp_path / "x.pt") as source:
        assert source.read(source.refs[0]) == data["0"]
        assert source.readers["x.pt"].region(source.refs[0]) == (made.offsets["0"], 12)
        assert source.checksums == {("x.pt", "0"): (12, zlib.crc32(data["0"]))}


def test_layout_of_more_than_four_gigabytes(tmp_path):
    tree = {"big": stored("big", "u8", (5 << 30,), "0"), "after": stored("after", "u8", (3,), "1")}
    made = layout(tree)
    path = tmp_path / "big.pt"
    with open(path, "wb") as file:
        for offset, content in made.patches({"0": 0, "1": zlib.crc32(b"abc")}):
            file.seek(offset)
            file.write(content)
        file.seek(made.offsets["1"])
        file.write(b"abc")
    assert zipfile.ZipFile(path).read("archive/data/1") == b"abc"
    loaded = torch.load(path, weights_only=True, mmap=True)
    assert bytes(loaded["after"].tolist()) == b"abc"
    assert loaded["big"].numel() == 5 << 30
    with open_checkpoint(path) as source:
        assert source.read(source.refs[1]) == b"abc"


@pytest.mark.parametrize(
    "tree",
    [
        {"x": object()},
        {"x": stored("x", "fp6_e2m3", (4,), "0")},
        {"a": stored("a", "u8", (1,), "0"), "b": stored("b", "u8", (2,), "0")},
        {"x": stored("x", "u8", (1,), "../0")},
        {"x": 1 << 9000},
    ],
)
def test_layout_refuses(tree):
    with pytest.raises(CheckpointError):
        layout(tree)


def test_layout_refuses_endless_nesting():
    tree = []
    tree.append(tree)
    with pytest.raises(CheckpointError) as caught:
        layout(tree)
    assert caught.value.code == "limit-exceeded"
