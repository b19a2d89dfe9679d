"""Rows about numbers and comparing: against what people do with torch, against cmp, and against reading alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tests.bench.bench import Bench
from tests.bench.files import chill
from tests.bench.process import Sample
from tests.bench.race import PEAK, WALL, Aim, Quantity, Race, Task

FIGURES = Quantity("s", ("figures",))
WHOLE_MIB, COMPARE_MIB = 80.0, 60.0
LIBRARIES = ("torch", "safetensors")


def values(bench: Bench) -> Iterator[Race]:
    """Yield the rows."""
    files, workers = bench.files, bench.workers
    weights, same, many, fp32 = (str(path) for path in (files.weights, files.same, files.many, files.fp32))

    def cat() -> Sample:
        sample = bench.processes.command("sh", "-c", f"cat '{weights}' > /dev/null")
        return sample | {"figures": sample["wall"]}

    yield Race(
        "figures",
        (bench.ours("figures", weights, workers), bench.ours("scan", weights, workers, name="scan"),
         bench.peer("torch", LIBRARIES, "figures_torch", weights)),
        (Aim("time", "figures and histograms, process, against torch", 0.1, peer="torch"),
         Aim("memory", "figures and histograms, memory", WHOLE_MIB, PEAK, "value", peer="torch"),
         Aim("scan", "scan of all weights, process, against torch's figures", 0.15, WALL, task="scan", peer="torch")),
        files.make_hf, runs=2,
    )  # fmt: skip
    yield Race(
        "figures-cold",
        (Task("ours", _cold(bench, lambda: bench.job("figures", weights, workers))), Task("cat", _cold(bench, cat))),
        (Aim("time", "figures and histograms, file not in memory, against cat", 1.2, FIGURES, peer="cat"),),
        files.make_hf,
    )
    yield Race(
        "figures-warm",
        (bench.ours("figures", weights, workers), Task("cat", cat)),
        (Aim("time", "figures and histograms, file in memory, against cat", 8.0, FIGURES, peer="cat"),),
        files.make_hf,
    )
    yield Race(
        "figures-fp32",
        (bench.ours("figures", fp32, workers), bench.peer("torch", LIBRARIES, "figures_torch", fp32)),
        (Aim("time", "figures and histograms of 0.5 GB in fp32, process, against torch", 0.15, peer="torch"),),
        files.make_fp32, runs=3,
    )  # fmt: skip
    yield Race(
        "figures-many",
        (bench.ours("figures", many, workers, "0"), bench.peer("torch", LIBRARIES, "plain_figures_torch", many)),
        (Aim("time", "figures of 122,880 tiny tensors, process, against torch", 0.1, peer="torch"),),
        files.make_many, runs=2,
    )  # fmt: skip
    yield Race(
        "compare",
        (bench.ours("compare", weights, same, workers),
         Task("cmp", lambda: bench.processes.command("cmp", weights, same)),
         bench.peer("torch.equal", LIBRARIES, "compare_torch", weights, same)),
        (Aim("cmp", "compare all values of two equal files, process, against cmp", 0.75, peer="cmp"),
         Aim("torch", "compare all values of two equal files, process, against torch.equal", 0.35, peer="torch.equal"),
         Aim("memory", "compare all values, memory", COMPARE_MIB, PEAK, "value", peer="torch.equal")),
        files.make_twin,
    )  # fmt: skip


def _cold(bench: Bench, run: Callable[[], Sample]) -> Callable[[], Sample]:
    """Return a job before which the system is told to forget the file."""

    def cold() -> Sample:
        chill(bench.files.weights)
        return run()

    return cold
