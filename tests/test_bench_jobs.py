"""Every job of the benchmark once, on a model of a few kilobytes: that it runs, and that it does what it says."""

from __future__ import annotations

import json
import os
import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest

from ckpt_gui.core.formats import open_checkpoint
from ckpt_gui.core.stats import many_stats
from tests.bench import job, peers
from tests.bench.__main__ import main
from tests.bench.bench import Bench
from tests.bench.clusters import make_source, predicted
from tests.bench.exports import exports
from tests.bench.files import chill, warm
from tests.bench.plans import note
from tests.bench.process import measured
from tests.bench.race import run
from tests.bench.remote import remotes
from tests.bench.rows import races
from tests.bench.shapes import config, make_hf, nbytes, specs, tensor_count
from tests.bench.sparse import GROWING, MODELS, Shape, tensors, write_holes
from tests.bench.wide import count, make_many
from tests.bench.wide import tensors as wide_tensors
from tests.bench.window import flat, phases_table

MINI = 20  # tensors


@pytest.fixture(autouse=True)
def _own_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give `os.fsync` back: the job that exports puts its own there."""
    monkeypatch.setattr(os, "fsync", os.fsync)


@pytest.fixture
def hf(tmp_path: Path) -> Path:
    return make_hf(tmp_path / "hf", "mini")


@pytest.fixture
def weights(hf: Path) -> str:
    return str(hf / "model.safetensors")


def test_the_model_is_whole_and_kept(hf: Path) -> None:
    path = hf / "model.safetensors"
    before = path.stat().st_mtime_ns
    make_hf(hf, "mini")
    assert path.stat().st_mtime_ns == before
    assert path.stat().st_size > nbytes("mini")
    assert tensor_count("mini") == MINI
    warm(path)
    chill(path)


def test_the_same_in_fp32(tmp_path: Path) -> None:
    path = make_hf(tmp_path / "fp32", "mini", "fp32") / "model.safetensors"
    with open_checkpoint(path) as opened:
        assert {ref.dtype for ref in opened.refs} == {"fp32"}
        [one] = many_stats(opened, opened.refs[:1])
    assert one.std == pytest.approx(0.02, rel=0.05)


def test_a_job_imports_next_to_nothing_of_its_own() -> None:
    words = (
        "import sys, tests.bench.job; print(sorted({'pathlib', 'statistics', 'subprocess', 'numpy'} & {*sys.modules}))"
    )
    assert measured([sys.executable, "-c", words])[1] == "[]\n"


def test_export_tells_its_phases_and_the_disk(hf: Path, tmp_path: Path) -> None:
    figures = job.export(str(hf), str(tmp_path / "meta"), "meta", "2")
    assert {"plan", "write", "verify", "commit", "sync"} <= figures.keys()
    assert 0 < figures["sync"] <= figures["write"] + figures["commit"]
    assert figures["nbytes"] >= nbytes("mini")
    with zipfile.ZipFile(tmp_path / "meta" / "consolidated.00.pth") as opened:
        assert opened.testzip() is None


def test_opening(hf: Path, weights: str) -> None:
    assert job.open_ours(str(hf))["tensors"] == MINI
    assert job.open_again(str(hf))["again"] > 0
    assert peers.open_safetensors(weights)["tensors"] == MINI
    assert peers.open_safetensors(str(hf))["tensors"] == MINI
    assert peers.open_safetensors_again(weights)["again"] > 0


def test_check_ends_as_expected(hf: Path) -> None:
    assert job.check(str(hf), "0") == {"status": 0}
    with pytest.raises(RuntimeError, match="ended with 0"):
        job.check(str(hf), "1")


def test_figures_and_scan(weights: str) -> None:
    assert job.figures(weights, "2")["tensors"] == MINI
    assert job.figures(weights, "2", "0")["tensors"] == MINI
    assert job.scan(weights, "2")["tensors"] == MINI


def test_comparing(weights: str) -> None:
    assert job.compare(weights, weights, "2") == {"equal": MINI, "all": MINI}


def test_peers_of_torch(hf: Path, weights: str, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    job.export(str(hf), str(tmp_path / "meta"), "meta", "2")
    pth = str(tmp_path / "meta" / "consolidated.00.pth")
    assert peers.open_torch(pth)["tensors"] == MINI + 1  # the output head is named there
    assert peers.compare_torch(weights, weights) == {"equal": MINI, "all": MINI}
    assert peers.figures_torch(weights) == peers.plain_figures_torch(weights) == {}
    for name, words in (
        ("torch_save", (pth,)), ("load_and_save", (weights,)), ("load_half_and_save", (weights,)),
        ("as_torch", (weights,)),
    ):  # fmt: skip
        target = tmp_path / name
        assert peers.JOBS[name](*words, str(target)) == {}
        assert job.open_ours(str(target))["tensors"] in (MINI, MINI + 1)


def test_a_sample_of_the_files_of_a_large_model(tmp_path: Path) -> None:
    listed = list(specs("mini"))
    source = write_holes(tmp_path / "holes", listed, 5, config("mini"))
    assert len(list(source.glob("*.safetensors"))) == 5
    whole, some = (job.figures(str(source), "2", "0", every) for every in ("1", "4"))
    assert whole["tensors"] == MINI
    assert 0 < some["tensors"] < whole["tensors"]
    assert job.scan(str(source), "2", "4")["tensors"] == some["tensors"]


def test_an_export_of_a_sample_writes_only_that(tmp_path: Path, hf: Path) -> None:
    assert job.export_sample(str(hf), str(tmp_path / "out"), "8", "2") == {"jobs": 1, "written": 1}
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["model.safetensors"]


def test_models_that_grow_differ_in_nothing_but_their_size() -> None:
    listed = [list(tensors(shape.name)) for shape in GROWING]
    assert len({len(specs) for specs in listed}) == 1
    sizes = [sum(spec.nbytes for spec in specs) for specs in listed]
    assert [round(size / 1e9) for size in sizes] == [1, 10, 100]


def test_sizes_of_known_models() -> None:
    totals = {shape.name: sum(spec.numel for spec in tensors(shape.name)) / 1e9 for shape in MODELS}
    assert totals["Llama-3.1-70B"] == pytest.approx(70.55, abs=0.01)
    assert totals["Llama-3.1-405B"] == pytest.approx(405.9, abs=0.1)
    assert not any(spec.key.endswith("_scale_inv") for spec in tensors("DeepSeek-V3-bf16"))
    assert count("100k") == sum(1 for _ in wide_tensors("100k"))


def test_a_file_of_very_many_tensors(tmp_path: Path) -> None:
    path = tmp_path / "many" / "model.safetensors"
    make_many(path, 2000)
    assert job.figures(str(path), "2", "0")["tensors"] == 2000


def test_a_plan_says_what_it_took(hf: Path) -> None:
    figures = job.plan(str(hf), "8")
    assert (figures["tensors"], figures["files_read"], figures["job_count"]) == (MINI, 1, 1)
    assert f"{MINI} tensors in 1 files" in note([{"ours": figures}])


def test_the_model_on_paper() -> None:
    assert predicted(1200, 12, 1, 100) == 12
    assert predicted(1200, 12, 5, 100) == 3  # three rounds
    assert predicted(1200, 12, 12, 100, shared=100) == 36  # the file system is the limit
    assert predicted(1200, 12, 12, 100, start=2) == 3


def test_workers_write_what_they_should(tmp_path: Path) -> None:
    make_source(tmp_path / "in", 12 * 2 * 1024 * 4)
    figures = job.cluster(str(tmp_path / "in"), str(tmp_path / "out"), "1")
    assert figures["written"] > 0
    assert len(list((tmp_path / "out").glob("*.safetensors"))) == 12


def test_stalls_of_a_scene_are_the_worst_of_its_phases() -> None:
    plain = {"seconds": 0.2, "answered": 0.1, "stall": 0.3, "ours": 0.02, "own": 0.01, "over": 0, "peak_mib": 80.0}
    phases = [
        {**plain, "title": "open, to first rows", "seconds": 1.5},
        {**plain, "title": "type exp", "ours": 0.07, "peak_mib": 90.0},
        {**plain, "title": "filter: q_proj", "seconds": 0.25, "answered": 0.15},
    ]
    sample = flat(phases)
    assert (sample["longest"], sample["peak_mib"], sample["first_rows"], sample["key"]) == (0.07, 90.0, 1.5, 0.15)
    assert "| type exp | 0.20 s | 300 ms | 70 ms | 10 ms | 0 | 90 MiB |" in phases_table([{"ours": sample}])


@pytest.mark.skipif(not hasattr(os, "wait4"), reason="processes are measured with wait4")
def test_rows_from_the_command_line_are_measured_and_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--size", "mini", "--runs", "1", "--folder", str(tmp_path), "--oracles", str(tmp_path / "none")]
    assert main([*words, "--json", "--rows", "open-safetensors", "check-llama-3.1-70b"]) == 0
    found = {line["name"]: line for line in json.loads(capsys.readouterr().out)}
    assert found["open-safetensors/time"]["judged"]["median"] > 0
    assert found["check-llama-3.1-70b/memory"]["peaks"][0] > 1
    assert main([*words, "--kept", "--markdown"]) == 0
    assert "| open .safetensors, process, against safe_open |" in capsys.readouterr().out


def test_an_export_beside_cp_leaves_nothing_behind(tmp_path: Path) -> None:
    bench = Bench(tmp_path, "mini", oracles=tmp_path / "none")
    race = next(race for race in exports(bench) if race.name == "export-pth")
    two = type(race)(
        race.name, tuple(task for task in race.tasks if task.name in ("ours", "cp")), race.aims, race.prepare
    )
    [samples] = run(two, 1, 60).rounds
    assert samples["ours"]["damaged"] == 0
    assert samples["cp"]["sync"] < samples["cp"]["wall"]
    assert sorted(path.name for path in bench.files.work.iterdir()) == ["hf", "meta"]


def test_opening_over_http_beside_the_disk(tmp_path: Path) -> None:
    [race] = remotes(Bench(tmp_path, "mini"))
    [samples] = run(race, 1, 60).rounds
    assert 30 <= samples["ours"]["requests"] <= 70
    assert samples["disk"]["again"] > 0


@pytest.mark.skipif(find_spec("PySide6") is None, reason="PySide6 is not installed")
def test_the_window_is_painted_and_driven(tmp_path: Path) -> None:
    bench = Bench(tmp_path, "mini")
    picked = {race.name: race for race in races(bench, ["window-start", "window-scan"])}
    assert picked["window-start"].tasks[0].run()["peak_mib"] > 20
    scan = picked["window-scan"]
    [samples] = run(scan, 1, 60).rounds
    assert samples["ours"]["scan of all values|seconds"] > 0
    assert scan.note is not None
    assert "| scan of all values |" in scan.note([samples])


def test_a_shape_has_as_many_files_as_it_says(tmp_path: Path) -> None:
    shape = Shape("Llama-3.1-70B", 30)
    made = write_holes(tmp_path / "70b", list(tensors(shape.name)), shape.shards, {})
    assert len(list(made.glob("*.safetensors"))) == 30
    assert job.open_ours(str(made))["tensors"] == 723
