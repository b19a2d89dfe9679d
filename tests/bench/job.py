"""One job in a fresh process: does it, and prints seconds by phase and peak memory as JSON."""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable


def export(source: str, folder: str, layout: str, workers: str) -> dict[str, float]:
    """Export with our writer; return the seconds of writing and of verifying."""
    from ckpt_gui.core.formats import open_checkpoint
    from ckpt_gui.core.normalise import understand
    from ckpt_gui.core.retarget import Target, retarget
    from ckpt_gui.core.writer import write_export

    with open_checkpoint(source) as opened:
        result = write_export(retarget(understand(opened), Target(layout)), folder, workers=int(workers))
    return dict(result.phases)


def open_ours(source: str) -> dict[str, float]:
    """List every tensor with our reader."""
    from ckpt_gui.core.formats import open_checkpoint

    begun = time.perf_counter()
    with open_checkpoint(source) as opened:
        count = len(opened.refs)
    return {"open": time.perf_counter() - begun, "tensors": count}


def open_torch(source: str) -> dict[str, float]:
    """List every tensor with torch.load, memory-mapped."""
    import torch

    begun = time.perf_counter()
    loaded = torch.load(source, mmap=True, weights_only=True, map_location="cpu")
    return {"open": time.perf_counter() - begun, "tensors": len(loaded)}


def open_safetensors(source: str) -> dict[str, float]:
    """List every tensor's shape and type with safetensors."""
    from safetensors import safe_open

    begun = time.perf_counter()
    with safe_open(source, "np") as opened:
        count = len([(opened.get_slice(k).get_shape(), opened.get_slice(k).get_dtype()) for k in opened.keys()])  # noqa: SIM118
    return {"open": time.perf_counter() - begun, "tensors": count}


def compare(one: str, two: str, workers: str) -> dict[str, float]:
    """Compare two whole models by their values."""
    from ckpt_gui.core import compare as comparing

    begun = time.perf_counter()
    with comparing.opened_sides(one, two, values=True) as (a, b):
        found = comparing.compare(a, b, values=True, workers=int(workers))
    return {"compare": time.perf_counter() - begun, "equal": found.counts["equal"], "all": len(found.rows)}


def load_and_save(source: str, target: str) -> dict[str, float]:
    """Do a rename the usual way: load everything, save everything."""
    from safetensors.torch import load_file, save_file

    begun = time.perf_counter()
    save_file(dict(load_file(source)), target, metadata={"format": "pt"})
    return {"write": time.perf_counter() - begun}


JOBS: dict[str, Callable[..., dict[str, float]]] = {
    "export": export,
    "open_ours": open_ours,
    "open_torch": open_torch,
    "open_safetensors": open_safetensors,
    "compare": compare,
    "load_and_save": load_and_save,
}


def main() -> None:
    """Run the job that the command line names."""
    seconds = JOBS[sys.argv[1]](*sys.argv[2:])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({**seconds, "peak_mib": peak, "torch": "torch" in sys.modules}))


if __name__ == "__main__":
    main()
