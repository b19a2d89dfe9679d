"""The lines of the table: what the rounds of a race say about each of its aims."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from tests.bench.race import Aim, Compared, Race, Result, Round


@dataclass(frozen=True, slots=True)
class Spread:
    """A median, and the least and the most."""

    median: float
    least: float
    most: float


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the table, measured.

    Attributes:
        name: The race's and the aim's.
        title: What is measured.
        unit: Of `ours` and `peer`.
        compared: See `Aim`.
        limit: See `Aim`.
        judged: The ratio, value or difference; None where it could not be measured.
        ours: The median of ours.
        peer: That of the other, if there is one.
        cpu: Seconds of the processor of both tasks' whole processes.
        peaks: MiB that both held at most, over all rounds.
        rounds: How many were measured.
        missing: Why it could not be measured.
    """

    name: str
    title: str
    unit: str
    compared: Compared
    limit: float | None
    judged: Spread | None = None
    ours: float | None = None
    peer: float | None = None
    cpu: tuple[float | None, float | None] = (None, None)
    peaks: tuple[float | None, float | None] = (None, None)
    rounds: int = 0
    missing: str = ""

    @property
    def met(self) -> bool | None:
        """True if the aim is met; None where there is no aim, or no figure."""
        return None if self.judged is None or self.limit is None else self.judged.median <= self.limit


def lines(race: Race, result: Result) -> Iterator[Line]:
    """Yield the lines of a race that was run."""
    for aim in race.aims:
        plain = Line(f"{race.name}/{aim.name}", aim.title, aim.quantity.unit, aim.compared, aim.limit)
        needed = (aim.task,) if aim.compared == "value" else (aim.task, aim.peer)
        rounds = [each for each in result.rounds if all(task in each for task in needed)]
        if rounds:
            yield _measured(plain, aim, rounds)
        else:
            yield replace(
                plain, missing="; ".join(dict.fromkeys(result.missing[t] for t in needed if t in result.missing))
            )


def _measured(plain: Line, aim: Aim, rounds: Sequence[Round]) -> Line:
    """Return the line with what the rounds say; every one has what is needed."""
    beside = bool(aim.peer) and all(aim.peer in each for each in rounds)
    ours = [aim.quantity.of(each[aim.task]) for each in rounds]
    peer = [aim.quantity.of(each[aim.peer]) for each in rounds] if beside else []

    def of_both(figure: str, summed: Callable[[Sequence[float]], float]) -> tuple[float | None, float | None]:
        found = [
            [each[task][figure] for each in rounds if figure in each.get(task, {})] for task in (aim.task, aim.peer)
        ]
        one, two = (summed(figures) if figures else None for figures in found)
        return one, two

    return replace(
        plain,
        judged=spread(judged(aim.compared, ours, peer)),
        ours=statistics.median(ours),
        peer=statistics.median(peer) if peer else None,
        cpu=of_both("cpu", statistics.median),
        peaks=of_both("peak_mib", max),
        rounds=len(rounds),
    )


def judged(compared: Compared, ours: Sequence[float], peer: Sequence[float]) -> list[float]:
    """Return what is judged, of every round: a pair is of one round."""
    if compared == "value":
        return list(ours)
    pairs = zip(ours, peer, strict=True)
    return [a / b for a, b in pairs] if compared == "ratio" else [a - b for a, b in pairs]


def spread(figures: Sequence[float]) -> Spread:
    """Return the median of some figures, the least and the most."""
    return Spread(statistics.median(figures), min(figures), max(figures))
