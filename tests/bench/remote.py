"""Opening over HTTP on loopback beside opening from the disk, with requests and bytes: `python -m tests.bench.remote`.

Loopback has no latency: what counts on a real network is the number of requests, eight at a time.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path

import numpy as np

from ckpt_gui.core.formats import open_checkpoint
from tests.core.models import save_shards
from tests.core.remote.server import Server, serving

SHARDS = 30
TENSORS = 24  # a shard, as in a model of 70B
RUNS = 5


def make(folder: Path) -> Path:
    """Write a model of 30 shards with headers as usual; the tensors are small."""
    tensors = {
        f"model.layers.{n // 9}.part_{n % 9}.weight": np.full((64, 64), n, np.float32) for n in range(SHARDS * TENSORS)
    }
    return save_shards(folder / "m", tensors, SHARDS, config={"model_type": "llama"})


def seconds(path: str | Path) -> float:
    """Return the median time of opening."""
    taken = []
    for _ in range(RUNS):
        begun = time.perf_counter()
        open_checkpoint(path).close()
        taken.append(time.perf_counter() - begun)
    return statistics.median(taken)


def table(folder: Path) -> list[str]:
    """Return the lines of what was measured."""
    local = make(folder)
    with serving() as server:
        for path in local.iterdir():
            server.files[f"/m/{path.name}"] = path.read_bytes()
        open_checkpoint(f"{server.url}/m").close()
        shards, others = _requests(server)
        there, here = seconds(f"{server.url}/m"), seconds(local)
    return [
        "| open | seconds | requests |",
        "|---|---|---|",
        f"| {SHARDS} shards on the disk | {here:.3f} | – |",
        f"| {SHARDS} shards by HTTP on loopback | {there:.3f} | {shards} for shards, {others} for what lies beside |",
    ]


def _requests(server: Server) -> tuple[int, int]:
    shards = sum("-of-" in path for path, _ in server.asked)
    return shards, len(server.asked) - shards


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        print("\n".join(table(Path(made))))
