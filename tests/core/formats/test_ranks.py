"""States cut into a file a rank: put together where they say how, else named."""

from __future__ import annotations

import random

import numpy as np
import pytest

from ckpt_gui import normalise, write
from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.formats import open_checkpoint
from tests import builders as b
from tests.core.formats.test_weights_kind import dtensor

torch = pytest.importorskip("torch")

W = np.arange(28, dtype=np.float32).reshape(7, 4)


def raw(tensor):
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def refused(path):
    with pytest.raises(CheckpointError) as caught:
        open_checkpoint(path)
    return caught.value


# ---- one file a rank, of distributed tensors


def rank_file(rows, columns, norm):
    """One rank's parts of a tensor cut by rows, one cut by columns, and one that every rank has whole."""
    parts = {"rows": (rows, W.shape), "columns": (columns, W.shape), "norm": (norm, norm.shape)}
    made = {k: dtensor(b.tensor(k, p.shape), whole) for k, (p, whole) in parts.items()}
    return b.torch_bytes(b.dict_of(made), {k: np.ascontiguousarray(p) for k, (p, _) in parts.items()})


def rank_files(folder, world=4):
    folder.mkdir()
    for rank in range(world):
        columns = np.array_split(W, world, 1)[rank]
        data = rank_file(W[rank * 2 : rank * 2 + 2], columns, W[0])
        b.write(folder / f"model_world_size_{world}_rank_{rank}.pt", data)
        b.write(folder / f"optim_world_size_{world}_rank_{rank}.pt", data)
    return folder


def test_distributed_tensors_are_put_together(tmp_path):
    with open_checkpoint(rank_files(tmp_path / "m")) as source:
        assert (source.container, source.problems) == ("fsdp-ranks", ())
        assert {r.key: source.read(r) for r in source.refs} == {
            "rows": W.tobytes(),
            "columns": W.tobytes(),
            "norm": W[0].tobytes(),
        }
        write(normalise(source), tmp_path / "out", container="safetensors")
    with open_checkpoint(tmp_path / "out") as made:
        assert {made.read(r) for r in made.refs} == {W.tobytes(), W[0].tobytes()}


def test_missing_ranks_are_named(tmp_path):
    folder = rank_files(tmp_path / "m")
    for rank in (1, 3):
        (folder / f"model_world_size_4_rank_{rank}.pt").unlink()
    error = refused(folder)
    assert error.code == "shard-missing"
    assert "2 are missing: 1, 3" in error.message


def test_parts_that_do_not_add_up(tmp_path):
    folder = rank_files(tmp_path / "m")
    b.write(folder / "model_world_size_4_rank_2.pt", rank_file(W[:1], W[:, :1], W[0]))
    error = refused(folder)
    assert error.code == "partitioned-state"
    assert "`rows`" in error.message


def test_flattened_rows_of_ranks(tmp_path):
    for rank in range(2):
        b.write(tmp_path / f"rank{rank}.pth", b.state_dict_bytes({"_fsdp_wrapped_module._flat_param": W[0]}))
    error = refused(tmp_path)
    assert error.code == "partitioned-state"
    assert "2 ranks" in error.message


def test_one_file_of_a_rank_says_what_it_is(tmp_path):
    folder = rank_files(tmp_path / "m")
    with open_checkpoint(folder / "model_world_size_4_rank_0.pt") as source:
        assert [(p.code, p.blocking) for p in source.problems] == [("partitioned-state", True)]


# ---- DeepSpeed ZeRO


class Zero:
    """A model as DeepSpeed cuts it, by the rule in its zero_to_fp32.py."""

    def __init__(self, stage, world=3, groups=2):
        rng = torch.Generator().manual_seed(stage)
        shapes = [(5, 7), (7,), (3, 4, 2), (1,), (10, 1)]
        self.params = {f"layers.{i}.weight": torch.randn(s, generator=rng) for i, s in enumerate(shapes)}
        self.stage, self.world = stage, world
        names = list(self.params)
        cut = 2 if groups == 2 else len(names)
        self.groups = [names[:cut], names[cut:]] if groups == 2 else [names]
        self.frozen = {"frozen.weight": torch.randn(5, 3, generator=rng).half()}
        self.buffer = torch.arange(4.0)

    def expected(self):
        made = {**self.params, **self.frozen, "buffer": self.buffer, "tied.weight": self.params["layers.0.weight"]}
        return {key: raw(tensor) for key, tensor in made.items()}

    def padded(self, tensor, parts):
        flat = tensor.reshape(-1)
        return torch.cat([flat, flat.new_zeros(-len(flat) % parts)])

    def rows(self, rank):
        if self.stage == 3:
            cut = [[self.padded(self.params[n], self.world).chunk(self.world)[rank] for n in g] for g in self.groups]
            return [torch.cat(group) for group in cut]
        flat = [torch.cat([self.params[n].reshape(-1) for n in group]) for group in self.groups]
        return [self.padded(row, 2 * self.world).chunk(self.world)[rank].clone() for row in flat]

    def model_state(self, rank):
        module = {n: torch.zeros(0) if self.stage == 3 else p.bfloat16() for n, p in self.params.items()}
        fragments = {n: self.padded(p, self.world).chunk(self.world)[rank].clone() for n, p in self.frozen.items()}
        return {
            "module": module | {"buffer": self.buffer},
            "buffer_names": ["buffer"],
            "param_shapes": [{n: self.params[n].shape for n in group} for group in self.groups],
            "frozen_param_shapes": {n: p.shape for n, p in self.frozen.items()},
            "frozen_param_fragments": fragments if self.stage == 3 else self.frozen,
            "shared_params": {"tied.weight": "layers.0.weight"},
            "ds_version": "0.15.0",
            "global_steps": 7,
        }

    def write(self, folder):
        folder.mkdir(parents=True)
        key = "fp32_flat_groups" if self.stage == 3 else "single_partition_of_fp32_groups"
        for rank in range(self.world):
            state = {"zero_stage": self.stage, "partition_count": self.world, key: self.rows(rank)}
            name = f"zero_pp_rank_{rank}_mp_rank_00"
            torch.save({"optimizer_state_dict": state}, folder / f"{name}_optim_states.pt")
            model = f"{name}_model_states.pt" if self.stage == 3 else "mp_rank_00_model_states.pt"
            if self.stage == 3 or rank == 0:
                torch.save(self.model_state(rank), folder / model)
        return folder


@pytest.mark.parametrize("stage", [1, 2, 3])
@pytest.mark.parametrize("groups", [1, 2])
def test_zero_is_put_together(tmp_path, stage, groups):
    zero = Zero(stage, groups=groups)
    zero.write(tmp_path / "run/global_step20")
    (tmp_path / "run/global_step3").mkdir()
    (tmp_path / "run/zero_to_fp32.py").write_text("")
    for path in (tmp_path / "run", tmp_path / "run/global_step20"):
        with open_checkpoint(path) as source:
            assert (source.container, source.problems) == ("deepspeed", ())
            assert {r.key: source.read(r) for r in source.refs} == zero.expected()
            by_key = {r.key: r for r in source.refs}
            assert by_key["tied.weight"].place == by_key["layers.0.weight"].place
            ref, want = by_key["layers.0.weight"], raw(zero.params["layers.0.weight"])
            for _ in range(30):
                start, stop = sorted(random.choices(range(len(want) + 1), k=2))
                assert source.read(ref, start, stop) == want[start:stop]


def test_zero_of_many_ranks(tmp_path):
    zero = Zero(3, world=12)
    with open_checkpoint(zero.write(tmp_path / "global_step1")) as source:
        assert {r.key: source.read(r) for r in source.refs} == zero.expected()


def test_latest_is_taken(tmp_path):
    old, new = Zero(2), Zero(3)
    old.write(tmp_path / "global_step5")
    new.write(tmp_path / "global_step10")
    with open_checkpoint(tmp_path) as source:
        assert source.read(source.refs[0]) == raw(new.params["layers.0.weight"])
    (tmp_path / "latest").write_text("global_step5")
    with open_checkpoint(tmp_path) as source:
        assert source.read(source.refs[0]) == raw(old.params["layers.0.weight"])


def test_zero_with_missing_ranks(tmp_path):
    three = Zero(3).write(tmp_path / "3")
    (three / "zero_pp_rank_1_mp_rank_00_optim_states.pt").unlink()
    error = refused(three)
    assert error.code == "shard-missing"
    assert "missing: 1" in error.message
    two = Zero(2)
    two.write(tmp_path / "2")
    (tmp_path / "2/zero_pp_rank_1_mp_rank_00_optim_states.pt").unlink()
    with open_checkpoint(tmp_path / "2") as source:  # the weights in the type of training are whole
        assert (source.problems[0].code, source.problems[0].blocking) == ("shard-missing", False)
        by_path = {r.path: r for r in source.refs}
        assert source.read(by_path["module", "layers.1.weight"]) == raw(two.params["layers.1.weight"].bfloat16())


def test_zero_without_optimizer_states(tmp_path):
    folder = Zero(2).write(tmp_path / "m")
    for path in folder.glob("*_optim_states.pt"):
        path.unlink()
    with open_checkpoint(folder) as source:
        assert ("module", "layers.0.weight") in {r.path for r in source.refs}
    three = Zero(3).write(tmp_path / "3")
    for path in three.glob("*_optim_states.pt"):
        path.unlink()
    with open_checkpoint(three) as source:
        found = next(p for p in source.problems if p.code == "partitioned-state")
        assert found.blocking


@pytest.mark.parametrize("change", ["longer", "no shapes", "groups", "no model"])
@pytest.mark.parametrize("stage", [2, 3])
def test_zero_that_does_not_fit(tmp_path, stage, change):
    zero = Zero(stage)
    if change == "longer":
        zero.model_state = lambda rank: (
            Zero.model_state(zero, rank)
            | {"param_shapes": [{n: torch.Size((99, 99)) for n in group} for group in zero.groups]}
        )
    if change == "no shapes":
        zero.model_state = lambda rank: Zero.model_state(zero, rank) | {"param_shapes": None}
    if change == "groups":
        zero.rows = lambda rank: Zero.rows(zero, rank)[:1]
    folder = zero.write(tmp_path / "m")
    if change == "no model":
        for path in folder.glob("*_model_states.pt"):
            path.unlink()
    assert refused(folder).code == "partitioned-state"


def test_zero_cut_for_tensor_parallelism(tmp_path):
    folder = Zero(2).write(tmp_path / "m")
    data = (folder / "mp_rank_00_model_states.pt").read_bytes()
    b.write(folder / "mp_rank_01_model_states.pt", data)
    error = refused(folder)
    assert "2 tensor-parallel parts" in error.message
    assert "ds_to_universal.py" in error.fix


def test_whole_weights_beside_zero_are_taken(tmp_path):
    Zero(3).write(tmp_path / "global_step5")
    b.write(tmp_path / "model.safetensors", b.safetensors_bytes({"w": W}, {"format": "pt"}))
    with open_checkpoint(tmp_path) as source:
        assert source.container == "safetensors"


@pytest.mark.parametrize("stage", [2, 3])
@pytest.mark.parametrize("more", [8, -8])
def test_zero_of_two_saves(tmp_path, stage, more):
    """DeepSpeed's own script refuses rows that its parameters do not use up: names of one save, rows of another."""
    zero = Zero(stage, groups=1)
    zero.rows = lambda rank: [torch.nn.functional.pad(row, (0, more)) for row in Zero.rows(zero, rank)]
    error = refused(zero.write(tmp_path / "m"))
    assert error.code == "partitioned-state"


def test_zero_with_files_of_more_ranks(tmp_path):
    folder = Zero(2, world=3).write(tmp_path / "m")
    extra = (folder / "zero_pp_rank_2_mp_rank_00_optim_states.pt").read_bytes()
    b.write(folder / "zero_pp_rank_3_mp_rank_00_optim_states.pt", extra)
    assert "saved by 3" in refused(folder).message


def test_zero_of_experts_is_refused(tmp_path):
    zero = Zero(2)
    folder = zero.write(tmp_path / "m")
    for rank in range(zero.world):
        path = folder / f"zero_pp_rank_{rank}_mp_rank_00_optim_states.pt"
        state = torch.load(path)
        state["optimizer_state_dict"]["partition_count"] = [3, 1]
        torch.save(state, path)
    assert refused(folder).code == "partitioned-state"


# ---- DeepSpeed's universal checkpoints


def universal(zero, folder, *, ranks=1):
    """As `ds_to_universal.py` writes it: a folder for each parameter, model states copied."""
    folder.mkdir(parents=True)
    for key, tensor in zero.params.items():
        place = folder / "zero" / key
        place.mkdir(parents=True)
        whole = tensor.reshape(-1) if zero.stage == 3 else {"param": tensor, "cat_dim": 0}
        torch.save(whole, place / "fp32.pt")
        torch.save(torch.zeros_like(tensor), place / "exp_avg.pt")
    torch.save({"param_groups": []}, folder / "zero/optimizer_state.pt")
    for rank in range(zero.world if zero.stage == 3 else ranks):
        name = f"zero_pp_rank_{rank}_mp_rank_00" if zero.stage == 3 else f"mp_rank_{rank:02}"
        torch.save(zero.model_state(rank), folder / f"{name}_model_states.pt")
    return folder


@pytest.mark.parametrize("stage", [1, 2, 3])
def test_universal_checkpoints(tmp_path, stage):
    zero = Zero(stage)
    folder = universal(zero, tmp_path / "global_step20_universal")
    Zero(stage, groups=1).write(tmp_path / "global_step20")
    (tmp_path / "latest_universal").write_text("global_step20_universal")
    for path in (folder, tmp_path):
        with open_checkpoint(path) as source:
            assert (source.container, source.problems) == ("deepspeed", ())
            assert {r.key: source.read(r) for r in source.refs} == zero.expected()
            assert {r.key: r.shape for r in source.refs if r.key in zero.params} == {
                key: tuple(tensor.shape) for key, tensor in zero.params.items()
            }


def test_universal_of_a_tensor_parallel_model(tmp_path):
    zero = Zero(2)
    zero.frozen = {}
    whole = zero.params
    folder = universal(zero, tmp_path / "u", ranks=2)
    zero.params = {key: tensor[: len(tensor) // 2] for key, tensor in whole.items()}  # each rank names its own part
    for rank in range(2):
        torch.save(zero.model_state(rank), folder / f"mp_rank_{rank:02}_model_states.pt")
    with open_checkpoint(folder) as source:
        found = {r.key: source.read(r) for r in source.refs}
        assert {key: found[key] for key in whole} == {key: raw(tensor) for key, tensor in whole.items()}


def test_universal_that_lacks_a_parameter(tmp_path):
    folder = universal(Zero(2), tmp_path / "u")
    (folder / "zero/layers.1.weight/fp32.pt").unlink()
    with open_checkpoint(folder) as source:
        found = next(p for p in source.problems if p.code == "shard-missing")
        assert (found.keys, found.blocking) == (("layers.1.weight",), True)


def test_universal_with_a_link_that_leads_out(tmp_path):
    folder = universal(Zero(2), tmp_path / "u")
    outside = tmp_path / "outside/deep"
    (folder / "zero/layers.1.weight").rename(tmp_path / "elsewhere")
    outside.parent.mkdir()
    (tmp_path / "elsewhere").rename(outside)
    (folder / "zero/layers.1.weight").symlink_to(outside)
    assert refused(folder).code == "index-unsafe"
