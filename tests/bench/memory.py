"""Rows about memory: what an export, a scan and figures hold must not grow with the tensors, from 1 GB to 100 GB.

The files are headers and holes, with as many tensors at every size, so that nothing but their size differs. Of the
largest everything is opened and planned, and every `SAMPLE`th file of weights is worked on, from the first on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tests.bench.bench import Bench
from tests.bench.files import remove
from tests.bench.process import Sample
from tests.bench.race import PEAK, Aim, Race, Task
from tests.bench.sparse import EIGHT, GROWING

SAMPLE = 8  # of 24 files of 4 GB three: the first, the ninth, the seventeenth
MORE_MIB = 10.0
SMALL, MIDDLE, LARGE = "ours", "10 GB", "100 GB"


def memory(bench: Bench) -> Iterator[Race]:
    """Yield the rows."""
    files, workers = bench.files, bench.workers
    small, middle, large = (str(files.sparse(shape)) for shape in GROWING)
    some = str(SAMPLE)

    def make() -> None:
        for shape in GROWING:
            files.make_sparse(shape)

    def growth(name: str, title: str, jobs: dict[str, Callable[[], Sample]]) -> Race:
        tasks = tuple(Task(task, run) for task, run in jobs.items() if task != LARGE or not bench.quick)
        aims = (_more(MIDDLE, f"{title}, memory at 10 GB more than at 1 GB"),
                _more(LARGE, f"{title}, memory at 100 GB (a sample of files) more than at 1 GB"))  # fmt: skip
        return Race(name, tasks, aims[: len(tasks) - 1], make, runs=1)

    yield growth(
        "memory-export", "export",
        {SMALL: _exported(bench, "export", small, "hf", workers),
         MIDDLE: _exported(bench, "export", middle, "hf", workers),
         LARGE: _exported(bench, "export_sample", large, some, workers)},
    )  # fmt: skip
    yield growth(
        "memory-scan", "scan",
        {SMALL: lambda: bench.job("scan", small, workers), MIDDLE: lambda: bench.job("scan", middle, workers),
         LARGE: lambda: bench.job("scan", large, workers, some)},
    )  # fmt: skip
    yield growth(
        "memory-figures", "figures",
        {SMALL: lambda: bench.job("figures", small, workers), MIDDLE: lambda: bench.job("figures", middle, workers),
         LARGE: lambda: bench.job("figures", large, workers, "256", some)},
    )  # fmt: skip
    if not bench.quick:
        yield _eight(bench)


def _eight(bench: Bench) -> Race:
    """Return the row of figures of a model of 8B beside those of the model that all else is measured with."""
    eight = str(bench.files.sparse(EIGHT))

    def make() -> None:
        bench.files.make_hf()
        bench.files.make_sparse(EIGHT)

    return Race(
        "memory-8b",
        (Task(SMALL, lambda: bench.job("figures", str(bench.files.weights), bench.workers)),
         Task("8B", lambda: bench.job("figures", eight, bench.workers))),
        (_more("8B", "figures, memory at 16 GB (8B, holes) more than at 2.5 GB (1B)"),), make, runs=1,
    )  # fmt: skip


def _more(task: str, title: str) -> Aim:
    return Aim(task, title, MORE_MIB, PEAK, "more", task=task, peer=SMALL)


def _exported(bench: Bench, job: str, source: str, *words: str) -> Callable[[], Sample]:
    def run() -> Sample:
        remove(bench.files.out)
        bench.files.out.parent.mkdir(parents=True, exist_ok=True)
        sample = bench.job(job, source, str(bench.files.out), *words)
        remove(bench.files.out)
        return sample

    return run
