"""The row about servers: opening over HTTP on loopback, beside opening the same from the disk.

Loopback has no latency: what counts on a real network is the number of requests, eight at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from tests.bench.bench import Bench
from tests.bench.process import Sample
from tests.bench.race import Aim, Quantity, Race, Task

if TYPE_CHECKING:
    from tests.core.remote.server import Server

SHARDS = 30
TENSORS = 24  # a shard, as in a model of 70B
AGAIN, REQUESTS = Quantity("s", ("again",)), Quantity("", ("requests",))
MOST = 2 * SHARDS + 10  # requests: two a shard, and what lies beside
DISK = "disk"


def remotes(bench: Bench) -> Iterator[Race]:
    """Yield the row."""
    local, stack, servers = bench.folder / "remote", ExitStack(), list["Server"]()

    def start() -> None:
        from tests.core.remote.server import serving

        make(local)
        server = stack.enter_context(serving())
        for path in (local / "m").iterdir():
            server.files[f"/m/{path.name}"] = path.read_bytes()
        servers.append(server)

    def ours() -> Sample:
        server = servers[-1]
        server.asked.clear()
        sample = bench.job("open_again", f"{server.url}/m")
        return sample | {"requests": len(server.asked) / sample["openings"]}

    title = f"open {SHARDS} files by HTTP on loopback, once all is imported"
    yield Race(
        "remote",
        (Task("ours", ours), bench.ours("open_again", str(local / "m"), name=DISK)),
        (Aim("time", f"{title}, beside the {DISK}", None, AGAIN, "value", peer=DISK),
         Aim("requests", f"{title}, requests", MOST, REQUESTS, "value")),
        start, stack.close,
    )  # fmt: skip


def make(folder: Path) -> None:
    """Write a model of 30 shards with headers as usual; the tensors are small. One that exists is kept."""
    if folder.exists():
        return
    import numpy as np

    from tests.core.models import save_shards

    tensors = {
        f"model.layers.{n // 9}.part_{n % 9}.weight": np.full((64, 64), n, np.float32) for n in range(SHARDS * TENSORS)
    }
    save_shards(folder / "m", tensors, SHARDS, config={"model_type": "llama"})
