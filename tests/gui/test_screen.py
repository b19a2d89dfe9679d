"""The window on a real screen: X11 with a window manager, driven from outside by keys and by a drag of another program.

`make test-screen` runs this under Xvfb with openbox and xdotool. The offscreen platform knows no window manager, no
drag and drop between programs, and ignores the wish for dark colours; here all of them are true.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = ROOT / "resources" / "sample" / "tiny-llama-compiled.pt"
NEEDED = ("Xvfb", "openbox", "xdotool")
PATIENCE = 40.0

pytestmark = [
    pytest.mark.xvfb,
    pytest.mark.skipif(
        any(shutil.which(name) is None for name in NEEDED), reason="needs Xvfb, openbox and xdotool (make test-screen)"
    ),
]

# The program as it is, in a process of its own; each second it tells a file what it shows.
WATCHED = """
import json, os, sys
from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QApplication
from ckpt_gui.gui import app as gui

out, *paths = sys.argv[1:]
add = gui.Windows.add

def watched(self, path="", **options):
    window = add(self, path, **options)
    timer = QTimer(window, interval=100)

    def tell():
        session, dialog = window.session, window.commands.dialog
        focus = QApplication.focusWidget()
        done = dialog is not None and dialog.pages.currentWidget() is dialog.result_page
        written = dialog.result_page.banner.text if done else ""
        ready = dialog is not None and dialog.export_button.isEnabled()
        told = {
            "path": session.snapshot.source.path if session.snapshot else "", "dark": window.theme.dark,
            "focus": focus.accessibleName() if focus else "", "active": window.isActiveWindow(),
            "modal": type(QApplication.activeModalWidget() or QApplication.activeWindow()).__name__,
            "ratio": window.devicePixelRatio(), "written": written, "ready": ready,
            "findings": len(session.snapshot.plan.findings) if session.snapshot else -1,
            "scheme": QApplication.styleHints().colorScheme().name,
            "window": int(window.winId()), "only": window.tree_panel.only,
        }
        with open(out + ".new", "w") as file:
            json.dump(told, file)
        os.replace(out + ".new", out)

    timer.timeout.connect(tell)
    timer.start()
    return window

gui.Windows.add = watched
raise SystemExit(gui.run(paths))
"""
# Another program, from which a file is dragged.
SOURCE = """
import sys
from PySide6.QtCore import QMimeData, Qt, QUrl
from PySide6.QtGui import QDrag
from PySide6.QtWidgets import QApplication, QLabel

class Source(QLabel):
    def mousePressEvent(self, event):
        drag, data = QDrag(self), QMimeData()
        data.setUrls([QUrl.fromLocalFile(sys.argv[1])])
        drag.setMimeData(data)
        drag.exec(Qt.DropAction.CopyAction)

app = QApplication(sys.argv[:1])
source = Source("drag me")
source.setWindowFlags(Qt.WindowType.FramelessWindowHint | Qt.WindowType.WindowStaysOnTopHint)
source.setGeometry(0, 900, 200, 60)
source.show()
app.exec()
"""


class Screen:
    """A screen with a window manager, and what runs on it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._running: list[subprocess.Popen[bytes]] = []
        reading, writing = os.pipe()
        words = ["Xvfb", "-displayfd", str(writing), "-screen", "0", "1600x1000x24", "-nolisten", "tcp"]
        self._start(words, dict(os.environ), pass_fds=(writing,))
        os.close(writing)
        with os.fdopen(reading) as pipe:
            number = pipe.readline().strip()
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("QT_", "WAYLAND"))},
            "DISPLAY": f":{number}", "QT_QPA_PLATFORM": "xcb", "HOME": str(folder), "PYTHONPATH": str(ROOT),
            "XDG_CONFIG_HOME": str(folder / "config"), "XDG_CACHE_HOME": str(folder / "cache"),
            "XDG_STATE_HOME": str(folder / "state"), "XDG_CURRENT_DESKTOP": "GNOME",
        }  # fmt: skip
        self._start(["openbox"], self.environment)

    def _start(self, words: list[str], environment: dict[str, str], pass_fds: tuple[int, ...] = ()) -> None:
        quiet = subprocess.DEVNULL
        log = (self.folder / f"{Path(words[0]).name}-{len(self._running)}.log").open("wb")
        self._running.append(
            subprocess.Popen(words, env=environment, stdin=quiet, stdout=log, stderr=log, pass_fds=pass_fds)
        )
        log.close()

    def python(self, code: str, *words: str, **environment: str) -> None:
        """Run a program in Python on the screen."""
        self._start([sys.executable, "-c", code, *words], {**self.environment, **environment})

    def told(self) -> dict[str, object]:
        """Return what the window has told last."""
        file = self.folder / "told.json"
        return dict(json.loads(file.read_text())) if file.exists() else {}

    def wait(self, is_so: Callable[[dict[str, object]], object], what: str) -> dict[str, object]:
        """Wait until the window tells that something is so."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            told = self.told()
            if told and is_so(told):
                return told
            time.sleep(0.05)
        logs = "\n".join(file.read_text(errors="replace")[-2000:] for file in self.folder.glob("*.log"))
        pytest.fail(f"never came: {what}\n{self.told()}\n{logs}")

    def do(self, *words: str) -> None:
        """Let xdotool do something."""
        subprocess.run(["xdotool", *words], env=self.environment, check=True, timeout=20)

    def keys(self, *keys: str) -> None:
        """Press keys, as a person does."""
        for key in keys:
            self.do("key", "--clearmodifiers", key)

    def tab_to(self, name: str) -> None:
        """Press Tab until something of a name has the focus."""
        for _ in range(60):
            if self.told().get("focus") == name:
                return
            self.keys("Tab")
            time.sleep(0.25)
        pytest.fail(f"Tab does not come to {name}: {self.told()}")

    def close(self) -> None:
        """End everything that runs on the screen, the screen last."""
        for it in reversed(self._running):
            it.send_signal(signal.SIGTERM)
            try:
                it.wait(10)
            except subprocess.TimeoutExpired:
                it.kill()
                it.wait()


@pytest.fixture
def screen(tmp_path: Path) -> Iterator[Screen]:
    made = Screen(tmp_path)
    yield made
    made.close()


def started(screen: Screen, *paths: str, **environment: str) -> dict[str, object]:
    """Start the program, and wait until its window has the focus."""
    screen.python(WATCHED, str(screen.folder / "told.json"), *paths, **environment)
    return screen.wait(lambda told: told["active"], "the window's focus")


def test_the_main_job_by_the_keyboard_alone(screen: Screen) -> None:
    started(screen)
    screen.tab_to("Try the sample")
    screen.keys("Return")
    screen.wait(lambda told: told["path"], "the sample")
    screen.keys("ctrl+shift+f", "Return")
    screen.wait(lambda told: told["only"], "the tensors of the finding")
    screen.keys("F8", "F7", "ctrl+shift+e")
    screen.wait(lambda told: told["modal"] == "ExportDialog" and told["ready"], "the summary")
    screen.keys("Return")
    told = screen.wait(lambda told: told["written"], "what was written")
    assert str(told["written"]).startswith("Written and verified")
    screen.tab_to("Open result")
    screen.keys("Return")
    told = screen.wait(lambda told: str(told["path"]).endswith("tiny-llama-compiled-hf"), "the result")
    assert told["findings"] == 0
    assert (screen.folder / "tiny-llama-compiled-hf" / "model.safetensors").exists()


def test_a_file_of_another_program_is_dropped_onto_the_window(screen: Screen) -> None:
    told = started(screen)
    screen.do("windowmove", str(told["window"]), "250", "40")
    screen.python(SOURCE, str(SAMPLE))
    time.sleep(2)
    screen.do("mousemove", "100", "930", "sleep", "0.3", "mousedown", "1", "sleep", "0.3")
    for place in ((140, 900), (300, 700), (500, 500), (700, 420), (720, 410)):
        screen.do("mousemove", str(place[0]), str(place[1]), "sleep", "0.2")
    screen.do("mouseup", "1")
    told = screen.wait(lambda told: told["path"], "the checkpoint that was dropped")
    assert told["path"] == str(SAMPLE)


def test_the_palette_has_the_focus_and_gives_it_back(screen: Screen) -> None:
    started(screen, str(SAMPLE))
    screen.wait(lambda told: told["path"], "the sample")
    screen.keys("ctrl+shift+p")
    screen.wait(lambda told: told["modal"] == "Palette" and told["focus"] == "Command", "the palette")
    screen.do("type", "dark")
    screen.keys("Return")
    told = screen.wait(lambda told: told["dark"] and told["active"], "dark colours")
    assert told["focus"], "the focus is back where it was"


def test_dark_colours_are_the_platforms_too(screen: Screen) -> None:
    config = screen.folder / "config" / "ckpt_gui"
    config.mkdir(parents=True)
    (config / "ckpt_gui.ini").write_text("[view]\nscheme=dark\n")
    told = started(screen)
    assert (told["dark"], told["scheme"]) == (True, "Dark"), "the desktop follows, as its frames do"


def test_twice_as_large(screen: Screen) -> None:
    told = started(screen, str(SAMPLE), QT_SCALE_FACTOR="2")
    told = screen.wait(lambda told: told["path"], "the sample")
    assert told["ratio"] == 2
