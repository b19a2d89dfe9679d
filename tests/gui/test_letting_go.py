"""What a large checkpoint leaves behind is freed by a job; what is held elsewhere stays whole."""

from __future__ import annotations

import weakref

import pytest
from pytestqt.qtbot import QtBot

from ckpt_gui.core.diff import Row
from ckpt_gui.core.tree import CheckpointIndex
from ckpt_gui.gui import letting_go
from ckpt_gui.gui.jobs import JobManager
from ckpt_gui.gui.letting_go import LettingGo, free


class Value:
    """Something whose end can be watched."""


class Holder:
    """Something that holds values in all the ways that are taken apart."""

    def __init__(self, count: int) -> None:
        self.values = [Value() for _ in range(count)]
        self.pair = (tuple(Value() for _ in range(count)), {n: Value() for n in range(count)})
        self.few = [Value()]


def test_large_lists_tuples_and_dicts_are_emptied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(letting_go, "LARGE", 10)
    held = Holder(50)
    seen = [
        weakref.ref(each)
        for part in (held.values, *held.pair)
        for each in (part.values() if isinstance(part, dict) else part)
    ]
    seen += map(weakref.ref, held.few)
    kept = held.values
    things: list[object] = [held]
    del held
    free(things)
    assert things == []
    assert [ref() for ref in seen[:50]] == kept, "what somebody else holds is whole"
    assert not any(ref() for ref in seen[50:])


def index(count: int) -> CheckpointIndex:
    return CheckpointIndex([Row("same", f"l.{n}.w", "", (2,), None, "bf16", 4, None) for n in range(count)])


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch) -> JobManager:
    monkeypatch.setattr(letting_go, "LISTED_FROM", 100)
    monkeypatch.setattr(letting_go, "WAIT_MS", 0)
    return JobManager()


@pytest.fixture
def begun(jobs: JobManager) -> list[object]:
    found: list[object] = []
    jobs.started.connect(found.append)
    return found


def test_large_ones_go_in_a_job_and_small_ones_at_once(qtbot: QtBot, jobs: JobManager, begun: list[object]) -> None:
    going = LettingGo(jobs)
    small, large = index(3), index(200)
    seen = weakref.ref(small), weakref.ref(large)
    going.take(small, large, None)
    del small
    assert seen[0]() is None
    del large
    assert seen[1]() is not None, "panels may still show it"
    qtbot.waitUntil(lambda: seen[1]() is None)
    qtbot.waitUntil(lambda: not jobs.running())
    assert len(begun) == 1
    jobs.shutdown()


def test_no_job_begins_after_the_end(qtbot: QtBot, jobs: JobManager, begun: list[object]) -> None:
    going, large = LettingGo(jobs), index(200)
    seen = weakref.ref(large)
    going.take(large)
    del large
    jobs.shutdown()
    qtbot.waitUntil(lambda: seen() is None)
    assert begun == []
