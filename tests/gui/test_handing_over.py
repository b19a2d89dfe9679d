"""Work that hands something over waits until that is painted: beside a busy thread it takes several times as long."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from PySide6.QtGui import QPaintEvent
from PySide6.QtWidgets import QLabel
from pytestqt.qtbot import QtBot

from ckpt_gui.gui import jobs
from ckpt_gui.gui.jobs import Job, JobManager


class Shown(QLabel):
    """Remembers when it was painted."""

    painted = 0.0

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        self.painted = time.monotonic()


@pytest.fixture
def manager() -> Iterator[JobManager]:
    made = JobManager()
    yield made
    made.shutdown()


def test_work_goes_on_once_what_it_handed_over_is_painted(qtbot: QtBot, manager: JobManager) -> None:
    label, went_on = Shown(), []
    qtbot.addWidget(label)

    def work(job: Job) -> None:
        job.hand("found")
        went_on.append(time.monotonic())

    def part(text: str) -> None:
        label.setText(text)
        label.show()

    with qtbot.waitSignal(manager.finished):
        manager.start("work", work, lambda _: None, lambda _: None, part=part)
    assert 0 < label.painted < went_on[0]


def test_work_does_not_wait_for_ever(qtbot: QtBot, manager: JobManager, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "PATIENCE", 0.01)
    monkeypatch.setattr(Job, "go_on", lambda _: None)
    with qtbot.waitSignal(manager.finished):
        manager.start("work", lambda job: job.hand("found"), lambda _: None, lambda _: None)
