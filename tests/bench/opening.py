"""Rows about opening: one file, shards, very many tensors, and whole models that are headers and holes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from tests.bench.bench import Bench
from tests.bench.race import PEAK, WALL, Aim, Quantity, Race, Task
from tests.bench.sparse import MODELS, SHARDED
from tests.bench.wide import TENSORS, WIDE, count

AGAIN = Quantity("s", ("again",))
MIB_A_TENSOR = 1.5 / 1024  # what the list of tensors may take
OPEN_MIB = 40.0
WIDEST = "500k"
CHECK_SECONDS = 2.0
TORCH, SAFETENSORS = "torch.load(mmap)", "safe_open"


def opening(bench: Bench) -> Iterator[Race]:
    """Yield the rows."""
    files = bench.files
    yield Race(
        "open-pth",
        (bench.ours("open_ours", str(files.pth)), bench.peer(TORCH, ("torch",), "open_torch", str(files.pth))),
        (Aim("time", f"open .pth, process, against {TORCH}", 0.05, peer=TORCH),
         Aim("memory", "open .pth, memory", OPEN_MIB, PEAK, "value", peer=TORCH)),
        files.make_meta,
    )  # fmt: skip
    yield Race(
        "open-safetensors",
        (bench.ours("open_ours", str(files.weights)), _safe_open(bench, str(files.weights))),
        (Aim("time", f"open .safetensors, process, against {SAFETENSORS}", 1.0, peer=SAFETENSORS),),
        files.make_hf,
    )
    yield from _many(bench)
    shards = str(files.sparse(SHARDED))
    yield Race(
        "open-70b",
        (bench.ours("open_again", shards), _safe_open(bench, shards, "open_safetensors_again")),
        (Aim("time", f"open 70B in {SHARDED.shards} files, once all is imported, beside {SAFETENSORS}", 0.01, AGAIN,
             "value", peer=SAFETENSORS),),
        partial(files.make_sparse, SHARDED),
    )  # fmt: skip
    for model in MODELS:
        yield _check(bench, model.name, str(files.sparse(model)), partial(files.make_sparse, model), model.status)
    if not bench.quick:
        yield _check(bench, WIDEST, str(files.wide(WIDEST)), partial(files.make_wide, WIDEST))


def _many(bench: Bench) -> Iterator[Race]:
    """Yield the rows about very many tensors."""
    files, wide = bench.files, str(bench.files.wide(WIDEST))
    title, memory = f"open {TENSORS:,} tensors", OPEN_MIB + TENSORS * MIB_A_TENSOR
    yield Race(
        "open-many-safetensors",
        (bench.ours("open_ours", str(files.many)), _safe_open(bench, str(files.many))),
        (Aim("time", f"{title} .safetensors, process, against {SAFETENSORS}", 0.7, peer=SAFETENSORS),
         Aim("memory", f"{title} .safetensors, memory", memory, PEAK, "value", peer=SAFETENSORS)),
        files.make_many,
    )  # fmt: skip
    yield Race(
        "open-many-pth",
        (bench.ours("open_ours", str(files.many_pth)),
         bench.peer(TORCH, ("torch",), "open_torch", str(files.many_pth))),
        (Aim("time", f"{title} .pth, process, against {TORCH}", 0.2, peer=TORCH),
         Aim("memory", f"{title} .pth, memory", memory, PEAK, "value", peer=TORCH)),
        files.make_many_pth,
    )  # fmt: skip
    if bench.quick:
        return
    title, memory = f"open {count(WIDEST):,} tensors in 8 files", OPEN_MIB + count(WIDEST) * MIB_A_TENSOR
    yield Race(
        "open-500k",
        (bench.ours("open_ours", wide), _safe_open(bench, wide)),
        (Aim("time", f"{title}, process, against {SAFETENSORS}", 0.7, peer=SAFETENSORS),
         Aim("memory", f"{title}, memory", memory, PEAK, "value", peer=SAFETENSORS)),
        partial(files.make_wide, WIDEST),
    )  # fmt: skip


def _safe_open(bench: Bench, path: str, job: str = "open_safetensors") -> Task:
    return bench.peer(SAFETENSORS, ("safetensors", "numpy"), job, path)


def _check(bench: Bench, name: str, path: str, prepare: Callable[[], None], status: int = 0) -> Race:
    """Return the row of a whole `ckpt-gui check` process."""

    seconds = CHECK_SECONDS if name not in WIDE else None
    title = f"check {count(name):,} tensors" if name in WIDE else f"check {name} (headers and holes)"
    return Race(
        f"check-{name.lower()}",
        (bench.ours("check", path, str(status)),),
        (Aim("time", f"{title}, process", seconds, WALL, "value"),
         Aim("memory", f"{title}, memory", 1024.0, PEAK, "value")),
        prepare, runs=2 if name in WIDE else None,
    )  # fmt: skip
