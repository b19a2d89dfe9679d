"""What all rows share: where the files are, how jobs are started, and which peers are there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from tests.bench.files import Files
from tests.bench.process import PEERS, Processes, Sample
from tests.bench.pythons import ORACLES, python_with
from tests.bench.race import Task


@dataclass
class Bench:
    """What a run of the benchmark was asked for.

    Attributes:
        folder: Where files are made, and outputs written: on the disk to be measured.
        size: A key of `shapes.SHAPES`.
        workers: Threads of ours, as a word.
        oracles: An interpreter that has the peers that this one lacks.
        quick: Leave out what takes minutes.
        processes: Starts the jobs.
    """

    folder: Path
    size: str = "1b"
    workers: str = "2"
    oracles: Path = ORACLES
    quick: bool = False
    processes: Processes = field(default_factory=Processes)

    @cached_property
    def files(self) -> Files:
        """The files to measure with."""
        return Files(self.folder, self.size, self.processes, self.oracles)

    def job(self, *words: str) -> Sample:
        """Run a job of ours (see `job`)."""
        return self.processes.job(*words)

    def ours(self, *words: str, name: str = "ours") -> Task:
        """Return a job of ours as a task."""
        return Task(name, lambda: self.job(*words))

    def peer(self, name: str, needs: Sequence[str], *words: str) -> Task:
        """Return a job of a peer (see `peers`) as a task; it is missing if no interpreter has what it needs."""
        return Task(name, self.peer_job(needs, *words), self.lack(*needs))

    def peer_job(self, needs: Sequence[str], *words: str) -> Callable[[], Sample]:
        """Return what runs a job of a peer."""
        return lambda: self.processes.job(*words, module=PEERS, python=python_with(needs, self.oracles) or "python")

    def lack(self, *needs: str) -> str:
        """Say why a peer cannot run; empty if it can."""
        if python_with(needs, self.oracles):
            return ""
        return f"no interpreter here has {' and '.join(needs)}: `make test-oracles` makes one, `--oracles` names one"
