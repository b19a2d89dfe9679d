"""The list of jobs: what each says while it waits, runs, ends and fails; exports that go on when another is opened."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import Qt, QUrl
from PySide6.QtGui import QDesktopServices, QGuiApplication
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from ckpt_gui.core.batch import judge
from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.export import Target
from ckpt_gui.core.pace import SPAN, Pace
from ckpt_gui.gui.jobs import End, Job
from ckpt_gui.gui.main_window import MainWindow
from ckpt_gui.gui.models import job_book
from ckpt_gui.gui.panels import export_check
from ckpt_gui.gui.panels.jobs_panel import JobRow, JobsPanel
from ckpt_gui.gui.panels.log_panel import LogPanel
from ckpt_gui.gui.widgets.made_later import MadeLater
from tests.gui import patience
from tests.gui.windows import make_window

SAMPLE = Path(__file__).resolve().parents[2] / "resources" / "sample"


@pytest.fixture
def window(qtbot: QtBot, qapp: QApplication) -> MainWindow:
    made = make_window(qtbot, qapp)
    made.ask_to_close = lambda _window, _lines: True
    return made


def panel_of(window: MainWindow) -> JobsPanel:
    place = window.docks["jobs"].widget()
    assert isinstance(place, MadeLater)
    panel = place.made()
    assert isinstance(panel, JobsPanel)
    return panel


def log_of(window: MainWindow) -> LogPanel:
    place = window.docks["log"].widget()
    assert isinstance(place, MadeLater)
    panel = place.made()
    assert isinstance(panel, LogPanel)
    return panel


def start(window: MainWindow, title: str, work: Callable[[Job], Any], **more: Any) -> tuple[Job, Callable[[], JobRow]]:
    panel = panel_of(window)
    job = window.jobs.start(title, work, lambda _: None, lambda _: None, **more)
    return job, lambda: panel.rows[job.number]


def until_cancelled(job: Job) -> None:
    while not job.cancelled():
        time.sleep(0.005)


def test_jobs_run_side_by_side_wait_and_are_stopped_one_by_one(window: MainWindow, qtbot: QtBot) -> None:
    rows = [start(window, f"Work {n}", until_cancelled)[1] for n in range(3)]
    qtbot.waitUntil(lambda: [row().news.text() for row in rows] == ["runs", "runs", "waits"])
    assert window.docks["jobs"].windowTitle() == "Jobs 3"
    qtbot.mouseClick(rows[2]().stop_button, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: rows[2]().news.text() == "Stopped.")  # it never ran
    qtbot.mouseClick(rows[0]().stop_button, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: rows[0]().news.text() == "Stopped.")
    assert rows[1]().news.text() == "runs"
    assert rows[1]().accessibleName() == "Work 1: runs. runs"
    assert window.docks["jobs"].windowTitle() == "Jobs 1"
    window.jobs.cancel(window.jobs.running()[0])
    qtbot.waitUntil(lambda: window.docks["jobs"].windowTitle() == "Jobs")
    panel = panel_of(window)
    assert len(panel.rows) == 3
    qtbot.mouseClick(panel.clear_button, Qt.MouseButton.LeftButton)
    assert not panel.rows
    assert panel.empty.isVisibleTo(panel)


def test_progress_says_bytes_percent_and_how_long(
    window: MainWindow, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter(range(0, 1000, 10))

    class SteadyPace(Pace):
        def note(self, now: float, done: int, total: int) -> None:
            super().note(next(clock), done, total)

    monkeypatch.setattr(job_book, "Pace", SteadyPace)
    go = threading.Event()

    def work(job: Job) -> None:
        for done in (0, 25, 50):
            job.progress("writing", done << 20, 100 << 20)
            time.sleep(0.06)
        go.wait(patience.SECONDS)

    _, row = start(window, "Exporting to /x", work)
    qtbot.waitUntil(lambda: row().news.text() == "writing: 50 % · 50.0 MiB of 100 MiB · about 20 s left")
    assert row().bar.value() == 500
    go.set()
    qtbot.waitUntil(lambda: row().news.text() == "done")
    assert not row().bar.isVisibleTo(row())


def test_the_pace_is_that_of_late() -> None:
    pace = Pace()
    assert pace.seconds_left() is None
    for second in range(100):
        pace.note(second, 10 * second, 10_000)
    for second in range(100, 100 + 2 * int(SPAN)):
        pace.note(second, 1000 + second - 100, 10_000)  # ten times slower
    assert pace.seconds_left() == pytest.approx(10_000 - 1000 - 2 * SPAN + 1, rel=0.01)
    pace.note(300, 0, 500)  # the next part
    assert pace.seconds_left() is None


def test_what_failed_keeps_its_sentence_and_its_report(window: MainWindow, qtbot: QtBot) -> None:
    def fail(_job: Job) -> None:
        raise CheckpointError("damaged", "It is `broken`.", fix="Get it again.")

    def crash(_job: Job) -> None:
        raise ZeroDivisionError("by zero")

    _, expected = start(window, "One", fail)
    _, crashed = start(window, "Two", crash, quiet=True)
    qtbot.waitUntil(lambda: expected().news.text() == "It is “broken”. Get it again.")
    qtbot.waitUntil(lambda: "inside the program" in crashed().news.text())
    qtbot.mouseClick(expected().copy_button, Qt.MouseButton.LeftButton)
    assert QGuiApplication.clipboard().text() == "One: It is `broken`. Get it again.\n"
    qtbot.mouseClick(crashed().copy_button, Qt.MouseButton.LeftButton)
    assert "ZeroDivisionError: by zero" in QGuiApplication.clipboard().text()
    assert "Traceback" in QGuiApplication.clipboard().text()
    log = log_of(window)
    lines = log.text.toPlainText().splitlines()
    assert [line[10:] for line in lines if "One" in line] == ["One", "One: It is `broken`. Get it again."]
    qtbot.mouseClick(log.copy_button, Qt.MouseButton.LeftButton)
    assert QGuiApplication.clipboard().text() == log.text.toPlainText()


def test_names_from_files_are_shown_as_they_are(window: MainWindow, qtbot: QtBot) -> None:
    _, row = start(window, "Exporting to <b>x</b>\x1b[31m\u202e", lambda _: None)
    qtbot.waitUntil(lambda: row().news.text() == "done")
    assert row().title.text() == "Exporting to <b>x</b>\\x1b[31m\\u202e"
    assert row().title.textFormat() == Qt.TextFormat.PlainText
    assert log_of(window).text.toPlainText().splitlines()[-1].endswith("<b>x</b>\\x1b[31m\\u202e")


def test_what_nobody_would_miss_leaves_no_trace(window: MainWindow, qtbot: QtBot) -> None:
    job, _ = start(window, "Looking", lambda _: None, quiet=True)
    qtbot.waitUntil(lambda: job.number not in panel_of(window).rows)
    assert window.docks["jobs"].windowTitle() == "Jobs"
    assert not window.job_book.lines


def test_only_the_latest_that_ended_are_listed(
    window: MainWindow, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_book, "KEPT", 3)
    for n in range(5):
        start(window, f"Work {n}", lambda _: None)
    qtbot.waitUntil(lambda: not window.jobs.running())
    assert len(panel_of(window).rows) == 3


def test_what_is_used_is_closed_only_when_the_job_has_ended(window: MainWindow, qtbot: QtBot) -> None:
    thing, closed = object(), []
    job, _ = start(window, "Exporting", until_cancelled, uses=(thing,))
    window.jobs.once_unused(thing, lambda: closed.append(1))
    assert not closed
    window.jobs.cancel(job)
    qtbot.waitUntil(lambda: closed == [1])
    window.jobs.once_unused(thing, lambda: closed.append(2))
    assert closed == [1, 2], "nobody uses it: at once"


def test_a_result_tells_where_it_is(window: MainWindow, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[QUrl] = []
    monkeypatch.setattr(QDesktopServices, "openUrl", shown.append)
    opened: list[str] = []
    panel_of(window).open_wanted.connect(opened.append)
    monkeypatch.setattr(window.session, "open", lambda *_, **__: None)
    _, row = start(window, "Exporting", lambda _: 7, says=lambda n: End(f"{n} files.", "/out"))
    qtbot.waitUntil(lambda: row().news.text() == "7 files.")
    qtbot.mouseClick(row().folder_button, Qt.MouseButton.LeftButton)
    qtbot.mouseClick(row().open_button, Qt.MouseButton.LeftButton)
    assert (shown, opened) == ([QUrl.fromLocalFile("/out")], ["/out"])


def exporting(
    window: MainWindow, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch, source: Path, target: Path
) -> threading.Event:
    """Open a checkpoint, start an export of it that waits in the middle, and return what lets it go on."""
    go, waits, whole = threading.Event(), threading.Event(), export_check.write_export

    def slow(*args: Any, progress: Callable[[str, int, int], None], **more: Any) -> Any:
        def told(label: str, done: int, total: int) -> None:
            if done * 3 > total:
                waits.set()
                go.wait(patience.SECONDS)
            progress(label, done, total)

        return whole(*args, progress=told, **more)

    monkeypatch.setattr(export_check, "write_export", slow)
    with qtbot.waitSignal(window.settled):
        window.open_path(str(source))
    window.commands.export()
    dialog = window.commands.dialog
    assert dialog is not None
    dialog.set_folder(str(target))
    qtbot.waitUntil(dialog.export_button.isEnabled)
    dialog.start()
    qtbot.waitUntil(waits.is_set)
    return go


def test_an_export_goes_on_while_another_checkpoint_is_opened(
    window: MainWindow, qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(SAMPLE, tmp_path / "in")
    source, target = tmp_path / "in" / "tiny-llama-compiled.pt", tmp_path / "out"
    go = exporting(window, qtbot, monkeypatch, source, target)
    first = window.session.snapshot
    assert first is not None
    with qtbot.waitSignal(window.settled):
        window.open_path(str(SAMPLE / "tiny-llama-compiled.pt"))
    assert window.session.snapshot is not first
    assert [job.title[:12] for job in window.jobs.running() if not job.quiet] == ["Exporting to"]
    assert window.docks["jobs"].windowTitle() == "Jobs 1"
    go.set()
    qtbot.waitUntil(lambda: not window.jobs.running())
    row = next(iter(panel_of(window).rows.values()))
    assert row.news.text().startswith("Written and verified: 29 tensors, ")
    assert judge(str(target), Target("hf")).state == "clean"


def test_an_export_goes_on_when_its_dialog_is_hidden(
    window: MainWindow, qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go = exporting(window, qtbot, monkeypatch, SAMPLE / "tiny-llama-compiled.pt", tmp_path / "out")
    dialog = window.commands.dialog
    assert dialog is not None
    qtbot.mouseClick(dialog.progress_page.hide_button, Qt.MouseButton.LeftButton)
    assert not dialog.isVisible()
    assert dialog.run.running
    go.set()
    qtbot.waitUntil(lambda: not dialog.run.running)
    window.commands.export()
    assert dialog.result_page.banner.text.startswith("Written and verified 29/29")


def test_opening_does_not_wait_for_exports(window: MainWindow, qtbot: QtBot) -> None:
    for n in range(3):
        start(window, f"Exporting {n}", until_cancelled, export=True)
    with qtbot.waitSignal(window.settled):
        window.open_path(str(SAMPLE / "tiny-llama-compiled.pt"))
    assert len([job for job in window.jobs.running() if job.begun]) == 2
