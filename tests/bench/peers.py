"""The peers' jobs, in fresh processes: what people do without us. Run by whichever interpreter has the libraries.

Nothing of ours is imported here. `python -m tests.bench.peers NAME WORDS` does one and prints its figures.
"""

from __future__ import annotations

import glob
import os
import time
from collections.abc import Sequence

from tests.bench.telling import Job, run_named

AGAIN = 7  # times that a checkpoint is opened once all is imported


def open_torch(source: str) -> dict[str, float]:
    """List every tensor with torch.load, memory-mapped."""
    import torch

    begun = time.perf_counter()
    loaded = torch.load(source, mmap=True, weights_only=True, map_location="cpu")
    return {"open": time.perf_counter() - begun, "tensors": len(loaded)}


def open_safetensors(*sources: str) -> dict[str, float]:
    """List every tensor's shape and type with safetensors; of a folder, that of all its files."""
    from safetensors import safe_open

    begun = time.perf_counter()
    count = 0
    for source in _files(sources):
        with safe_open(source, "np") as opened:
            for key in opened.keys():  # noqa: SIM118
                one = opened.get_slice(key)
                one.get_shape(), one.get_dtype()
                count += 1
    return {"open": time.perf_counter() - begun, "tensors": count}


def open_safetensors_again(*sources: str) -> dict[str, float]:
    """Open once, then tell the time of opening in a process that is at work."""
    open_safetensors(*sources)
    return {"again": sorted(open_safetensors(*sources)["open"] for _ in range(AGAIN))[AGAIN // 2]}


def _files(sources: Sequence[str]) -> list[str]:
    return [file for path in sources for file in (_shards(path) if os.path.isdir(path) else [path])]


def _shards(folder: str) -> list[str]:
    return sorted(glob.glob(os.path.join(glob.escape(folder), "*.safetensors")))


def as_torch(source: str, target: str) -> dict[str, float]:
    """Save a safetensors file with torch, one storage a tensor."""
    import torch
    from safetensors.torch import load_file

    os.makedirs(os.path.dirname(target), exist_ok=True)
    torch.save({key: tensor.clone() for key, tensor in load_file(source).items()}, target)
    return {}


def import_torch() -> dict[str, float]:
    """Import torch, and nothing else."""
    import torch

    return {"threads": torch.get_num_threads()}


def load_and_save(source: str, target: str) -> dict[str, float]:
    """Do a rename the usual way: load everything, save everything."""
    from safetensors.torch import load_file, save_file

    save_file(load_file(source), target, metadata={"format": "pt"})
    return {}


def load_half_and_save(source: str, target: str) -> dict[str, float]:
    """Cast to fp16 the usual way."""
    from safetensors.torch import load_file, save_file

    save_file({key: tensor.half() for key, tensor in load_file(source).items()}, target, metadata={"format": "pt"})
    return {}


def torch_save(source: str, target: str) -> dict[str, float]:
    """Write a torch file the usual way, from one that is mapped into memory."""
    import torch

    torch.save(torch.load(source, mmap=True, weights_only=True), target)
    return {}


def transformers_save(source: str, target: str) -> dict[str, float]:
    """Load and save with transformers."""
    from transformers import AutoModelForCausalLM

    AutoModelForCausalLM.from_pretrained(source, dtype="auto").save_pretrained(target)
    return {}


def torchtune_convert(source: str, target: str) -> dict[str, float]:
    """Convert Meta's file to Hugging Face's names with torchtune."""
    import json

    import torch
    from safetensors.torch import save_file
    from torchtune.models.convert_weights import meta_to_tune, tune_to_hf

    with open(os.path.join(source, "params.json"), encoding="utf-8") as file:
        params = json.load(file)
    state = meta_to_tune(torch.load(os.path.join(source, "consolidated.00.pth"), mmap=True, weights_only=True))
    made = tune_to_hf(state, params["n_heads"], params["n_kv_heads"], params["dim"])
    save_file({key: tensor.contiguous().clone() for key, tensor in made.items()}, target)
    return {}


def compare_torch(one: str, two: str) -> dict[str, float]:
    """Compare two files of the same names by torch.equal."""
    import torch
    from safetensors import safe_open

    with safe_open(one, "pt") as left, safe_open(two, "pt") as right:
        same = [torch.equal(left.get_tensor(key), right.get_tensor(key)) for key in left.keys()]  # noqa: SIM118
    return {"equal": sum(same), "all": len(same)}


def figures_torch(source: str) -> dict[str, float]:
    """Calculate a few figures and a histogram with torch, in fp32, tensor by tensor."""
    import torch
    from safetensors import safe_open

    with safe_open(source, "pt") as opened:
        for key in opened.keys():  # noqa: SIM118
            x = opened.get_tensor(key).float()
            (x.min(), x.max(), x.mean(), x.std(), x.norm())
            (x.isnan().sum(), x.isinf().sum(), (x == 0).sum(), torch.histc(x, 256))
    return {}


def plain_figures_torch(source: str) -> dict[str, float]:
    """Calculate the same few figures without a histogram."""
    import torch
    from safetensors import safe_open

    with safe_open(source, "pt") as opened:
        for key in opened.keys():  # noqa: SIM118
            x = opened.get_tensor(key).float()
            (x.min(), x.max(), x.mean(), x.std(), x.norm(), torch.isfinite(x).all(), (x == 0).sum())
    return {}


JOBS: dict[str, Job] = {
    job.__name__: job
    for job in (
        open_torch, open_safetensors, open_safetensors_again, as_torch, import_torch, load_and_save,
        load_half_and_save, torch_save, transformers_save, torchtune_convert, compare_torch, figures_torch,
        plain_figures_torch,
    )
}  # fmt: skip

if __name__ == "__main__":
    run_named(JOBS)
