"""Torch archives that are packed, written the other way round, or hold a program: equal to what torch loads."""

from __future__ import annotations

import io
import random
import zipfile

import numpy as np
import pytest

from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.formats import inflate, open_checkpoint
from tests import builders as b

torch = pytest.importorskip("torch")

DTYPES = ["bfloat16", "float32", "float64", "int8", "bool", "int16", "int64", "complex64", "complex128", "float8_e5m2"]


def raw(tensor):
    flat = tensor.detach().contiguous().reshape(-1)
    return flat.clone().view(torch.uint8).numpy().tobytes() if flat.numel() else b""


def repack(data, method, change=lambda name, content: content):
    """The same archive with its records packed, and changed."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(out, "w", method) as new:
        for info in old.infolist():
            new.writestr(info.filename, change(info.filename, old.read(info)))
    return out.getvalue()


def saved(value, **options):
    out = io.BytesIO()
    torch.save(value, out, **options)
    return out.getvalue()


def tensors():
    w = torch.arange(60_000, dtype=torch.float32).reshape(200, 300)
    made = {"w": w, "t": w.t(), "slice": w[3:9, ::7], "tied": w, "empty": torch.zeros(0, 3)}
    return made | {d: torch.arange(7).to(getattr(torch, d)) for d in DTYPES}


@pytest.mark.case(62)
def test_deflated_storages_have_right_values(tmp_path, monkeypatch):
    monkeypatch.setattr(inflate, "SPAN", 10_000)  # many spans in a small record
    path = b.write(tmp_path / "x.pt", repack(saved(tensors()), zipfile.ZIP_DEFLATED))
    expected = torch.load(path)
    with open_checkpoint(path) as source:
        assert source.problems == ()
        assert source.container == "torch-zip"
        for ref in source.refs:
            want = raw(expected[ref.key])
            assert source.read(ref) == want
            for start in random.Random(1).choices(range(len(want) + 1), k=20):  # forwards and back
                stop = min(start + 11_000, len(want))
                assert source.read(ref, start, stop) == want[start:stop]
        assert len(source.checksums) == 1 + 1 + len(DTYPES)


@pytest.mark.case(62)
def test_a_damaged_deflated_storage_is_an_error_not_garbage(tmp_path):
    data = bytearray(repack(saved({"w": torch.randn(5000)}), zipfile.ZIP_DEFLATED))
    at = data.index(b"data/0") + 300
    data[at : at + 200] = bytes(200)
    with open_checkpoint(b.write(tmp_path / "x.pt", bytes(data))) as source, pytest.raises(CheckpointError) as caught:
        source.read(source.refs[0])
    assert caught.value.code in ("damaged", "crc-mismatch")


def test_a_deflated_storage_that_claims_more_than_it_holds(tmp_path):
    w = np.arange(4, dtype=np.float32)
    data = bytearray(b.torch_bytes(b.tensor("0", [9]), {"0": w}, compression=zipfile.ZIP_DEFLATED))
    local, central = data.index(b"archive/data/0") - 30, data.rindex(b"archive/data/0") - 46
    data[local + 22] = data[central + 24] = 36
    path = b.write(tmp_path / "x.pt", bytes(data))
    with open_checkpoint(path) as source, pytest.raises(CheckpointError, match="inflate"):
        source.read(source.refs[0])


@pytest.mark.case(63)
def test_a_bomb_of_a_storage_stops_at_the_cap(tmp_path, monkeypatch):
    monkeypatch.setattr("ckpt_gui.core.formats.zip_archive.MAX_INFLATED", 1 << 16)
    data = repack(saved({"w": torch.zeros(1 << 20)}), zipfile.ZIP_DEFLATED)
    with pytest.raises(CheckpointError) as caught:
        open_checkpoint(b.write(tmp_path / "x.pt", data))
    assert caught.value.code == "limit-exceeded"


@pytest.mark.case(70)
def test_big_endian_numbers_are_swapped(tmp_path):
    made = tensors()
    widths = {"w": 4} | {d: getattr(torch, d).itemsize for d in DTYPES} | {"complex64": 4, "complex128": 8}
    order = list(dict.fromkeys([k for k in made if k not in ("t", "slice", "tied", "empty")]))

    def change(name, content):
        if name.endswith("/byteorder"):
            return b"big"
        number = name.rpartition("/data/")[2]
        if not number.isdigit() or not content:
            return content
        index = int(number)
        key = "w" if index == 0 else order[index - 1] if index > 1 else None
        return np.frombuffer(content, f"u{widths[key]}").byteswap().tobytes() if key else content

    path = b.write(tmp_path / "x.pt", repack(saved(made), zipfile.ZIP_STORED, change))
    expected = torch.load(path)
    assert torch.equal(expected["w"], made["w"])
    with open_checkpoint(path) as source:
        assert source.checksums == {}
        for ref in source.refs:
            want = raw(made[ref.key])
            assert source.read(ref) == want
            if want:
                assert source.read(ref, 1, len(want) - 2) == want[1:-2]


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(3, 4)
        self.rest = torch.nn.Sequential(torch.nn.LayerNorm(4), torch.nn.Linear(4, 2, bias=False))
        self.register_buffer("scale", torch.ones(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.rest(self.first(x)) * self.scale


@pytest.mark.case(82)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_torchscript_weights_are_listed(tmp_path):
    net = Net()
    torch.jit.save(torch.jit.trace(net, torch.ones(1, 3)), str(tmp_path / "x.pt"))
    with open_checkpoint(tmp_path / "x.pt") as source:
        assert source.container == "torchscript"
        assert [(p.code, p.severity) for p in source.problems] == [("legacy-container", "info")]
        assert {r.path: source.read(r) for r in source.refs} == {(k,): raw(v) for k, v in net.state_dict().items()}
