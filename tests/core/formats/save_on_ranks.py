"""Saves one small model in every way in which torch saves a distributed one, on four ranks of gloo.

Run as a program: `python save_on_ranks.py FOLDER`. The whole model is saved beside as `whole.pt`.
"""

from __future__ import annotations

import os
import sys
import warnings

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed._shard.sharded_tensor import Shard as LocalShard
from torch.distributed._shard.sharded_tensor import ShardedTensor
from torch.distributed.checkpoint import HuggingFaceStorageWriter
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

WORLD = 4


class Model(torch.nn.Module):
    """No size is a multiple of the ranks, and q is cut along its rows by tensor parallelism, o along its columns."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.embed = torch.nn.Embedding(29, 22)
        self.q = torch.nn.Linear(22, 37)
        self.o = torch.nn.Linear(37, 22, bias=False).bfloat16()
        self.norm = torch.nn.RMSNorm(22)
        self.scale = torch.nn.Parameter(torch.tensor([2.5]))


def placed(mesh, *placements):
    """The model's tensors on a mesh; a dimension that a tensor does not have is not cut."""
    made = {}
    for key, tensor in Model().state_dict().items():
        kept = [p if not isinstance(p, Shard) or p.dim < tensor.dim() else Replicate() for p in placements]
        made[key] = distribute_tensor(tensor, mesh, kept)
    return made


def tensor_parallel_inside_fsdp(mesh):
    model = Model()
    parallelize_module(model, mesh["tp"], {"q": ColwiseParallel(), "o": RowwiseParallel()})
    fully_shard(model, mesh=mesh["dp"])
    return model.state_dict()


def sharded_tensors(rank):
    made = {}
    for key, tensor in Model().state_dict().items():
        share = -(-len(tensor) // WORLD)
        low = min(rank * share, len(tensor))
        part = tensor[low : low + share].clone()
        offsets = [low] + [0] * (tensor.dim() - 1)
        shards = [LocalShard.from_tensor_and_offsets(part, offsets, rank)] if len(part) else []
        made[key] = ShardedTensor._init_from_local_shards(shards, *tensor.shape)
    return made


def run(rank: int, out: str) -> None:
    """Save as one of the ranks."""
    warnings.filterwarnings("ignore")
    dist.init_process_group("gloo", rank=rank, world_size=WORLD, init_method=f"file://{out}/.meeting")
    line = init_device_mesh("cpu", (WORLD,))
    square = init_device_mesh("cpu", (2, WORLD // 2), mesh_dim_names=("dp", "tp"))
    states = {
        "rows": placed(line, Shard(0)),
        "columns": placed(line, Shard(1)),
        "replicas": placed(line, Replicate()),
        "hsdp": placed(square, Replicate(), Shard(0)),
        "grid": placed(square, Shard(0), Shard(1)),
        "twice": placed(square, Shard(0), Shard(0)),
        "fsdp-tp": tensor_parallel_inside_fsdp(square),
        "sharded": sharded_tensors(rank),
    }
    for name, state in states.items():
        dcp.save({"model": state, "step": 3}, checkpoint_id=f"{out}/dcp/{name}")
        os.makedirs(f"{out}/ranks/{name}", exist_ok=True)
        torch.save(state, f"{out}/ranks/{name}/model_world_size_{WORLD}_rank_{rank}.pt")
    dcp.async_save({"model": states["rows"]}, checkpoint_id=f"{out}/dcp/async").result()
    numbers = {key: 1 + i % 2 for i, key in enumerate(states["rows"])}
    for name, files in (("rows", None), ("grid", None), ("rows-2", numbers)):
        writer = HuggingFaceStorageWriter(f"{out}/hf/{name}", files, save_distributed=True)
        dcp.save(states[name.removesuffix("-2")], storage_writer=writer)
    if rank == 0:
        torch.save(Model().state_dict(), f"{out}/whole.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    torch.multiprocessing.spawn(run, args=(sys.argv[1],), nprocs=WORLD)
