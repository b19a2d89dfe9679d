"""Distributed torch checkpoints: equal to what torch's own loader makes of them."""

from __future__ import annotations

import io
import pickle
import random
import shutil

import pytest

from ckpt_gui import normalise, write
from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.formats import open_checkpoint
from tests import builders as b

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning", "ignore::DeprecationWarning")


def raw(tensor):
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def save_parts(folder, tensors, cuts, files=2):
    """A checkpoint of several ranks by hand, of torch's own classes: each tensor cut into boxes (offsets, sizes)."""
    from torch.distributed.checkpoint import metadata as m
    from torch.distributed.checkpoint.filesystem import _StorageInfo

    folder.mkdir()
    described, stored, data = {}, {}, [b""] * files
    for number, (key, tensor) in enumerate(tensors.items()):
        fqn, chunks = f"model.{key}", []
        for at, (offsets, sizes) in enumerate(cuts[key]):
            part = tensor[tuple(slice(o, o + n) for o, n in zip(offsets, sizes, strict=True))]
            out = io.BytesIO()
            torch.save(part.t().contiguous().t() if at % 2 and part.dim() == 2 else part.clone(), out)
            which = (number + at) % files
            place = _StorageInfo(f"__{which}_0.distcp", len(data[which]), len(out.getvalue()))
            data[which] += out.getvalue()
            stored[m.MetadataIndex(fqn, torch.Size(offsets))] = place
            chunks.append(m.ChunkStorageMetadata(torch.Size(offsets), torch.Size(sizes)))
        kind = m.TensorProperties(dtype=tensor.dtype)
        described[fqn] = m.TensorStorageMetadata(kind, tensor.shape, chunks)
    made = m.Metadata(described, {f"model.{key}": ("model", key) for key in tensors}, stored)
    (folder / ".metadata").write_bytes(pickle.dumps(made))
    for number, content in enumerate(data):
        (folder / f"__{number}_0.distcp").write_bytes(content)


W = torch.arange(7 * 11 * 3, dtype=torch.float32).reshape(7, 11, 3)
TENSORS = {"rows": W.reshape(7, 33), "grid": W, "columns": W[:, :, 0].to(torch.bfloat16), "one": torch.tensor(3.0)}
CUTS = {
    "rows": [((0, 0), (3, 33)), ((3, 0), (0, 33)), ((3, 0), (4, 33))],
    "grid": [((0, 0, 0), (4, 5, 3)), ((0, 5, 0), (4, 6, 3)), ((4, 0, 0), (3, 11, 1)), ((4, 0, 1), (3, 11, 2))],
    "columns": [((0, 0), (7, 1)), ((0, 1), (7, 9)), ((0, 10), (7, 1))],
    "one": [((), ())],
}


def test_boxes_equal_to_torch(tmp_path):
    from torch.distributed.checkpoint.format_utils import dcp_to_torch_save

    save_parts(tmp_path / "c", TENSORS, CUTS)
    dcp_to_torch_save(tmp_path / "c", tmp_path / "x.pt")
    loaded = torch.load(tmp_path / "x.pt")["model"]
    for path in (tmp_path / "c", tmp_path / "c/.metadata"):
        with open_checkpoint(path) as source:
            assert (source.container, source.problems) == ("dcp", ())
            assert {r.path for r in source.refs} == {("model", key) for key in TENSORS}
            for ref in source.refs:
                want = raw(loaded[ref.key])
                assert source.read(ref) == want == raw(TENSORS[ref.key])
                for _ in range(40):
                    start, stop = sorted(random.choices(range(len(want) + 1), k=2))
                    assert source.read(ref, start, stop) == want[start:stop]


def test_saved_by_torch(tmp_path):
    import torch.distributed.checkpoint as dcp

    model = {"embed.weight": torch.randn(5, 4), "t": torch.randn(3, 2).t(), "tied": torch.ones(2)}
    state = {"model": model, "optimizer": {"state": {"embed.weight": {"exp_avg": torch.zeros(5, 4)}}}, "step": 3}
    dcp.save(state, checkpoint_id=tmp_path / "c")
    with open_checkpoint(tmp_path / "c") as source:
        assert source.problems == ()
        assert {r.key: source.read(r) for r in source.refs if r.section == ("model",)} == {
            key: raw(tensor) for key, tensor in model.items()
        }
        assert ("optimizer", "state", "embed.weight", "exp_avg") in {r.path for r in source.refs}
        assert [e.path for e in source.extras] == [("step",)]
        write(normalise(source), tmp_path / "out", container="safetensors")
    with open_checkpoint(tmp_path / "out") as made:
        assert {r.key: made.read(r) for r in made.refs} == {key: raw(tensor) for key, tensor in model.items()}


@pytest.mark.parametrize("cuts", [[((0, 0), (0, 5))], [((0, 0), (0, 2)), ((0, 2), (0, 3))]])
def test_a_tensor_without_elements(tmp_path, cuts):
    save_parts(tmp_path / "c", {"none": torch.zeros(0, 5), "one": torch.ones(1)}, {"none": cuts, "one": [((0,), (1,))]})
    with open_checkpoint(tmp_path / "c") as source:
        assert [(r.key, r.shape, source.read(r)) for r in source.refs if r.key == "none"] == [("none", (0, 5), b"")]
        assert source.problems == ()


def test_a_missing_or_short_part_names_its_tensors(tmp_path):
    save_parts(tmp_path / "c", TENSORS, CUTS)
    shutil.copytree(tmp_path / "c", tmp_path / "d")
    (tmp_path / "c/__1_0.distcp").unlink()
    (tmp_path / "d/__1_0.distcp").write_bytes((tmp_path / "d/__1_0.distcp").read_bytes()[:-1])
    for name in "cd":
        with open_checkpoint(tmp_path / name) as source:
            [found] = source.problems
            assert (found.code, found.blocking) == ("shard-missing", True)
            assert "__1_0.distcp" in found.message
            assert {key.removeprefix("model.") for key in found.keys} | {r.key for r in source.refs} == {*TENSORS}


def test_a_part_that_is_another_tensor(tmp_path):
    save_parts(tmp_path / "c", {"a": W[0], "b": W[0]}, {"a": [((0, 0), (11, 3))], "b": [((0, 0), (11, 3))]})
    out = io.BytesIO()
    torch.save(torch.zeros(3, 11), out)
    (tmp_path / "c/__0_0.distcp").write_bytes(out.getvalue())
    with open_checkpoint(tmp_path / "c") as source, pytest.raises(CheckpointError) as caught:
        source.read(next(r for r in source.refs if r.key == "a"))
    assert caught.value.code == "damaged"


BAD_CUTS = {
    "hole": [((0, 0), (3, 33)), ((4, 0), (3, 33))],
    "overlap": [((0, 0), (4, 33)), ((3, 0), (4, 33))],
    "overlap and hole": [((0, 0), (4, 33)), ((2, 0), (3, 33))],
    "outside": [((0, 0), (8, 33))],
    "other dimensions": [((0,), (7,))],
}


@pytest.mark.parametrize("cut", BAD_CUTS.values(), ids=BAD_CUTS)
def test_boxes_that_do_not_fit(tmp_path, cut):
    save_parts(tmp_path / "c", {"rows": TENSORS["rows"]}, {"rows": cut})
    with pytest.raises(CheckpointError) as caught:
        open_checkpoint(tmp_path / "c")
    assert caught.value.code == "damaged"
    assert "`model.rows`" in caught.value.message


def test_a_file_name_that_leads_out(tmp_path):
    save_parts(tmp_path / "c", {"one": TENSORS["one"]}, {"one": [((), ())]})
    data = (tmp_path / "c/.metadata").read_bytes()
    (tmp_path / "c/.metadata").write_bytes(data.replace(b"__0_0.distcp", b"../../.distc"))
    with pytest.raises(CheckpointError) as caught:
        open_checkpoint(tmp_path / "c")
    assert caught.value.code == "index-unsafe"


def test_an_attack_in_the_metadata_does_not_run(tmp_path):
    canary = tmp_path / "canary"
    attack = b.call(b.name("posix", "system"), b.text(f"touch {canary}"))
    (tmp_path / "c").mkdir()
    b.write(tmp_path / "c/.metadata", b.pickled(attack))
    with pytest.raises(CheckpointError, match=r"names posix\.system\..*It is damaged, too") as caught:
        open_checkpoint(tmp_path / "c")
    assert caught.value.code == "unsafe-pickle"
    assert not canary.exists()


def test_mutated_metadata(tmp_path):
    save_parts(tmp_path / "c", TENSORS, CUTS)
    good = (tmp_path / "c/.metadata").read_bytes()
    rng = random.Random(5)
    for _ in range(300):
        data = bytearray(good)
        data[rng.randrange(len(data))] = rng.randrange(256)
        b.write(tmp_path / "c/.metadata", bytes(data))
        try:
            with open_checkpoint(tmp_path / "c") as source:
                for ref in source.refs:
                    if ref.nbytes < 1 << 16:
                        source.read(ref)
        except CheckpointError:
            pass


def test_the_wrong_level_says_which_to_open(tmp_path):
    (tmp_path / "checkpoint-20").mkdir()
    save_parts(tmp_path / "checkpoint-20/pytorch_model_fsdp_0", {"one": TENSORS["one"]}, {"one": [((), ())]})
    with pytest.raises(CheckpointError) as caught:
        open_checkpoint(tmp_path / "checkpoint-20")
    assert "pytorch_model_fsdp_0" in caught.value.fix
    with pytest.raises(CheckpointError) as caught:
        open_checkpoint(tmp_path / "checkpoint-20/pytorch_model_fsdp_0/__0_0.distcp")
    assert "folder" in caught.value.fix


def test_the_config_beside_the_folder_is_found(tmp_path):
    for path, config in (("a/pytorch_model_fsdp_0", "a"), ("b", "b/huggingface"), ("c/other", "c")):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        save_parts(tmp_path / path, {"one": TENSORS["one"]}, {"one": [((), ())]})
        (tmp_path / config).mkdir(exist_ok=True)
        b.write(tmp_path / config / "config.json", b'{"model_type": "llama"}')
        with open_checkpoint(tmp_path / path) as source:
            assert (source.sidecars.config is not None) == (path != "c/other")


def test_of_several_checkpoints_the_last_is_proposed(tmp_path):
    for number in (9, 10, 2):
        (tmp_path / f"checkpoint-{number}").mkdir()
        b.write(tmp_path / f"checkpoint-{number}/model.safetensors", b.safetensors_bytes({}))
    with pytest.raises(CheckpointError) as caught:
        open_checkpoint(tmp_path)
    assert "checkpoint-10" in caught.value.fix


def test_one_list_of_parts_shared_by_many_tensors(tmp_path):
    """A small file that would take hours: thousands of tensors that share a list of hundreds of parts."""
    from torch.distributed.checkpoint import metadata as m

    spots = [(i // 32, i % 32) for i in range(32 * 15)]
    chunks = [m.ChunkStorageMetadata(torch.Size(spot), torch.Size([1, 1])) for spot in spots]
    chunks.append(m.ChunkStorageMetadata(torch.Size([15, 0]), torch.Size([1, 32])))  # and so it is no grid
    kind = m.TensorProperties(dtype=torch.float32)
    size = torch.Size([16, 32])
    described = {f"w{i}": m.TensorStorageMetadata(kind, size, chunks) for i in range(2000)}
    b.write(tmp_path / ".metadata", pickle.dumps(m.Metadata(described, {}, {})))
    with pytest.raises(CheckpointError) as caught:
        open_checkpoint(tmp_path)
    assert caught.value.code == "limit-exceeded"


@pytest.mark.parametrize("cuts", [[((0, 0), (2, 3)), ((0, 3), (1, 3)), ((1, 3), (1, 3))], [((0, 0), (2, 6))]])
def test_parts_that_are_no_grid(tmp_path, cuts):
    tensor = torch.arange(12.0).reshape(2, 6)
    save_parts(tmp_path / "c", {"w": tensor}, {"w": cuts})
    with open_checkpoint(tmp_path / "c") as source:
        assert source.read(source.refs[0]) == raw(tensor)


def test_a_grid_of_many_parts_opens_at_once(tmp_path):
    from torch.distributed.checkpoint import metadata as m

    cells = [((i // 32, 2 * (i % 32)), (1, 2)) for i in range(32 * 32)]
    chunks = [m.ChunkStorageMetadata(torch.Size(at), torch.Size(size)) for at, size in cells]
    kind = m.TensorProperties(dtype=torch.float32)
    described = {f"w{i}": m.TensorStorageMetadata(kind, torch.Size([32, 64]), chunks) for i in range(100)}
    b.write(tmp_path / ".metadata", pickle.dumps(m.Metadata(described, {}, {})))
    with open_checkpoint(tmp_path) as source:
        assert [p.code for p in source.problems] == ["shard-missing"]


def test_packed_parts_are_named(tmp_path):
    from torch.distributed.checkpoint import metadata as m
    from torch.distributed.checkpoint.filesystem import _StorageInfo

    tensor = m.TensorStorageMetadata(
        m.TensorProperties(dtype=torch.float32),
        torch.Size([2]),
        [m.ChunkStorageMetadata(torch.Size([0]), torch.Size([2]))],
    )
    place = _StorageInfo("__0_0.distcp", 0, 9, ["stream.zstd/1"])
    made = m.Metadata({"w": tensor}, {}, {m.MetadataIndex("w", torch.Size([0])): place})
    b.write(tmp_path / ".metadata", pickle.dumps(made))
    with pytest.raises(CheckpointError) as caught:
        open_checkpoint(tmp_path)
    assert "packed (stream.zstd/1)" in caught.value.message
    assert "damaged" not in caught.value.message
