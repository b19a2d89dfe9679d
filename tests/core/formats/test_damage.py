"""Damaged files: what is whole can be listed when asked for, and checksums are compared when asked for."""

from __future__ import annotations

import io
import zipfile

import numpy as np
import pytest

from ckpt_gui.core.errors import Cancelled, CheckpointError
from ckpt_gui.core.formats import open_checkpoint
from ckpt_gui.core.formats.verify import verify_checksums
from tests import builders as b
from tests.core.formats.test_torch_legacy import stream

torch = pytest.importorskip("torch")

ARRAYS = {f"layers.{i}.weight": np.arange(i * 7, i * 7 + 50, dtype=np.float32) for i in range(6)}


def torch_zip(legacy=False):
    out = io.BytesIO()
    value = {"model": {k: torch.tensor(a) for k, a in ARRAYS.items()}, "step": 3}
    torch.save(value, out, _use_new_zipfile_serialization=not legacy)
    return out.getvalue()


def by_hand():
    return b.torch_bytes(
        b.dict_of({k: b.tensor(str(i), a.shape) for i, (k, a) in enumerate(ARRAYS.items())}),
        {str(i): a for i, a in enumerate(ARRAYS.values())},
    )


def deflated():
    body = b.dict_of({k: b.tensor(str(i), a.shape) for i, (k, a) in enumerate(ARRAYS.items())})
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("a/data.pkl", b.pickled(body))
        for i, array in enumerate(ARRAYS.values()):
            archive.writestr(f"a/data/{i}", array.tobytes(), zipfile.ZIP_DEFLATED)
    return out.getvalue()


FILES = {
    "safetensors": b.safetensors_bytes(ARRAYS, {"format": "pt"}),
    "torch": torch_zip(),
    "torch legacy": torch_zip(legacy=True),
    "zip by hand": by_hand(),
    "zip deflated": deflated(),
}


@pytest.mark.case(20, 71)
@pytest.mark.parametrize("kind", FILES)
def test_salvage_of_every_cut(tmp_path, kind):
    good = FILES[kind]
    most, counts = 0, set()
    for cut in range(8, len(good), 37):
        path = b.write(tmp_path / "x.bin", good[:cut])
        with pytest.raises(CheckpointError):
            open_checkpoint(path)
        try:
            source = open_checkpoint(path, salvage=True)
        except CheckpointError as error:
            assert error.code in ("truncated", "damaged", "not-a-checkpoint")  # noqa: PT017 - either is right
            assert not counts
            continue
        with source:
            counts.add(len(source.refs))
            assert all(source.read(r) == ARRAYS[r.key].tobytes() for r in source.refs)
            lost = [p for p in source.problems if p.code == "truncated"]
            named = {key.removeprefix("model.") for p in lost for key in p.keys}
            assert named | {r.key for r in source.refs} == set(ARRAYS)
            assert all(p.blocking for p in lost)
            assert len(source.refs) >= most
            most = len(source.refs)
    assert counts >= {0, 1, 2, 3, 4, 5}


@pytest.mark.parametrize("kind", ["safetensors", "torch", "torch legacy"])
def test_what_is_cut_short_suggests_salvage(tmp_path, kind):
    with pytest.raises(CheckpointError) as caught:
        open_checkpoint(b.write(tmp_path / "x.bin", FILES[kind][:-60]))
    assert (caught.value.code, "fix --salvage" in caught.value.fix) == ("truncated", True)


def test_salvage_is_only_for_damage(tmp_path):
    for kind, data in FILES.items():
        with open_checkpoint(b.write(tmp_path / "x.bin", data), salvage=True) as source:
            assert {r.key: source.read(r) for r in source.refs} == {k: a.tobytes() for k, a in ARRAYS.items()}, kind
            assert not any(p.code == "truncated" for p in source.problems)
    for data in (b"<html>", b.LFS_POINTER, b"", bytes(5000)):
        with pytest.raises(CheckpointError):
            open_checkpoint(b.write(tmp_path / "x.bin", data), salvage=True)


@pytest.mark.case(17)
def test_salvage_of_holes_and_overlaps(tmp_path):
    header = {"a": b.entry("U8", [4], 0, 4), "b": b.entry("U8", [4], 6, 10), "c": b.entry("U8", [4], 8, 12)}
    header |= {"d": b.entry("U8", [2], 12, 14), "e": b.entry("U8", [0], 0, 0)}
    path = b.write(tmp_path / "x.safetensors", b.raw_safetensors(header, bytes(range(14))))
    with open_checkpoint(path, salvage=True) as source:
        assert {r.key: source.read(r) for r in source.refs} == {"a": bytes(range(4)), "d": b"\x0c\x0d", "e": b""}
        assert next(p for p in source.problems if p.code == "truncated").keys == ("b", "c")


def test_salvage_of_one_shard_of_many(tmp_path):
    names = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")
    data = [b.safetensors_bytes({k: ARRAYS[k] for k in half}, {"format": "pt"}) for half in HALVES]
    b.write(tmp_path / names[0], data[0])
    b.write(tmp_path / names[1], data[1][:-10])
    weight_map = {key: name for name, half in zip(names, HALVES, strict=True) for key in half}
    b.write(tmp_path / "model.safetensors.index.json", b.index_bytes(weight_map))
    with open_checkpoint(tmp_path, salvage=True) as source:
        assert len(source.refs) == 5
        assert [p.keys for p in source.problems if p.code == "truncated"] == [("layers.5.weight",)]


HALVES = (list(ARRAYS)[:3], list(ARRAYS)[3:])


# ---- checksums


def codes(findings):
    return [(f.code, f.severity) for f in findings]


@pytest.mark.parametrize("kind", ["torch", "zip by hand", "zip deflated"])
def test_whole_files_fit_their_checksums(tmp_path, kind):
    seen = []
    with open_checkpoint(b.write(tmp_path / "x.pt", FILES[kind])) as source:
        assert verify_checksums(source, lambda *step: seen.append(step)) == []
        assert seen[-1][1] == seen[-1][2] > 1200
        with pytest.raises(Cancelled):
            verify_checksums(source, cancelled=lambda: True)


@pytest.mark.case(66)
@pytest.mark.parametrize("kind", ["torch", "zip by hand"])
def test_a_flipped_byte_names_its_tensor(tmp_path, kind):
    data = bytearray(FILES[kind])
    at = data.index(ARRAYS["layers.3.weight"].tobytes()) + 30
    data[at] ^= 4
    with open_checkpoint(b.write(tmp_path / "x.pt", bytes(data))) as source:
        [found] = verify_checksums(source)
        assert (found.code, found.severity, found.blocking) == ("crc-mismatch", "error", True)
        assert [key.removeprefix("model.") for key in found.keys] == ["layers.3.weight"]
        assert torch.load(tmp_path / "x.pt") is not None  # which torch does not notice


def test_a_damaged_local_header_names_its_tensor(tmp_path):
    data = bytearray(FILES["zip by hand"])
    data[data.index(b"archive/data/2") - 30] ^= 1
    with open_checkpoint(b.write(tmp_path / "x.pt", bytes(data))) as source:
        assert [f.keys for f in verify_checksums(source)] == [("layers.2.weight",)]


@pytest.mark.case(66)
def test_a_damaged_header_of_an_empty_record(tmp_path):
    data = bytearray(b.torch_bytes(b.dict_of({"none": b.tensor("0", [0])}), {"0": b""}))
    data[data.index(b"archive/data/0") - 30] ^= 1
    with open_checkpoint(b.write(tmp_path / "x.pt", bytes(data))) as source:
        assert [f.keys for f in verify_checksums(source)] == [("none",)]


@pytest.mark.case(66)
def test_written_without_checksums(tmp_path):
    torch.serialization.set_crc32_options(False)
    try:
        torch.save({"w": torch.ones(3)}, tmp_path / "x.pt")
    finally:
        torch.serialization.set_crc32_options(True)
    with open_checkpoint(tmp_path / "x.pt") as source:
        assert codes(verify_checksums(source)) == [("no-checksums", "info")]


def test_formats_without_checksums_say_so(tmp_path):
    for data in (FILES["safetensors"], FILES["torch legacy"], stream(b.dict_of({}), {})):
        with open_checkpoint(b.write(tmp_path / "x.bin", data)) as source:
            assert codes(verify_checksums(source)) == [("no-checksums", "info")]


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_checksums_of_distributed_checkpoints(tmp_path):
    import torch.distributed.checkpoint as dcp

    dcp.save({"w": torch.arange(50.0), "v": torch.ones(3)}, checkpoint_id=tmp_path / "c")
    path = tmp_path / "c/__0_0.distcp"
    with open_checkpoint(tmp_path / "c") as source:
        assert verify_checksums(source) == []
    data = bytearray(path.read_bytes())
    data[data.index(torch.arange(50.0).numpy().tobytes()) + 9] ^= 1
    path.write_bytes(data)
    with open_checkpoint(tmp_path / "c") as source:
        assert [f.keys for f in verify_checksums(source)] == [("w",)]


@pytest.mark.case(38)
def test_an_archive_hidden_in_a_tensor_is_noted(tmp_path):
    hidden = np.frombuffer(by_hand(), np.uint8)
    path = b.write(tmp_path / "x.safetensors", b.safetensors_bytes({"a": hidden, "w": ARRAYS["layers.0.weight"]}))
    with open_checkpoint(path) as source:
        found = [f for f in verify_checksums(source) if f.code == "foreign-object"]
        assert [f.keys for f in found] == [("a",)]


TAILS = {
    "zeros": (bytes(100), "zeros"),
    "archive": (FILES["zip by hand"], "a zip archive"),
    "text": (b"<html>an error page of some length</html>", "text"),
    "noise": (bytes(range(256)), "neither text nor zeros"),
}


@pytest.mark.case(19)
@pytest.mark.parametrize(("tail", "words"), TAILS.values(), ids=TAILS)
@pytest.mark.parametrize("kind", ["safetensors", "torch legacy"])
def test_trailing_bytes_are_described(tmp_path, kind, tail, words):
    with open_checkpoint(b.write(tmp_path / "x.bin", FILES[kind] + tail)) as source:
        [found] = [p for p in source.problems if p.code == "trailing-bytes"]
        assert f"{len(tail):,} bytes" in found.message
        assert words in found.message
        assert len(source.refs) == 6
