"""An export as jobs: the same bytes on any executor, done twice or by another process; failure and cancel stop all."""

from __future__ import annotations

import json
import multiprocessing
import os
import pickle
import threading
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import pytest

from ckpt_gui.core import shards
from ckpt_gui.core.api import write
from ckpt_gui.core.errors import Cancelled, CheckpointError
from ckpt_gui.core.export import Export, Target
from ckpt_gui.core.formats import open_checkpoint
from ckpt_gui.core.formats.memory import from_state_dict
from ckpt_gui.core.normalise import understand
from ckpt_gui.core.out_files import plan_files
from ckpt_gui.core.retarget import retarget
from ckpt_gui.core.shards import STOP, ShardJob, job_digest, make_jobs, run_shard
from ckpt_gui.core.writer import write_export
from tests.core import models
from tests.core.formats.test_ranks import rank_files

SHARD = 20_000  # bytes: some files


@pytest.fixture(scope="module")
def processes() -> Iterator[ProcessPoolExecutor]:
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield pool


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return models.save(tmp_path / "in", models.state("meta"), name="consolidated.00.pth", config=models.config())


@pytest.fixture
def export(folder: Path) -> Iterator[Export]:
    with open_checkpoint(folder) as source:
        yield retarget(understand(source), Target("hf", max_shard_bytes=SHARD))


def jobs_of(export: Export, folder: Path) -> tuple[ShardJob, ...]:
    return make_jobs(export, plan_files(export)[0], folder, sha256=False)


def held(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("target", [Target("hf", max_shard_bytes=SHARD), Target("meta"), Target("hf", dtype="fp16")])
def test_the_same_bytes_on_every_executor(
    folder: Path, tmp_path: Path, processes: ProcessPoolExecutor, target: Target
) -> None:
    with open_checkpoint(folder) as source:
        export = retarget(understand(source), target)
        alone = write_export(export, tmp_path / "alone", sha256=True)
        with ThreadPoolExecutor(3) as threads:
            for name, executor in (("threads", threads), ("processes", processes)):
                told: list[tuple[int, int]] = []

                def note(_: str, done: int, total: int, told: list[tuple[int, int]] = told) -> None:
                    told.append((done, total))

                result = write_export(export, tmp_path / name, sha256=True, executor=executor, progress=note)
                assert held(tmp_path / name) == held(tmp_path / "alone")
                assert (result.tensors, result.verified, result.nbytes) == (
                    alone.tensors, alone.verified, alone.nbytes)  # fmt: skip
                assert told[-1][0] == told[-1][1] > 0
                assert [done for done, _ in told] == sorted(done for done, _ in told)
    assert sorted(os.listdir(tmp_path)) == ["alone", "in", "processes", "threads"]


def test_write_takes_an_executor(export: Export, tmp_path: Path) -> None:
    with ThreadPoolExecutor(2) as pool:
        write(export.plan, tmp_path / "out", "hf", max_shard_bytes=SHARD, executor=pool)
    assert models.opened(tmp_path / "out") == models.as_bytes(models.state("hf"))


def test_a_job_is_small_and_can_be_sent(export: Export, tmp_path: Path) -> None:
    jobs = jobs_of(export, tmp_path)
    assert len(jobs) > 3
    for job in jobs:
        sent = pickle.dumps(job)
        assert len(sent) < 2_000 + 1_000 * len(job.file.parts)
        assert job_digest(pickle.loads(sent)) == job_digest(job)
    assert len({job_digest(job) for job in jobs}) == len(jobs)


def test_a_job_done_twice(export: Export, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    job = jobs_of(export, out)[1]
    first = run_shard(job)
    before = held(out)
    again = run_shard(pickle.loads(pickle.dumps(job)))
    assert held(out) == before
    assert list(before) == [job.name]
    assert (again.digest, again.filled, again.nbytes) == (first.digest, first.filled, len(before[job.name]))


def test_the_digest_is_of_the_plan_and_not_of_the_place(folder: Path, tmp_path: Path) -> None:
    with open_checkpoint(folder) as source:
        plan = understand(source)
        one, other, half = (
            {job_digest(job) for job in jobs_of(retarget(plan, target), place)}
            for target, place in (
                (Target("hf"), tmp_path / "a"), (Target("hf"), tmp_path / "b"), (Target("hf", dtype="fp16"), tmp_path))
        )  # fmt: skip
    assert one == other != half


def test_a_source_that_changed_is_refused_by_the_job(export: Export, folder: Path, tmp_path: Path) -> None:
    job = jobs_of(export, tmp_path)[0]
    os.utime(folder / "consolidated.00.pth", ns=(1, 1))
    with pytest.raises(CheckpointError, match=r"not as it was when the export was planned") as caught:
        run_shard(job)
    assert caught.value.path == str(folder / "consolidated.00.pth")
    assert os.listdir(tmp_path) == ["in"]


def test_a_job_stops_at_the_word(export: Export, tmp_path: Path) -> None:
    (tmp_path / STOP).touch()
    with pytest.raises(Cancelled):
        run_shard(jobs_of(export, tmp_path)[0])
    assert sorted(os.listdir(tmp_path)) == [STOP, "in"]


def test_the_failure_of_a_job_ends_the_export(export: Export, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, names = shards.fill_file, []

    def failing(path: Path, file: Any, *rest: Any) -> Any:
        names.append(file.name)
        if file.name.startswith("model-00003"):
            raise OSError(28, "No space left on device")
        return real(path, file, *rest)

    monkeypatch.setattr(shards, "fill_file", failing)
    with ThreadPoolExecutor(1) as pool, pytest.raises(CheckpointError, match="No space left"):
        write_export(export, tmp_path / "out", executor=pool)
    assert len(names) <= 4  # the others were never begun, but perhaps for one
    assert os.listdir(tmp_path) == ["in"]


def test_an_error_keeps_its_parts_on_the_way_from_a_process(
    export: Export, folder: Path, tmp_path: Path, processes: ProcessPoolExecutor
) -> None:
    job = jobs_of(export, tmp_path)[0]
    os.utime(folder / "consolidated.00.pth", ns=(1, 1))
    with pytest.raises(CheckpointError) as caught:
        processes.submit(run_shard, job).result()
    assert (caught.value.code, caught.value.path) == ("damaged", str(folder / "consolidated.00.pth"))
    assert "Plan it again" in str(caught.value.fix)


def test_a_cancel_stops_running_jobs(export: Export, tmp_path: Path) -> None:
    stopped = threading.Event()

    class Slow(Executor):
        """Begins the first job and never ends it before it is told to."""

        def submit(self, fn: Any, /, *args: Any, **options: Any) -> Future[Any]:
            future: Future[Any] = Future()
            if not stopped.is_set() and not hasattr(self, "thread"):
                future.set_running_or_notify_cancel()
                self.thread = threading.Thread(target=self._run, args=(future, args[0]))
                self.thread.start()
            return future

        def _run(self, future: Future[Any], job: ShardJob) -> None:
            while not Path(job.folder, STOP).exists():
                stopped.wait(0.01)
            try:
                future.set_result(run_shard(job))
            except Cancelled as error:
                stopped.set()
                future.set_exception(error)

    with pytest.raises(Cancelled):
        write_export(export, tmp_path / "out", executor=Slow(), cancelled=lambda: True)
    assert stopped.is_set()
    assert os.listdir(tmp_path) == ["in"]


def test_a_worker_that_dies_is_told(export: Export, tmp_path: Path) -> None:
    class Broken(Executor):
        def submit(self, fn: Any, /, *args: Any, **options: Any) -> Future[Any]:
            future: Future[Any] = Future()
            future.set_exception(BrokenProcessPool("a child process terminated abruptly"))
            return future

    with pytest.raises(CheckpointError, match="ended without a word"):
        write_export(export, tmp_path / "out", executor=Broken())
    assert os.listdir(tmp_path) == ["in"]


def test_what_is_in_memory_is_written_here(tmp_path: Path) -> None:
    with from_state_dict(models.state("hf")) as source:
        export = retarget(understand(source), Target("hf"))
        with ThreadPoolExecutor(1) as pool, pytest.raises(CheckpointError, match="held in memory"):
            write_export(export, tmp_path / "out", executor=pool)
        write_export(export, tmp_path / "out")
    assert json.loads((tmp_path / "out" / "EXPORT_REPORT.json").read_text())["tensors"]


def test_what_is_opened_as_a_whole_is_opened_again_so(tmp_path: Path) -> None:
    """Files of ranks whose tensors are put together: no file of theirs could be read alone."""
    pytest.importorskip("torch")
    with open_checkpoint(rank_files(tmp_path / "in")) as source:
        export = retarget(understand(source), Target("same", "safetensors"))
        with ThreadPoolExecutor(1) as pool:
            write_export(export, tmp_path / "out", executor=pool)
        with open_checkpoint(tmp_path / "out") as made:
            assert {r.key: made.read(r) for r in made.refs} == {r.key: source.read(r) for r in source.refs}
