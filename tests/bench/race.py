"""What is measured, as values: tasks that run in turn, and what is asked of their figures.

A race runs its tasks one after the other, as often as there is time for, so that what else the machine does falls on
all of them alike. What is judged is the median over the rounds of a ratio, not a ratio of medians.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from tests.bench.process import Failed, Sample

Compared = Literal["ratio", "value", "more"]
Round = dict[str, Sample]  # by task


@dataclass(frozen=True, slots=True)
class Quantity:
    """A figure of a sample, put together from those that a process gives.

    Attributes:
        unit: `s`, `ms` or `MiB`; empty for a number.
        plus: Figures that are added up.
        minus: Figures that are taken off, where the sample has them.
        scale: What the sum is multiplied by.
    """

    unit: str
    plus: tuple[str, ...]
    minus: tuple[str, ...] = ()
    scale: float = 1.0

    def of(self, sample: Sample) -> float:
        """Return the figure of a sample."""
        return self.scale * (sum(sample[n] for n in self.plus) - sum(sample.get(n, 0.0) for n in self.minus))


WALL = Quantity("s", ("wall",))
PEAK = Quantity("MiB", ("peak_mib",))


@dataclass(frozen=True, slots=True)
class Aim:
    """One line of the table: what is judged, and what it may be at most.

    Attributes:
        name: Short, of one race only.
        title: What the table says.
        limit: At most this; None where nothing was aimed at.
        quantity: What is compared.
        compared: `ratio` to the peer, the `value` itself, or how much `more` it is than the peer's.
        task: Whose quantity it is.
        peer: The other task; empty where the value itself is judged and nothing is shown beside it.
    """

    name: str
    title: str
    limit: float | None
    quantity: Quantity = WALL
    compared: Compared = "ratio"
    task: str = "ours"
    peer: str = ""


@dataclass(frozen=True, slots=True)
class Task:
    """Something that is run once in each round.

    Attributes:
        name: Of one race only; `ours` is what we do.
        run: Runs it, and returns its figures.
        missing: Why it cannot be run; empty if it can.
    """

    name: str
    run: Callable[[], Sample]
    missing: str = ""


@dataclass(frozen=True, slots=True)
class Race:
    """Tasks that are measured in turn.

    Attributes:
        name: What `--rows` calls it.
        tasks: In the order of a round.
        aims: The lines of the table.
        prepare: Makes the files, and has them in memory; `Failed` says why nothing can be measured.
        finish: Removes what shall not stay.
        runs: Rounds at most, where fewer than asked for are enough.
        least: Rounds that are begun however long they take, if so many are asked for.
        note: Says more of the rounds than figures can.
    """

    name: str
    tasks: tuple[Task, ...]
    aims: tuple[Aim, ...]
    prepare: Callable[[], None] = field(default=lambda: None)
    finish: Callable[[], None] = field(default=lambda: None)
    runs: int | None = None
    least: int = 1
    note: Callable[[Sequence[Round]], str] | None = None


@dataclass(slots=True)
class Result:
    """What a race gave.

    Attributes:
        rounds: Samples by task, in order.
        missing: Why a task was not run, or did not end well.
        seconds: How long it took in all.
    """

    rounds: list[Round] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0


def run(race: Race, runs: int, patience: float) -> Result:
    """Run a race: so many rounds, but none is begun after so many seconds.

    A task that fails is left out from then on, with what it said; the others go on.
    """
    begun = time.perf_counter()
    result = Result(missing={task.name: task.missing for task in race.tasks if task.missing})
    try:
        race.prepare()
        first = time.perf_counter()
        for number in range(min(runs, race.runs or runs)):
            if number >= race.least and time.perf_counter() - first > patience:
                break
            result.rounds.append(_round(race, result.missing))
    except (Failed, OSError) as error:
        result.missing = {task.name: str(error) for task in race.tasks} | result.missing
    finally:
        race.finish()
    result.seconds = time.perf_counter() - begun
    return result


def _round(race: Race, missing: dict[str, str]) -> Round:
    samples: Round = {}
    for task in race.tasks:
        if task.name in missing:
            continue
        try:
            samples[task.name] = task.run()
        except (Failed, OSError) as error:
            missing[task.name] = str(error)
    return samples
