"""Rows about exports: against cp, and against what people do without us.

Every export of ours waits for the disk and reads all of it back. cp and the peers do neither, so each pair is judged
three times: without both, with the disk in both, and as it is, verified, against a peer that waited for the disk.
Ours has the disk begin while it still writes, which makes the writing slower and the whole quicker. Without the disk it
is judged by a run of its own, which has the disk begin at the end, and what is waited for then does not count. The old
output is gone before each run, and what was written goes at once.
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.bench.bench import Bench
from tests.bench.files import remove
from tests.bench.process import Sample
from tests.bench.race import PEAK, WALL, Aim, Quantity, Race, Task
from tests.bench.shapes import tensor_count

QUICK = Quantity("s", ("wall",), ("verify", "sync"))
SYNCED = Quantity("s", ("wall",), ("verify",))
DAMAGED = Quantity("", ("damaged",))
MIB, MIB_A_TENSOR = 64.0, 1.5 / 1024
PEER_MEMORY = 1 / 40
CP = "cp"
LATE = "ours, the disk at the end"
ROUNDS = 3  # at least: writing is what noise is loudest in


@dataclass(frozen=True, slots=True)
class Peer:
    """What people do without us.

    Attributes:
        id: Short, for the names of rows.
        name: Of the library or way.
        needs: Modules that it needs.
        words: Its job and what it reads; the output follows.
        limit: What ours may take of its time at most, before verification.
    """

    id: str
    name: str
    needs: tuple[str, ...]
    words: tuple[str, ...]
    limit: float


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of export.

    Attributes:
        name: What `--rows` calls it.
        title: What the table calls it.
        words: What our job gets beside the output: source, layout, dtype.
        copied: What cp copies: as many bytes as are written.
        limit: What ours may take of cp's time at most, before verification.
        verified: The same, with it; None where nothing is aimed at.
        peers: The peers.
        prepare: Makes the files.
    """

    name: str
    title: str
    words: tuple[str, str, str]
    copied: Path
    limit: float
    verified: float | None
    peers: tuple[Peer, ...]
    prepare: Callable[[], None]


def exports(bench: Bench) -> Iterator[Race]:
    """Yield the rows."""
    for kind in _kinds(bench):
        yield _race(bench, kind)


def _kinds(bench: Bench) -> tuple[Kind, ...]:
    files = bench.files
    hf, meta, weights, pth = str(files.hf), str(files.meta), files.weights, files.pth
    tensors = ("torch", "safetensors")
    plain = Peer("load-save", "load_file + save_file", tensors, ("load_and_save", str(weights)), 0.4)
    transformers = Peer("transformers", "transformers", (*tensors, "transformers"), ("transformers_save", hf), 0.25)
    torchtune = Peer("torchtune", "torchtune", (*tensors, "torchtune"), ("torchtune_convert", meta), 0.25)
    half = Peer("half", "load_file + half + save_file", tensors, ("load_half_and_save", str(weights)), 0.4)
    torch = Peer("torch-save", "torch.save(mmap)", ("torch",), ("torch_save", str(pth)), 0.25)
    return (
        Kind("export-same", "rename only", (hf, "same", "keep"), weights, 1.2, 2.0, (plain, transformers),
             files.make_hf),
        Kind("export-hf", "Meta → Hugging Face", (meta, "hf", "keep"), weights, 1.2, 2.0, (torchtune,),
             files.make_meta),
        Kind("export-fp16", "bf16 → fp16", (hf, "same", "fp16"), weights, 1.6, None, (half,), files.make_hf),
        Kind("export-pth", "Hugging Face → Meta .pth", (hf, "meta", "keep"), pth, 1.4, None, (torch,),
             files.make_meta),
    )  # fmt: skip


def _race(bench: Bench, kind: Kind) -> Race:
    files = bench.files
    source, layout, dtype = kind.words

    def ours(*late: str) -> Sample:
        remove(files.out)
        sample = bench.job("export", source, str(files.out), layout, bench.workers, dtype, *late)
        damaged = sum(_damaged(path) for path in files.out.glob("*.pth"))
        remove(files.out)
        return sample | {"damaged": float(damaged)}

    return Race(
        kind.name,
        (Task("ours", ours),
         Task(LATE, partial(ours, "late")),
         Task(CP, _copying(bench, lambda: bench.processes.command("cp", str(kind.copied), str(files.copy)))),
         *(_task(bench, peer) for peer in kind.peers)),
        tuple(_aims(kind, tensor_count(bench.size))), kind.prepare, least=1 if bench.quick else ROUNDS,
    )  # fmt: skip


def _task(bench: Bench, peer: Peer) -> Task:
    run = bench.peer_job(peer.needs, *peer.words, str(bench.files.copy))
    return Task(peer.name, _copying(bench, run), bench.lack(*peer.needs))


def _copying(bench: Bench, run: Callable[[], Sample]) -> Callable[[], Sample]:
    """Return a job with the time that the disk needs for its output in it, and beside it as `sync`."""
    copy = bench.files.copy

    def copying() -> Sample:
        remove(copy)
        sample = run()
        written = [str(path) for path in copy.rglob("*") if path.is_file()] if copy.is_dir() else [str(copy)]
        waited = bench.processes.command("sync", *written)
        remove(copy)
        return sample | {"wall": sample["wall"] + waited["wall"], "sync": waited["wall"]}

    return copying


def _damaged(path: Path) -> bool:
    """Say whether a torch file has a record whose checksum is not that of its bytes."""
    with zipfile.ZipFile(path) as opened:
        return opened.testzip() is not None


def _aims(kind: Kind, tensors: int) -> Iterator[Aim]:
    """Yield the lines of a kind: against cp and each peer, in all three ways; memory; checksums."""
    yield from _three(kind, CP, CP, kind.limit, kind.limit, kind.verified)
    yield Aim("memory", f"export, {kind.title}, memory", MIB + tensors * MIB_A_TENSOR, PEAK, "value")
    if kind.words[1] == "meta":
        yield Aim("checksums", f"export, {kind.title}, files with a wrong checksum", 0, DAMAGED, "value")
    for peer in kind.peers:
        yield from _three(kind, peer.id, peer.name, peer.limit, None, None)
        yield Aim(f"{peer.id}-memory", f"export, {kind.title}, memory against {peer.name}", PEER_MEMORY, PEAK,
                  peer=peer.name)  # fmt: skip


def _three(kind: Kind, short: str, peer: str, *limits: float | None) -> Iterator[Aim]:
    ways: Sequence[tuple[str, str, Quantity, str]] = (
        ("", "before verification, no sync", QUICK, LATE),
        ("-synced", "before verification, both synced", SYNCED, "ours"),
        ("-verified", "verified, both synced", WALL, "ours"),
    )
    for (name, words, quantity, task), limit in zip(ways, limits, strict=True):
        title = f"export, {kind.title}, {words}, against {peer}"
        yield Aim(f"{short}{name}", title, limit, quantity, task=task, peer=peer)
