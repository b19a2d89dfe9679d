"""The guards of these tests themselves: each fault fails the test that made it, with the line that did."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CONFTEST = """
from tests.gui import patience
from tests.gui.conftest import _app_as_before, _no_leaks, _settings_in_tmp

patience.SECONDS = 0.3


def pytest_sessionfinish(session):
    session.items[0].module.end.set()
"""
FAULTY = """
import threading

from PySide6.QtCore import QRunnable, QThread, QThreadPool, QTimer, qWarning
from PySide6.QtWidgets import QPushButton, QWidget

kept = []
end = threading.Event()


def keep(it):
    kept.append(it)
    return it


def test_timer(qapp):
    keep(QTimer()).start(1000)  # the timer's line


def test_thread(qapp):
    keep(QThread()).start()  # the thread's line


def test_python_thread(qapp):
    keep(threading.Thread(target=end.wait, name="sleeper")).start()


class Task(QRunnable):
    def run(self):
        end.wait()


def test_pool(qapp):
    QThreadPool.globalInstance().start(keep(Task()))  # the pool's line


def test_widget(qapp):
    keep(QWidget()).setWindowTitle("left alone")


def test_warning(qapp):
    qWarning("something is wrong")


def test_slot(qtbot):
    button = QPushButton()
    qtbot.addWidget(button)
    button.clicked.connect(lambda: 1 / 0)
    button.click()


def test_letters(qapp):
    font = qapp.font()
    font.setPointSizeF(font.pointSizeF() + 3)
    qapp.setFont(font)


def test_good(qtbot):
    button = QPushButton()
    qtbot.addWidget(button)
    button.show()
"""


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return what pytest says of tests that are faulty on purpose."""
    folder = tmp_path_factory.mktemp("faulty")
    file = folder / "test_faulty.py"
    (folder / "conftest.py").write_text(CONFTEST, encoding="utf-8")
    file.write_text(FAULTY, encoding="utf-8")
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", str(ROOT / "pyproject.toml")]
    environment = {**os.environ, "QT_QPA_PLATFORM": "offscreen", "PYTHONPATH": str(ROOT)}
    options = ["--rootdir", str(folder), "--override-ini", "faulthandler_timeout=0", str(file)]
    done = subprocess.run([*words, *options], cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    return done.stdout


@pytest.mark.parametrize(
    ("test", "words"),
    [
        ("timer", "keep(QTimer()).start(1000)"),
        ("thread", "keep(QThread()).start()"),
        ("python_thread", "Python thread 'sleeper'"),
        ("pool", "QThreadPool.globalInstance().start(keep(Task()))"),
        ("widget", "QWidget titled 'left alone'"),
        ("letters", "letters of"),
    ],
)
def test_what_is_left_behind_fails_its_test(report: str, test: str, words: str) -> None:
    assert re.search(rf"^ERROR \S+::test_{test}\b", report, re.MULTILINE)
    assert words in report


def test_warnings_and_slots_fail_their_tests(report: str) -> None:
    assert "FAILED" in report
    assert "::test_warning" in report
    assert "something is wrong" in report
    assert "::test_slot" in report
    assert "ZeroDivisionError" in report


def test_what_leaves_nothing_passes(report: str) -> None:
    assert "test_good" not in report
