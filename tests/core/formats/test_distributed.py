"""What torch saves of a model on four ranks, put together again without them: every value as it was."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from ckpt_gui import normalise, write
from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.formats import open_checkpoint

torch = pytest.importorskip("torch")
if not torch.distributed.is_available() or sys.platform == "win32":
    pytest.skip("needs torch.distributed with gloo", allow_module_level=True)

MESHES = ("rows", "columns", "replicas", "hsdp", "grid", "twice", "fsdp-tp", "sharded")
CASES = [
    *((f"dcp/{name}", "dcp") for name in (*MESHES, "async")),
    *((f"ranks/{name}", "fsdp-ranks") for name in MESHES),
    *((f"hf/{name}", "dcp-safetensors") for name in ("rows", "grid", "rows-2")),
]


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("ranks")
    script = Path(__file__).with_name("save_on_ranks.py")
    environment = os.environ | {"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, script, out], env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return out


@pytest.fixture(scope="module")
def whole(saved: Path) -> dict[str, bytes]:
    return {key: raw(tensor) for key, tensor in torch.load(saved / "whole.pt").items()}


def raw(tensor):
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


@pytest.mark.parametrize(("path", "container"), CASES, ids=[path for path, _ in CASES])
def test_every_value_is_as_it_was(saved, whole, path, container):
    with open_checkpoint(saved / path) as source:
        assert source.container == container
        assert {r.key: source.read(r) for r in source.refs} == whole
        # ShardedTensor pickles its device by way of getattr, which a permissive loader would call.
        assert {p.code for p in source.problems} == ({"unsafe-pickle"} if path == "ranks/sharded" else set())


@pytest.mark.parametrize("path", ["dcp/fsdp-tp", "ranks/fsdp-tp", "hf/grid"])
def test_written_as_one_model(saved, whole, path, tmp_path):
    with open_checkpoint(saved / path) as source:
        write(normalise(source), tmp_path / "out", container="safetensors")
    with open_checkpoint(tmp_path / "out") as made:
        assert {r.key: made.read(r) for r in made.refs} == whole


def test_one_file_of_a_rank_says_what_it_is(saved):
    for path in (
        "ranks/fsdp-tp/model_world_size_4_rank_1.pt",
        "hf/rows/shard-00002-model-00001-of-00001.safetensors",
    ):
        with open_checkpoint(saved / path) as source:
            [found] = source.problems
            assert (found.code, found.blocking) == ("partitioned-state", True)
            assert "folder that h" in found.fix


def test_a_missing_rank_of_safetensors_parts(saved, tmp_path):
    for file in (saved / "hf/rows").iterdir():
        if "shard-00003" not in file.name:
            (tmp_path / file.name).symlink_to(file)
    with pytest.raises(CheckpointError) as caught:
        open_checkpoint(tmp_path)
    assert (caught.value.code, "those of 3 are missing" in caught.value.message) == ("shard-missing", True)


def test_flattened_rows_are_not_taken_for_tensors(tmp_path):
    from tests import builders as b
    from tests.core.formats.test_weights_kind import dtensor

    row = dtensor(b.tensor("0", [6]), [12])
    data = b.torch_bytes(b.dict_of({"_fsdp_wrapped_module._flat_param": row}), {"0": np.ones(6, np.float32)})
    for rank in range(2):
        b.write(tmp_path / f"model_world_size_2_rank_{rank}.pt", data)
    with pytest.raises(CheckpointError) as caught:
        open_checkpoint(tmp_path)
    assert "flattened rows" in caught.value.message


def spec(mesh, *placements):
    """A `DTensorSpec` as torch pickles it."""
    from tests import builders as b

    kinds = [
        b.obj(
            b.name("torch.distributed.tensor.placement_types", kind),
            b.dict_of({k: b.number(n) for k, n in state.items()}),
        )
        for kind, state in placements
    ]
    made = b.obj(b.name("torch.distributed.device_mesh", "DeviceMesh"), b.dict_of(mesh))
    fields = b.dict_of({"mesh": made, "placements": b.tuple_of(*kinds)})
    return b.obj(b.name("torch.distributed.tensor._dtensor_spec", "DTensorSpec"), fields)


def numbers(*values):
    from tests import builders as b

    return b.tuple_of(*map(b.number, values))


def older_mesh(place):
    """Before torch 2.9 a mesh is described by the tensor of its ranks."""
    from tests import builders as b

    return {"mesh": b.tensor("1", [2, 2]), "_coordinate_on_dim": numbers(*place)}


def mesh_of_2_9(place):
    from tests import builders as b

    shape = b.dict_of({"shape": numbers(2, 2), "stride": numbers(2, 1)})
    layout = b.obj(b.name("torch.distributed._mesh_layout", "_MeshLayout"), shape)
    return {"_layout": layout, "_coordinate_on_dim": numbers(*place)}


@pytest.mark.parametrize("mesh", [older_mesh, mesh_of_2_9])
def test_meshes_as_older_torch_spells_them(tmp_path, mesh):
    from tests import builders as b
    from tests.core.formats.test_weights_kind import dtensor

    whole = np.arange(28, dtype=np.float32).reshape(7, 4)
    for rank in range(4):
        place = divmod(rank, 2)
        rows = np.concatenate([pieces[place[0]] for pieces in _pieces(whole)])
        half = rows[: -(-len(rows) // 2)] if place[1] == 0 else rows[-(-len(rows) // 2) :]
        said = spec(mesh(place), ("_StridedShard", {"dim": 0, "split_factor": 2}), ("Shard", {"dim": 0}))
        body = b.dict_of({"w": dtensor(b.tensor("0", half.shape), whole.shape, said)})
        data = b.torch_bytes(body, {"0": np.ascontiguousarray(half), "1": np.arange(4, dtype=np.float32)})
        b.write(tmp_path / f"model_world_size_4_rank_{rank}.pt", data)
    with open_checkpoint(tmp_path) as source:
        assert {r.key: source.read(r) for r in source.refs} == {"w": whole.tobytes()}


def _pieces(whole):
    """Cut into two by tensor parallelism, each of which is cut into two by FSDP: torch's chunks, rounded up."""
    return [[half[: -(-len(half) // 2)], half[-(-len(half) // 2) :]] for half in (whole[:4], whole[4:])]


def test_nested_states_without_end(tmp_path):
    """A state is looked at one level deep, whatever a hostile pickle nests."""
    from tests import builders as b

    deep = b"N" + b"N\x86" * 100_000
    kind = b.name("torch.distributed.tensor", "DTensor")
    args = b.tuple_of(kind, b.name("torch", "float32"), b.tuple_of(b.number(2)))
    rebuild = b.name("torch._utils", "_rebuild_wrapper_subclass")
    made = b.call(b.name("torch._tensor", "_rebuild_from_type_v2"), rebuild, kind, args, deep)
    data = b.torch_bytes(b.dict_of({"w": made, "v": b.tensor("0", [2])}), {"0": np.ones(2, np.float32)})
    with pytest.raises(CheckpointError) as caught:
        open_checkpoint(b.write(tmp_path / "x.pt", data))
    assert caught.value.code == "limit-exceeded"
