"""The log of a run: gone after a good end, told of once after a bad one."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from ckpt_gui.gui.crash_log import BAD, KEPT, add_versions, bad_ends, crash_log
from tests.gui.windows import make_window

# A window whose process does what the first argument says half a second after it was opened.
DIE = """
import faulthandler, os, signal, sys
from PySide6.QtCore import QTimer
from ckpt_gui.gui import app as gui

def act():
    if sys.argv[1] == "segv":
        faulthandler._sigsegv()
    elif sys.argv[1] == "raise":
        raise ValueError("nobody caught me")
    elif sys.argv[1] == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif sys.argv[1] == "wait":
        print("ready", flush=True)

app = gui.application()
QTimer.singleShot(500, act)
if sys.argv[1] == "raise":
    QTimer.singleShot(1000, app.quit)
sys.exit(gui.run([]))
"""


def run_and_die(tmp_path: Path, how: str) -> tuple[int, Path]:
    """Return the exit status of a window, and its folder of logs."""
    state = tmp_path / "state"
    environment = os.environ | {
        "QT_QPA_PLATFORM": "offscreen", "XDG_CONFIG_HOME": str(tmp_path / "config"), "XDG_STATE_HOME": str(state),
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", DIE, how], env=environment, capture_output=True, timeout=300, check=False
    )
    return done.returncode, state / "ckpt_gui" / "log"


@pytest.mark.skipif(sys.platform != "linux", reason="the folder of logs is set by XDG_STATE_HOME")
def test_native_code_that_kills_the_program_leaves_its_stacks(tmp_path: Path) -> None:
    status, folder = run_and_die(tmp_path, "segv")
    assert status == -signal.SIGSEGV
    logs = bad_ends(folder)
    assert len(logs) == 1
    text = logs[0].read_text()
    assert "Segmentation fault" in text
    assert "in act" in text
    assert "PySide6" in text
    assert bad_ends(folder) == (), "told once only"
    assert logs[0].exists(), "and kept"


@pytest.mark.skipif(sys.platform != "linux", reason="the folder of logs is set by XDG_STATE_HOME")
def test_a_session_that_was_killed_is_told_and_a_good_end_is_not(tmp_path: Path) -> None:
    status, folder = run_and_die(tmp_path, "kill")
    assert status == -signal.SIGKILL
    assert len(bad_ends(folder)) == 1
    status, folder = run_and_die(tmp_path, "raise")
    assert status == 0
    assert bad_ends(folder) == ()


def test_what_was_logged_is_in_it_while_the_program_runs(tmp_path: Path) -> None:
    with crash_log(tmp_path / "logs") as path:
        assert path is not None
        assert bad_ends(tmp_path / "logs") == (), "it is locked: the session lives"
        record = logging.LogRecord("ckpt_gui.x", logging.ERROR, __file__, 1, "Traceback: %s", ("odd\udcff",), None)
        logging.getLogger("ckpt_gui").handlers[-1].handle(record)
        assert "Traceback: odd\\udcff" in path.read_text()
        during = list(logging.getLogger("ckpt_gui").handlers)
    assert not path.exists()
    assert len(logging.getLogger("ckpt_gui").handlers) == len(during) - 1


def test_versions_come_once_there_is_time(tmp_path: Path) -> None:
    with crash_log(tmp_path / "logs") as path:
        assert path is not None
        add_versions(path)
        logging.getLogger("ckpt_gui").handlers[-1].handle(
            logging.LogRecord("ckpt_gui.x", logging.ERROR, __file__, 1, "after", (), None)
        )
        text = path.read_text()
    assert text.index("arguments: ") < text.index("numpy ") < text.index("after"), "nothing is written over"
    add_versions(None)
    add_versions(tmp_path / "none" / "log")


def test_no_log_where_none_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "logs").write_text("a file, not a folder")
    with crash_log(tmp_path / "logs") as path:
        assert path is None
    assert bad_ends(tmp_path / "logs") == ()


def test_only_the_newest_are_kept(tmp_path: Path) -> None:
    for number in range(KEPT + 3):
        log = tmp_path / f"window-{number}-x.log"
        log.write_text(str(number))
        os.utime(log, (number, number))
    found = bad_ends(tmp_path)
    assert [log.name for log in found] == [f"{BAD}{number}-x.log" for number in range(KEPT + 2, 2, -1)]
    assert len(list(tmp_path.iterdir())) == KEPT


def test_the_next_start_tells_of_it(qtbot: QtBot, qapp: QApplication, tmp_path: Path) -> None:
    window = make_window(qtbot, qapp)
    window.tell.bad_end(())
    assert window.notices.by_name == {}
    log = tmp_path / "ended-badly-1.log"
    log.write_text("Segmentation fault")
    window.tell.bad_end((log,))
    assert window.notices.text("bad-end") == f"The last session ended badly. Its log is {log}."
    buttons = window.notices.by_name["bad-end"].buttons
    assert list(buttons) == ["Copy log", "Open log", "Dismiss"]
    buttons["Copy log"].click()
    assert QGuiApplication.clipboard().text() == "Segmentation fault"
    assert "bad-end" in window.notices.by_name, "it can be copied and opened"
    buttons["Dismiss"].click()
    assert not window.notices.isVisible()


@pytest.mark.case(96)
@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_a_system_that_ends_the_program_ends_it_well(tmp_path: Path) -> None:
    state = tmp_path / "state"
    environment = os.environ | {
        "QT_QPA_PLATFORM": "offscreen", "XDG_CONFIG_HOME": str(tmp_path / "config"), "XDG_STATE_HOME": str(state),
    }  # fmt: skip
    folder = state / "ckpt_gui" / "log"
    words = [sys.executable, "-c", DIE, "wait"]
    with subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        assert [path.name[:7] for path in folder.iterdir()] == ["window-"]
        child.terminate()
    assert child.returncode == 0
    assert list(folder.iterdir()) == []
