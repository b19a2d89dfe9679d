"""Exports on clusters: a real dask scheduler with two worker processes, one of which is killed in the middle."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from ckpt_gui.core.clusters import cluster
from ckpt_gui.core.errors import Cancelled, CheckpointError
from ckpt_gui.core.export import Export, Target
from ckpt_gui.core.formats import open_checkpoint
from ckpt_gui.core.normalise import understand
from ckpt_gui.core.retarget import retarget
from ckpt_gui.core.writer import write_export
from tests.core import models

ROOT = Path(__file__).resolve().parents[2]
SHARD = 6_000  # bytes: many files
START_SECONDS = 60


@dataclass
class Dask:
    url: str
    file: Path
    workers: list[subprocess.Popen[bytes]]
    scheduler: subprocess.Popen[bytes]


@pytest.fixture
def dask(tmp_path: Path) -> Iterator[Dask]:
    """A scheduler and two workers, in processes of their own."""
    distributed = pytest.importorskip("distributed")
    file = tmp_path / "scheduler.json"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "DASK_DISTRIBUTED__WORKER__DAEMON": "False"}

    def start(*words: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", *words], env=environment, cwd=tmp_path, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip

    with_file = ("--scheduler-file", str(file))
    running = [
        start("distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--no-show",
              *with_file)
    ]  # fmt: skip
    try:
        _wait(file.exists)
        worker = (
            "distributed.cli.dask_worker",
            "--host",
            "127.0.0.1",
            "--nthreads",
            "1",
            "--no-nanny",
            "--no-dashboard",
        )
        running += [start(*worker, *with_file) for _ in range(2)]
        with distributed.Client(scheduler_file=str(file), set_as_default=False) as client:
            client.wait_for_workers(2, timeout=START_SECONDS)
            address = client.scheduler.address
        yield Dask(address.replace("tcp:", "dask:"), file, running[1:], running[0])
    finally:
        for process in reversed(running):
            process.kill()
            process.wait()


def _wait(done) -> None:
    end = time.monotonic() + START_SECONDS
    while not done():
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.fixture
def export(tmp_path: Path) -> Iterator[Export]:
    folder = models.save(tmp_path / "in", models.state("meta"), name="consolidated.00.pth", config=models.config())
    with open_checkpoint(folder) as source:
        yield retarget(understand(source), Target("hf", max_shard_bytes=SHARD))


def held(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_worker_that_is_killed_in_the_middle_costs_nothing_but_time(
    dask: Dask, export: Export, tmp_path: Path
) -> None:
    write_export(export, tmp_path / "alone")
    done: list[str] = []
    told: list[str] = []

    def note(label: str, _done: int, _total: int) -> None:
        if label.startswith("Wrote"):
            if not done:
                dask.workers[0].send_signal(signal.SIGKILL)
            done.append(label)

    with cluster(dask.url, told.append) as executor:
        result = write_export(export, tmp_path / "out", executor=executor, progress=note)
        _wait(lambda: told)
    assert told == ["The cluster has lost 1 worker, 1 is left: what it was writing is written again by another."]
    assert dask.workers[0].wait(60) == -signal.SIGKILL
    assert len(done) == len(set(done)) > 5
    assert result.verified == result.tensors
    assert held(tmp_path / "out") == held(tmp_path / "alone")
    assert not [name for name in os.listdir(tmp_path) if name.startswith(".") or "part" in name]


def test_whole_files_are_kept_when_the_scheduler_is_lost(
    dask: Dask, export: Export, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    write_export(export, tmp_path / "alone")
    capfd.readouterr()

    def note(label: str, _done: int, _total: int) -> None:
        if label.startswith("Wrote"):
            dask.scheduler.send_signal(signal.SIGKILL)

    with pytest.raises(CheckpointError, match=r"scheduler does not answer") as raised, cluster(dask.url) as executor:
        write_export(export, tmp_path / "out", executor=executor, progress=note)
    assert raised.value.code == "cluster-failed"
    assert "Traceback" not in capfd.readouterr().err
    assert not (tmp_path / "out").exists()
    result = write_export(export, tmp_path / "out", resume=True)
    assert result.resumed >= 1
    assert held(tmp_path / "out") == held(tmp_path / "alone")


def test_an_export_that_no_worker_is_left_for_can_be_stopped(dask: Dask, export: Export, tmp_path: Path) -> None:
    told: list[str] = []
    begun = False

    def note(label: str, _done: int, _total: int) -> None:
        nonlocal begun
        if label.startswith("Wrote") and not begun:
            begun = True
            for worker in dask.workers:
                worker.send_signal(signal.SIGKILL)

    with pytest.raises(Cancelled), cluster(dask.url, told.append) as executor:
        write_export(
            export, tmp_path / "out", executor=executor, progress=note, cancelled=lambda: "none left" in "".join(told)
        )
    assert told[-1].endswith("has none left: the export waits for another.")
    assert sorted(os.listdir(tmp_path)) == ["in", "scheduler.json"]


def test_the_same_by_a_scheduler_file_on_the_command_line(dask: Dask, export: Export, tmp_path: Path) -> None:
    words = ["fix", str(tmp_path / "in"), "-o", str(tmp_path / "out"), "--to", "hf", "--max-shard-size", str(SHARD)]
    words += ["--cluster", f"dask+file:{dask.file}"]
    run = [sys.executable, "-m", "ckpt_gui.cli.main", *words]
    ended = subprocess.run(run, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    write_export(export, tmp_path / "alone")
    assert held(tmp_path / "out") == held(tmp_path / "alone")


def test_workers_that_run_another_version_are_refused(dask: Dask, monkeypatch: pytest.MonkeyPatch) -> None:
    from ckpt_gui.core import clusters

    def other() -> str:
        return "0.0.1-other"

    sent = clusters.version
    monkeypatch.setattr(clusters, "version", lambda: other())
    client_run = __import__("distributed").Client.run
    monkeypatch.setattr("distributed.Client.run", lambda self, _f, **more: client_run(self, sent, **more))
    with pytest.raises(CheckpointError, match=r"here it is version 0\.0\.1-other"), cluster(dask.url):
        pass


def test_processes_of_this_machine(export: Export, tmp_path: Path) -> None:
    write_export(export, tmp_path / "alone")
    with cluster("processes:2") as executor:
        write_export(export, tmp_path / "out", executor=executor)
    assert held(tmp_path / "out") == held(tmp_path / "alone")


@pytest.mark.parametrize(
    "url",
    [
        "",
        "dask",
        "dask://",
        "dask://host:port",
        "dask://host:1/a",
        "http://x",
        "processes:0",
        "processes:many",
        "mpi:x",
    ],
)
def test_what_names_no_cluster_is_said(url: str) -> None:
    with pytest.raises(CheckpointError, match="names no cluster") as caught, cluster(url):
        pass
    assert caught.value.code == "cluster-failed"


def test_a_scheduler_that_does_not_answer_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr("ckpt_gui.core.clusters.CONNECT_SECONDS", 1)
    with pytest.raises(CheckpointError, match=r"No dask scheduler answers at dask://127\.0\.0\.1:9"):  # noqa: SIM117
        with cluster("dask://127.0.0.1:9"):
            pass


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("dask://head", "tcp://head:8786"),
        ("dask://head:99/", "tcp://head:99"),
        ("dask://[::1]", "tcp://[::1]:8786"),
    ],
)
def test_a_scheduler_is_looked_for_at_its_usual_port(url: str, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed")
    asked = []

    def client(**where: object) -> None:
        asked.append(where["address"])
        raise OSError("nobody")

    monkeypatch.setattr("distributed.Client", client)
    with pytest.raises(CheckpointError, match="No dask scheduler answers"), cluster(url):
        pass
    assert asked == [address]


def test_a_scheduler_file_that_never_comes_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("ckpt_gui.core.clusters.CONNECT_SECONDS", 0.1)
    with pytest.raises(CheckpointError, match="There is no scheduler file"), cluster(f"dask+file:{tmp_path / 'none'}"):
        pass


def test_mpi_ranks_write_the_same(export: Export, tmp_path: Path) -> None:
    pytest.importorskip("mpi4py", reason="mpi4py and an MPI are not among what the tests install")
    mpiexec = shutil.which("mpiexec", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if mpiexec is None:
        pytest.skip("there is no mpiexec")
    words = ["fix", str(tmp_path / "in"), "-o", str(tmp_path / "out"), "--to", "hf", "--max-shard-size", str(SHARD)]
    run = [mpiexec, "-n", "3", sys.executable, "-m", "mpi4py.futures", "-m", "ckpt_gui.cli.main", *words]
    ended = subprocess.run([*run, "--cluster", "mpi:"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    write_export(export, tmp_path / "alone")
    assert held(tmp_path / "out") == held(tmp_path / "alone")
