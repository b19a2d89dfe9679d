"""What the benchmark keeps of its runs, and what it says of a version that is slower than another."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from tests.bench.lines import Line, Spread
from tests.bench.results import NAME, about, compared, keep, kept, records, sizes, this_machine, this_version

TIME = Line("open/time", "open", "s", "ratio", 0.5, Spread(0.4, 0.38, 0.44), 1.0, 2.5, (1.0, 2.0), (40.0, 200.0), 3)
SIZE = Line("size/8B", "size", "MiB", "more", 10.0, Spread(2.0, 1.0, 3.0), 50.0, 48.0, (1.0, 1.0), (50.0, 48.0), 3)


def told(folder: Path, *now: Line, tolerance: float = 1.25) -> list[str]:
    found = [*records(folder, "1b"), {"version": "now", "rows": {}}]
    return list(compared(found, now, tolerance))


def at(line: Line, median: float, least: float, most: float) -> Line:
    return replace(line, judged=Spread(median, least, most))


def test_what_was_kept_comes_back_as_it_was(tmp_path: Path) -> None:
    missing = Line("tune/time", "tune", "s", "ratio", 0.25, missing="it is not there")
    keep(tmp_path, "1b", [TIME, missing, SIZE], "1")
    assert kept(records(tmp_path, "1b")) == [TIME, missing, SIZE]
    assert kept([]) == records(tmp_path, "tiny") == []
    assert sizes(tmp_path) == ["1b"]
    assert "Version 1, size 1b" in about(records(tmp_path, "1b")[0])


def test_rows_of_several_runs_are_put_together_and_the_newest_counts(tmp_path: Path) -> None:
    keep(tmp_path, "1b", [TIME, SIZE], "1")
    again = at(TIME, 0.3, 0.3, 0.3)
    keep(tmp_path, "1b", [again], "1")
    assert kept(records(tmp_path, "1b")) == [again, SIZE]
    keep(tmp_path, "1b", [SIZE], "2")
    assert kept(records(tmp_path, "1b")) == [SIZE]


def test_lines_of_another_form_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / NAME).write_text(json.dumps({"version": "0.1.0", "size": "1b", "ratios": {"open": 1.0}}) + "\n")
    assert records(tmp_path, "1b") == []
    keep(tmp_path, "1b", [TIME], "1")
    assert len(records(tmp_path, "1b")) == 1


def test_slower_than_another_version_by_more_than_noise(tmp_path: Path) -> None:
    keep(tmp_path, "1b", [TIME], "1")
    assert told(tmp_path, at(TIME, 0.6, 0.55, 0.7)) == ["open/time: was 0.4 (1), now 0.6: slower"]
    assert told(tmp_path, at(TIME, 0.6, 0.39, 0.7)) == []  # one round was as quick as before
    assert told(tmp_path, at(TIME, 0.45, 0.44, 0.46)) == []
    assert told(tmp_path, at(TIME, 0.45, 0.44, 0.46), tolerance=1.1) == ["open/time: was 0.4 (1), now 0.45: slower"]
    assert told(tmp_path, at(TIME, 0.2, 0.18, 0.25)) == ["open/time: was 0.4 (1), now 0.2: faster"]


def test_a_row_is_held_against_the_newest_of_another_version_not_against_its_own(tmp_path: Path) -> None:
    keep(tmp_path, "1b", [TIME], "1")
    keep(tmp_path, "1b", [SIZE], "1")  # only some rows
    keep(tmp_path, "1b", [at(TIME, 0.6, 0.6, 0.6)], "now")
    keep(tmp_path, "1b", [replace(TIME, judged=None)], "3")  # could not be measured
    assert told(tmp_path, at(TIME, 0.6, 0.6, 0.6)) == ["open/time: was 0.4 (1), now 0.6: slower"]


def test_more_memory_is_told_by_megabytes(tmp_path: Path) -> None:
    keep(tmp_path, "1b", [TIME, SIZE], "1")
    assert told(tmp_path, at(SIZE, 11.0, 10.5, 12.0)) == ["size/8B: was 2 (1), now 11: more"]
    assert told(tmp_path, at(SIZE, 9.0, 8.0, 10.0)) == []
    assert told(tmp_path, replace(TIME, peaks=(55.0, 200.0))) == ["open/time: held 40 MiB (1), now 55: more memory"]
    assert told(tmp_path, replace(TIME, peaks=(47.0, 200.0))) == []


def test_nothing_is_said_of_a_first_run(tmp_path: Path) -> None:
    assert told(tmp_path, TIME) == []


def test_version_and_machine_are_told() -> None:
    assert this_version()
    assert "compiled kernels" in this_machine()
