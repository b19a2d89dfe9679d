"""The rows of the benchmark: that every aim has one, and that each can be picked."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench.__main__ import main
from tests.bench.bench import Bench
from tests.bench.files import SMALLER, size_that_fits
from tests.bench.rows import fits, races
from tests.bench.window import FIGURES, FIRST, flat

# What is aimed at: row, limit at most, how it is judged. The figures were set before anything was built.
TARGETS = (
    ("open-pth/time", 0.05, "ratio"),
    ("open-pth/memory", 40, "value"),
    ("open-70b/time", 0.01, "value"),
    ("open-many-safetensors/time", 0.7, "ratio"),
    ("open-many-safetensors/memory", 220, "value"),
    ("open-many-pth/time", 0.2, "ratio"),
    ("open-many-pth/memory", 220, "value"),
    ("open-500k/memory", 773, "value"),
    ("check-llama-3.1-70b/time", 2, "value"),
    ("check-deepseek-v3/time", 2, "value"),
    ("check-500k/memory", 1024, "value"),
    ("figures/time", 0.1, "ratio"),
    ("figures/memory", 80, "value"),
    ("figures-cold/time", 1.2, "ratio"),
    ("compare/cmp", 0.75, "ratio"),
    ("compare/torch", 0.35, "ratio"),
    ("compare/memory", 60, "value"),
    ("export-same/cp", 1.2, "ratio"),
    ("export-same/cp-synced", 1.2, "ratio"),
    ("export-same/cp-verified", 2, "ratio"),
    ("export-same/memory", 64.3, "value"),
    ("export-same/load-save", 0.4, "ratio"),
    ("export-same/load-save-memory", 1 / 40, "ratio"),
    ("export-same/transformers", 0.25, "ratio"),
    ("export-same/transformers-memory", 1 / 40, "ratio"),
    ("export-hf/cp", 1.2, "ratio"),
    ("export-hf/cp-synced", 1.2, "ratio"),
    ("export-hf/cp-verified", 2, "ratio"),
    ("export-hf/memory", 64.3, "value"),
    ("export-hf/torchtune", 0.25, "ratio"),
    ("export-hf/torchtune-memory", 1 / 40, "ratio"),
    ("export-fp16/cp", 1.6, "ratio"),
    ("export-pth/cp", 1.4, "ratio"),
    ("export-pth/torch-save", 0.25, "ratio"),
    ("export-pth/checksums", 0, "value"),
    ("window-start/time", 0.25, "ratio"),
    ("memory-8b/8B", 10, "more"),
    ("memory-export/10 GB", 10, "more"),
    ("memory-export/100 GB", 10, "more"),
    ("memory-scan/10 GB", 10, "more"),
    ("memory-scan/100 GB", 10, "more"),
    ("memory-figures/10 GB", 10, "more"),
    ("memory-figures/100 GB", 10, "more"),
    ("plan-1.4tb/memory", 1024, "value"),
    ("window-many-500k/rows", 3, "value"),
    ("window-many-500k/memory", 1024, "value"),
    ("window-keys-100k/key", 0.1, "value"),
    ("window-keys-500k/stall", 50, "value"),
)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "bench", oracles=tmp_path / "none")


def test_every_aim_is_a_row(bench: Bench) -> None:
    aims = {f"{race.name}/{aim.name}": aim for race in races(bench) for aim in race.aims}
    for name, limit, compared in TARGETS:
        found = aims[name].limit
        assert found is not None, name
        assert (found <= limit, aims[name].compared) == (True, compared), name


def test_listing_the_rows_makes_no_file(bench: Bench) -> None:
    assert list(races(bench))
    assert not bench.folder.exists()


def test_names_of_rows_are_told_apart_and_every_task_is_there(bench: Bench) -> None:
    names = []
    for race in races(bench):
        tasks = {task.name for task in race.tasks}
        assert len(tasks) == len(race.tasks)
        assert "ours" in tasks
        assert {aim.task for aim in race.aims} | {aim.peer for aim in race.aims if aim.peer} <= tasks
        assert all(aim.peer for aim in race.aims if aim.compared != "value")
        names += [f"{race.name}/{aim.name}" for aim in race.aims]
    assert len(set(names)) == len(names)


def test_a_quick_run_leaves_out_what_takes_minutes_and_nothing_else(bench: Bench) -> None:
    whole = {race.name for race in races(bench)}
    quick = {race.name for race in races(Bench(bench.folder, oracles=bench.oracles, quick=True))}
    assert whole - quick == {
        "open-500k", "check-500k", "plan-500k", "memory-8b", "window-many-500k", "window-keys-500k",
        "window-replaced-500k",
    }  # fmt: skip
    assert quick <= whole


def test_rows_are_picked_by_name_by_beginning_and_by_pattern(bench: Bench) -> None:
    assert [race.name for race in races(bench, ["open-70b"])] == ["open-70b"]
    assert [race.name for race in races(bench, ["export-h", "comp"])] == ["export-hf", "compare"]
    assert fits("figures-cold", ["*-cold"])
    assert fits("figures-cold", [])
    assert not fits("figures-cold", ["cold"])


def test_a_smaller_size_where_the_disk_has_no_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def room(free: int) -> None:
        monkeypatch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": free}))

    room(20 << 30)
    assert size_that_fits(tmp_path, "1b") == "1b"
    room(5 << 30)
    assert size_that_fits(tmp_path, "1b") == SMALLER
    (tmp_path / "llama-1b").mkdir()
    assert size_that_fits(tmp_path, "1b") == "1b"


def test_the_names_are_listed_on_request(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list", "--folder", str(tmp_path), "--size", "mini"]) == 0
    assert "export-hf\n" in capsys.readouterr().out


def test_a_name_that_no_row_has_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--rows", "opne", "--folder", str(tmp_path), "--size", "mini"]) == 2
    assert capsys.readouterr().err == "No row is called opne; --list names them.\n"


def test_nothing_kept_yet_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--kept", "--folder", str(tmp_path), "--size", "mini"]) == 1
    assert "Nothing was kept" in capsys.readouterr().err


def test_only_scenes_in_which_somebody_types_have_a_row_about_keys(bench: Bench) -> None:
    """A row whose figure nobody measures would end the whole run."""
    phases = {"many": "filter: q_proj", "keys": "type exp", "replaced": "close", "scan": "scan of all values"}
    for race in races(bench, ["window-many-100k", "window-keys-100k", "window-replaced-100k", "window-scan"]):
        title = phases[race.name.split("-")[1]]
        sample = flat([{"title": each, **dict.fromkeys((*FIGURES, "answered"), 1.0)} for each in (title, FIRST)])
        assert all(aim.quantity.of(sample) > 0 for aim in race.aims), race.name
