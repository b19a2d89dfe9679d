"""What is said of an exception, and what a copied report holds and hides."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from ckpt_gui.core.errors import Cancelled, CheckpointError
from ckpt_gui.gui.error_report import error_report, error_sentence, is_expected, without_home
from ckpt_gui.gui.jobs import Job, JobManager
from ckpt_gui.gui.widgets.trouble_line import TroubleLine


def raised(error: Exception) -> Exception:
    try:
        raise error
    except Exception as caught:  # noqa: BLE001 - to have a trace
        return caught


def test_every_error_has_a_sentence_without_its_trace() -> None:
    assert error_sentence(Cancelled()) == "Stopped."
    assert (
        error_sentence(CheckpointError("x", "It ends early.", fix="Copy it again.")) == "It ends early. Copy it again."
    )
    assert error_sentence(PermissionError(13, "Permission denied")) == "The system says: Permission denied."
    assert error_sentence(MemoryError()) == "There is not enough memory for this."
    assert error_sentence(KeyError()) == "Something went wrong inside the program (KeyError)."
    assert is_expected(CheckpointError("x", "y"))
    assert not is_expected(OSError())


def test_a_report_has_versions_the_command_and_the_trace(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    home = str(Path(__file__).parents[2])
    monkeypatch.setenv("HOME", home)
    monkeypatch.setenv("USERPROFILE", home)
    text = error_report(raised(ValueError(f"odd \x1b[31m {home}/m.pt")), f"ckpt-gui check {home}/m.pt")
    assert "To repeat: ckpt-gui check ~/m.pt" in text
    assert f"Python {sys.version.split()[0]}" in text
    assert "PySide6" in text
    assert "Traceback (most recent call last):" in text
    assert f"~{os.sep}tests{os.sep}gui{os.sep}test_error_report.py" in text
    assert home not in text
    assert "\x1b" not in text


def test_only_the_home_folder_is_shortened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/")
    monkeypatch.setenv("USERPROFILE", "/")
    assert without_home("/a/b") == "/a/b"


def test_a_job_that_fails_is_told_at_its_place(qtbot: QtBot, qapp: QApplication) -> None:
    jobs = JobManager()
    jobs.command = lambda: "ckpt-gui check m.pt"
    line = TroubleLine(jobs)
    qtbot.addWidget(line)
    line.show()

    def fail(_job: Job) -> None:
        raise RuntimeError("a fault")

    with qtbot.waitSignal(jobs.finished):
        jobs.start("Counting", fail, lambda _: None, line.say_error)
    assert line.text() == "Something went wrong inside the program (RuntimeError: a fault)."
    assert "Traceback" not in line.text()
    line.copy_button.click()
    copied = QGuiApplication.clipboard().text()
    assert "To repeat: ckpt-gui check m.pt" in copied
    assert "in fail" in copied
    line.say_error(CheckpointError("truncated", "`w` ends early."))
    assert line.text() == "“w” ends early. Download or copy it again."
    assert not line.copy_button.isVisible(), "the sentence tells it all"
    line.say("")
    assert not line.isVisible()
    jobs.shutdown()
