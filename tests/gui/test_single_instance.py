"""One process for all starts: two real processes, one of which hands over and ends; and the door itself."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import QEvent, QUrl
from PySide6.QtGui import QFileOpenEvent
from PySide6.QtWidgets import QApplication, QPushButton
from pytestqt.qtbot import QtBot

from ckpt_gui.core.remote.address import real_address, redacted
from ckpt_gui.desktop.instance import LONGEST, TAKEN, Request, hand_over
from ckpt_gui.desktop.resources import SAMPLE, resource
from ckpt_gui.gui import arrivals as arrivals_module
from ckpt_gui.gui import door as door_module
from ckpt_gui.gui.arrivals import Arrivals
from ckpt_gui.gui.door import Door
from ckpt_gui.gui.main_window import MainWindow
from ckpt_gui.gui.settings import Settings
from ckpt_gui.gui.theme import Theme
from ckpt_gui.gui.windows import Windows
from tests.gui import patience

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="sockets in folders")
# Says what each window shows whenever that changes, and ends when it is asked to.
FIRST = """
import sys
from ckpt_gui.gui import app, door, windows
door.PATIENCE = 60_000
class Talking(windows.Windows):
    def add(self, path="", **more):
        window = super().add(path, **more)
        window.settled.connect(lambda: print("settled", window.session.path, flush=True))
        return window
    def add_batch(self, paths=()):
        window = super().add_batch(paths)
        print("batch", len(window.queue.rows), flush=True)
        return window
app.Windows = Talking
print("start", flush=True)
sys.exit(app.run(sys.argv[1:]))
"""
# A start of the program that believes in the first one for longer than a busy machine takes to answer.
SECOND = """
import sys
from ckpt_gui.desktop import instance
instance.PATIENCE = 60
from ckpt_gui.cli.entry import main
sys.exit(main())
"""


@pytest.fixture
def place() -> Iterator[Path]:
    """A short path: a socket's address has about a hundred bytes."""
    with tempfile.TemporaryDirectory(prefix="ck") as folder:
        os.chmod(folder, 0o700)
        yield Path(folder)


@pytest.fixture
def door(place: Path) -> Iterator[Door]:
    made = Door()
    assert made.open(str(place / "s"))
    yield made
    made.close()
    made.deleteLater()


def environment(place: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in ("DISPLAY", "WAYLAND_DISPLAY")}
    own = {"QT_QPA_PLATFORM": "offscreen", "XDG_RUNTIME_DIR": str(place), "XDG_CONFIG_HOME": str(place / "config")}
    return kept | own | {"XDG_STATE_HOME": str(place / "state"), "PYTHONPATH": os.getcwd()}


def second(place: Path, *words: str) -> int:
    command = [sys.executable, "-c", SECOND, *words]
    return subprocess.run(command, env=environment(place), timeout=300, check=False).returncode


def test_a_second_start_hands_its_paths_to_the_first(place: Path, tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", FIRST], env=environment(place), stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "start\n"
        deadline = time.monotonic() + patience.SECONDS
        while not [path for path in place.iterdir() if path.is_socket()]:
            assert time.monotonic() < deadline, "nobody listens"
            time.sleep(0.05)
        sample = str(resource(SAMPLE))
        assert second(place, sample, "--filter", "weight") == 0
        assert process.stdout.readline() == f"settled {sample}\n"
        bad = tmp_path / "bad.pt"
        bad.write_text("no checkpoint")
        assert second(place, str(bad), "--new-window") == 0
        assert process.stdout.readline() == f"settled {bad}\n"
        assert second(place, sample, str(bad)) == 0
        assert process.stdout.readline() == "batch 2\n"
    finally:
        process.terminate()
        process.wait(patience.SECONDS)
        process.stdout.close()
    assert not [path for path in place.iterdir() if path.is_socket()], "the door is taken away at the end"


def test_a_request_reaches_the_window(door: Door, place: Path, qtbot: QtBot) -> None:
    asked = Request(("/m/a.pt",), filter="w")
    with qtbot.waitSignal(door.wanted) as heard:
        talk = subprocess.Popen([
            sys.executable, "-c",
            "import sys; from ckpt_gui.desktop.instance import Request, hand_over;"
            "sys.exit(not hand_over(sys.argv[1], Request(('/m/a.pt',), filter='w')))",
            str(place / "s"),
        ])  # fmt: skip
    assert heard.args == [asked]
    qtbot.waitUntil(lambda: talk.poll() is not None)
    assert talk.returncode == 0


def guest(place: Path) -> socket.socket:
    made = socket.socket(socket.AF_UNIX)
    made.connect(str(place / "s"))
    made.setblocking(False)
    return made


def answer(line: socket.socket, qtbot: QtBot) -> bytes:
    """Return all that is said until the other side hangs up."""
    said = b""

    def ended() -> bool:
        nonlocal said
        try:
            part = line.recv(100)
        except BlockingIOError:
            return False
        except ConnectionResetError:
            return True
        said += part
        return not part

    qtbot.waitUntil(ended)
    return said


@pytest.mark.allow_log("shown out")
@pytest.mark.parametrize("said", [b"hello\n", b"\xff\n", b'{"version": 1, "paths": 3}\n', b"[" * 100_000 + b"\n"])
def test_nonsense_is_shown_out(door: Door, place: Path, qtbot: QtBot, said: bytes) -> None:
    heard: list[Request] = []
    door.wanted.connect(heard.append)
    with guest(place) as line:
        line.setblocking(True)
        line.sendall(said)
        line.setblocking(False)
        assert answer(line, qtbot) == b""
    assert heard == []


def test_who_talks_without_end_is_shown_out(door: Door, place: Path, qtbot: QtBot) -> None:
    with guest(place) as line:
        sent = 0

        def shown_out() -> bool:
            nonlocal sent
            try:
                sent += line.send(b"x" * 65536)
            except BlockingIOError:
                return False
            except (BrokenPipeError, ConnectionResetError):
                return True
            return False

        qtbot.waitUntil(shown_out)
    assert sent < LONGEST + (4 << 20), "what the system's own buffers take"


def test_who_says_nothing_is_shown_out(place: Path, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door_module, "PATIENCE", 50)
    door = Door()
    assert door.open(str(place / "s"))
    with guest(place) as line:
        assert answer(line, qtbot) == b""
    door.close()
    door.deleteLater()


def test_what_a_killed_process_left_is_cleared_away(place: Path, qtbot: QtBot) -> None:
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(place / "s"))
    door = Door()
    assert door.open(str(place / "s"))
    with guest(place) as line:
        line.send(Request().encode())
        assert answer(line, qtbot) == TAKEN
    other = Door()
    assert not other.open(str(place / "s")), "one that lives is left alone"
    assert not hand_over(str(place / "nowhere"), Request())
    for each in (door, other):
        each.close()
        each.deleteLater()


@pytest.fixture
def windows(qapp: QApplication) -> Iterator[Windows]:
    made = Windows(Settings(), Theme(qapp, "light"))
    yield made
    made.close_all()


def test_which_window_takes_a_request(windows: Windows, qtbot: QtBot, tmp_path: Path) -> None:
    first = windows.add()
    sample = str(resource(SAMPLE))
    with qtbot.waitSignal(first.settled):
        assert windows.take(Request((sample,), filter="norm", token="x")) is first, "nothing was open in it"
    assert first.tree_panel.filter_box.text() == "norm"
    assert os.environ.pop("XDG_ACTIVATION_TOKEN") == "x"
    other = windows.take(Request((str(tmp_path / "a.pt"),)))
    assert other is not first, "what is open stays"
    windows._settings.reuses_window = True
    third = windows.take(Request((str(tmp_path / "b.pt"),), new_window=True))
    assert third not in (first, other)
    first.session.change_policy(tie="keep")
    other.close()
    third.close()  # type: ignore[union-attr]
    qtbot.waitUntil(lambda: windows.open == [first])
    fourth = windows.take(Request((sample,)))
    assert fourth is not first, "an edited plan is not lost"
    qtbot.waitUntil(lambda: len(windows.open) == 2 and windows.open[1].session.snapshot is not None)


def test_secrets_come_over_and_are_not_shown(windows: Windows, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr(MainWindow, "open_path", lambda _self, path: opened.append(path))
    windows.take(Request(("https://me:secret@host/a.pt?sig=1",)))
    assert opened == [redacted("https://me:secret@host/a.pt?sig=1")]
    assert "secret" not in opened[0]
    assert real_address(opened[0]) == "https://me:secret@host/a.pt?sig=1"


def test_files_from_the_finder_are_taken(qapp: QApplication, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrivals_module, "address", lambda: "")
    arrivals = Arrivals(qapp, files=True)
    with qtbot.waitSignal(arrivals.wanted) as heard:
        QApplication.sendEvent(qapp, QFileOpenEvent(QUrl.fromLocalFile("/m/a.safetensors")))
    assert heard.args == [Request(("/m/a.safetensors",))]
    QApplication.sendEvent(qapp, QEvent(QEvent.Type.User))
    arrivals.open()  # it is tried, and there is no place for it
    qapp.removeEventFilter(arrivals)
    arrivals.deleteLater()


def test_a_recent_checkpoint_opens_in_a_window_of_its_own(windows: Windows, qtbot: QtBot) -> None:
    windows._settings.add_recent(str(resource(SAMPLE)))
    first = windows.add()
    (action,) = [
        action
        for opener in first.start_page.findChildren(QPushButton)
        for action in opener.actions()
        if action.text() == "Open in a new window"
    ]
    action.trigger()
    assert len(windows.open) == 2
    qtbot.waitUntil(lambda: windows.open[1].session.snapshot is not None)
    assert first.session.path is None
    windows.open[1].actions_by_id["new-window"].trigger()
    assert len(windows.open) == 3
    qtbot.waitUntil(lambda: windows.open[2].session.snapshot is not None)
