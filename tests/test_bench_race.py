"""The benchmark's arithmetic: pairs of one round, medians over rounds, what is missing, and the table's words."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.bench.lines import Line, Spread, judged, lines
from tests.bench.process import Failed, Processes, Sample, measured, told
from tests.bench.pythons import python_with
from tests.bench.race import PEAK, WALL, Aim, Quantity, Race, Task, run
from tests.bench.table import markdown, plain


def turns(*walls: float, peak: float = 50.0) -> Callable[[], Sample]:
    """Return a task that takes these times, one after the other."""
    left: Iterator[float] = iter(walls)
    return lambda: {"wall": next(left), "cpu": 1.0, "peak_mib": peak}


def failing() -> Sample:
    raise Failed("it fell over")


def race(*tasks: Task, aims: tuple[Aim, ...], **more: object) -> Race:
    return Race("some", tasks, aims, **more)  # type: ignore[arg-type]


def test_a_ratio_is_the_median_over_pairs_of_one_round() -> None:
    # The medians of both sides are 2 and 4; no pair has that ratio of 0.5.
    aim = Aim("time", "it", 0.9, peer="cp")
    both = race(Task("ours", turns(1, 2, 9)), Task("cp", turns(4, 2, 10)), aims=(aim,))
    [line] = lines(both, run(both, 3, 60))
    assert (line.judged, line.ours, line.peer, line.rounds) == (Spread(0.9, 0.25, 1.0), 2, 4, 3)
    assert line.name == "some/time"
    assert line.met is True


def test_a_round_runs_every_task_before_the_next_round_begins() -> None:
    order: list[str] = []

    def task(name: str) -> Task:
        return Task(name, lambda: order.append(name) or {"wall": 1.0})

    run(race(task("ours"), task("cp"), task("torch"), aims=()), 2, 60)
    assert order == ["ours", "cp", "torch"] * 2


def test_no_round_is_begun_after_the_patience_is_over_but_one_is_measured() -> None:
    assert len(run(race(Task("ours", turns(1, 2)), aims=()), 5, 0.0).rounds) == 1


def test_a_race_has_the_rounds_that_it_needs_if_so_many_are_asked_for() -> None:
    some = race(Task("ours", turns(1, 2, 3)), aims=(), least=2)
    assert len(run(some, 5, 0.0).rounds) == 2
    some = race(Task("ours", turns(1, 2, 3)), aims=(), least=2)
    assert len(run(some, 1, 0.0).rounds) == 1


def test_a_race_that_needs_fewer_rounds_gets_no_more() -> None:
    assert len(run(race(Task("ours", turns(1, 2)), aims=(), runs=2), 5, 60).rounds) == 2


def test_values_and_differences_are_judged_without_a_ratio() -> None:
    assert judged("value", [3.0, 5.0], []) == [3.0, 5.0]
    assert judged("more", [60.0, 61.0], [50.0, 40.0]) == [10.0, 21.0]
    assert judged("ratio", [3.0, 5.0], [6.0, 5.0]) == [0.5, 1.0]


def test_a_quantity_leaves_out_phases_that_a_peer_does_not_have() -> None:
    before = Quantity("ms", ("wall",), ("verify", "sync"), 1000)
    assert before.of({"wall": 3.0, "verify": 0.5, "sync": 1.0}) == 1500
    assert before.of({"wall": 3.0}) == 3000


def test_a_peer_that_is_missing_or_fails_costs_its_lines_and_no_others() -> None:
    aims = (Aim("a", "a", 2.0, peer="gone"), Aim("b", "b", 2.0, peer="broken"), Aim("c", "c", 60.0, PEAK, "value"))
    some = race(
        Task("ours", turns(1, 2)), Task("gone", failing, "it is not installed"), Task("broken", failing), aims=aims
    )
    a, b, c = lines(some, run(some, 2, 60))
    assert (a.judged, a.met, a.missing) == (None, None, "it is not installed")
    assert (b.judged, b.missing) == (None, "it fell over")
    assert c.judged == Spread(50.0, 50.0, 50.0)


def test_a_value_is_judged_where_what_stands_beside_it_is_missing() -> None:
    aim = Aim("a", "a", 2.0, WALL, "value", peer="gone")
    some = race(Task("ours", turns(1)), Task("gone", failing, "no"), aims=(aim,))
    [line] = lines(some, run(some, 1, 60))
    assert (line.ours, line.peer, line.met) == (1, None, True)


def test_files_that_cannot_be_made_are_the_reason_and_what_was_begun_is_removed() -> None:
    removed = []
    aim = Aim("time", "it", 1.0, WALL, "value")
    some = race(Task("ours", turns(1)), aims=(aim,), prepare=failing, finish=lambda: removed.append(True))
    [line] = lines(some, run(some, 2, 60))
    assert (line.judged, line.missing, removed) == (None, "it fell over", [True])


LINES = (
    Line("open/time", "open", "s", "ratio", 0.05, Spread(0.0301, 0.02, 0.05), 0.0604, 2.0, (0.1, 1.5), (21.2, 220), 3),
    Line("open/size", "size", "MiB", "more", 10.0, Spread(-2.0, -3.0, -1.0), 48.0, 50.0, peaks=(48.0, 50.0), rounds=3),
    Line("plan/time", "plan", "s", "value", None, Spread(1234.5, 1234.5, 1234.5), 1234.5, rounds=1),
    Line("tune/time", "tune", "s", "ratio", 0.25, missing="torchtune is not installed"),
    Line("tune/memory", "memory", "MiB", "ratio", 0.025, missing="torchtune is not installed"),
)  # fmt: skip


def test_the_table_as_markdown() -> None:
    text = markdown(LINES).splitlines()
    assert text[2] == "| open | 60.4 ms | 2 s | 0.0301 × | 0.02 – 0.05 | ≤ 0.05 × | met | 0.1 s / 1.5 s | 21.2 MiB |"
    assert text[3] == "| size | 48 MiB | 50 MiB | -2 MiB | -3 – -1 | ≤ +10 MiB | met | – | 48 MiB |"
    assert text[4] == "| plan | 1,234 s | – | 1,234 s | one run | – |  | – | – |"
    assert text[-1] == "- `tune/time`, `tune/memory`: torchtune is not installed"
    assert len({line.count("|") for line in text[:5]}) == 1


def test_a_spread_is_told_in_the_unit_of_its_median() -> None:
    line = Line("a", "a", "s", "value", 0.01, Spread(0.085, 0.08, 0.12), 0.085, rounds=2)
    assert "| 85 ms | 80 – 120 | ≤ 10 ms | MISSED |" in markdown([line])


def test_the_table_for_a_terminal_names_each_row() -> None:
    text = plain(LINES)
    assert [line.split()[0] for line in text.splitlines()[1:4]] == ["open/time", "open/size", "plan/time"]


def test_an_aim_that_is_not_reached_is_told() -> None:
    assert "MISSED" in plain([Line("a", "a", "s", "value", 1.0, Spread(1.5, 1.0, 2.0), 1.5, rounds=2)])


def test_a_process_is_measured_from_outside() -> None:
    sample, printed = measured(["sh", "-c", "echo hello"])
    assert printed == "hello\n"
    assert 0 < sample["wall"] < 60
    assert sample["cpu"] >= 0


def test_a_process_that_fails_says_what_it_said_last() -> None:
    with pytest.raises(Failed, match="ended with 3: that was all"):
        measured(["sh", "-c", "echo first >&2; echo that was all >&2; exit 3"])
    assert measured(["sh", "-c", "exit 3"], status=3)[1] == ""


def test_a_job_that_tells_nothing_fails() -> None:
    assert told('{"open": 1}\nsomething of a profiler\n') == {"open": 1}
    with pytest.raises(Failed, match="no figures"):
        told("something\n")


def test_what_stands_before_our_jobs_does_not_stand_before_those_of_peers(tmp_path: Path) -> None:
    processes = Processes(before=("sh", "-c", 'echo "{}" ; echo "$@" > ' + str(tmp_path / "words"), "x"))
    assert "wall" in processes.job("open_ours", "nothing")
    assert "tests.bench.job open_ours nothing" in (tmp_path / "words").read_text()
    with pytest.raises(Failed):
        processes.job("no_such_job", module="tests.bench.peers")


def test_the_interpreter_that_has_what_a_peer_needs(tmp_path: Path) -> None:
    assert python_with(("json", "numpy"), tmp_path / "python")
    assert python_with(("no_such_module_anywhere",), tmp_path / "python") == ""
