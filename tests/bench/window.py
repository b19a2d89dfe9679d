"""Rows about the window at work: the longest time for which it did not answer, first rows, keys, memory.

Windows are driven without a screen, each scene in a process of its own (see `window_job`). Nobody notices 50 ms. What
other processes take from the window's thread on a busy machine is told apart (see `clock`): stalls of ours are the
rest, its own work and waiting for Python's lock.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from tests.bench.bench import Bench
from tests.bench.process import Sample, told
from tests.bench.race import PEAK, Aim, Quantity, Race, Round, Task
from tests.bench.wide import count

STALL = 50.0  # ms
FIRST_ROWS, KEY = 3.0, 0.1  # s
MEMORY = 1024.0  # MiB
LONGEST = "500k"  # takes a minute
FIGURES = ("seconds", "stall", "ours", "own", "over", "peak_mib")
HEAD = ("what goes on", "takes", "longest stall", "ours", "of it own work", "ours over 50 ms", "peak")
FIRST = "open, to first rows"
TYPED = ("type ", "filter: ")
TYPING = ("many", "keys")  # scenes in which somebody types


@dataclass(frozen=True, slots=True)
class Scene:
    """A window that is driven.

    Attributes:
        name: As in `window_job`.
        title: What the table calls it.
        words: The files it is about.
        prepare: Makes them.
        size: Of the model of very many tensors; empty where values are read.
    """

    name: str
    title: str
    words: tuple[str, ...]
    prepare: Callable[[], None]
    size: str = ""


def windows(bench: Bench) -> Iterator[Race]:
    """Yield the rows."""
    for scene in _scenes(bench):
        yield Race(
            f"window-{scene.name}" + (f"-{scene.size}" if scene.size else ""),
            (Task("ours", partial(_driven, bench, scene)),), tuple(_aims(scene)), scene.prepare,
            runs=1 if scene.size == LONGEST else 3, note=phases_table,
        )  # fmt: skip


def _scenes(bench: Bench) -> Iterator[Scene]:
    files = bench.files
    for name in ("scan", "plots", "export", "compare"):
        words = (str(files.hf), str(files.twin)) if name == "compare" else (str(files.hf),)
        yield Scene(name, f"{name}, {bench.size}", words, files.make_twin if name == "compare" else files.make_hf)
    for size in ("100k",) if bench.quick else ("100k", "500k"):
        for name, things in (("many", "tensors"), ("keys", "keys"), ("replaced", "tensors, opened twice and closed")):
            title = f"{count(size):,} {things}"
            yield Scene(name, title, (str(files.wide(size)),), partial(files.make_wide, size), size)


def _aims(scene: Scene) -> Iterator[Aim]:
    title = f"window, {scene.title}"
    yield Aim("stall", f"{title}, longest stall of ours", STALL, Quantity("ms", ("longest",), scale=1000), "value")
    yield Aim("memory", f"{title}, memory", MEMORY, PEAK, "value")
    if scene.size:
        yield Aim("rows", f"{title}, first rows after", FIRST_ROWS, Quantity("s", ("first_rows",)), "value")
    if scene.size and scene.name in TYPING:
        limit = KEY if scene.size == "100k" else None
        yield Aim("key", f"{title}, slowest key in the filter", limit, Quantity("s", ("key",)), "value")


def _driven(bench: Bench, scene: Scene) -> Sample:
    """Drive a window through a scene, with an empty cache."""
    with tempfile.TemporaryDirectory() as cache:
        words = [sys.executable, "-m", "tests.bench.window_job", scene.name, *scene.words]
        sample, printed = bench.processes.ours(words, {"XDG_CACHE_HOME": cache})
    return sample | flat(told(printed))


def flat(phases: Sequence[Mapping[str, Any]]) -> Sample:
    """Return what was measured of phases as figures: the worst of all, and each under its title."""
    sample: Sample = {f"{phase['title']}|{name}": float(phase[name]) for phase in phases for name in FIGURES}
    keys = [phase["answered"] for phase in phases if phase["title"].startswith(TYPED)]
    rows = [phase["seconds"] for phase in phases if phase["title"] == FIRST]
    return sample | {
        "longest": max(phase["ours"] for phase in phases),
        "peak_mib": max(phase["peak_mib"] for phase in phases),
        **({"key": max(keys)} if keys else {}),
        **({"first_rows": max(rows)} if rows else {}),
    }


def phases_table(rounds: Sequence[Round]) -> str:
    """Return the medians of each phase as markdown."""
    samples = [each["ours"] for each in rounds]
    titles = [name.removesuffix("|seconds") for name in samples[0] if name.endswith("|seconds")]
    lines = [HEAD, ("---",) * len(HEAD)]
    for title in titles:
        seconds, stall, ours, own, over, peak = (
            statistics.median(sample[f"{title}|{name}"] for sample in samples) for name in FIGURES
        )
        lines.append(
            (title, f"{seconds:.2f} s", *(f"{1000 * each:.0f} ms" for each in (stall, ours, own)), f"{over:.0f}",
             f"{peak:.0f} MiB")
        )  # fmt: skip
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
