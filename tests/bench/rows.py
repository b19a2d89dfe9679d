"""Every row of the benchmark, in the order of the table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase

from tests.bench.bench import Bench
from tests.bench.clusters import clusters
from tests.bench.exports import exports
from tests.bench.memory import memory
from tests.bench.opening import opening
from tests.bench.plans import plans
from tests.bench.race import Race
from tests.bench.reflink import reflinks
from tests.bench.remote import remotes
from tests.bench.starts import starts
from tests.bench.values import values
from tests.bench.window import windows

PARTS: tuple[Callable[[Bench], Iterator[Race]], ...] = (
    starts, opening, exports, reflinks, values, memory, plans, remotes, clusters, windows,
)  # fmt: skip


def races(bench: Bench, picked: Sequence[str] = ()) -> Iterator[Race]:
    """Yield the races whose names fit one of the patterns, or all.

    Args:
        bench: What was asked for.
        picked: Names, beginnings of names, or patterns such as `open-*`.
    """
    for part in PARTS:
        yield from (race for race in part(bench) if fits(race.name, picked))


def fits(name: str, picked: Sequence[str]) -> bool:
    """Say whether a row was asked for."""
    return not picked or any(name.startswith(each) or fnmatchcase(name, each) for each in picked)
