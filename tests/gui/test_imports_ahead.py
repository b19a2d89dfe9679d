"""What pages and dialogs need is imported before anybody asks for it, once a checkpoint is shown, and not before."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec

import pytest

from ckpt_gui.gui.imports_ahead import CORE, PANELS

# Opens the sample in a new process, and tells what is imported once it is shown, and once all is; as a line each.
OPEN = """
import sys
from PySide6.QtCore import QEventLoop, QTimer
from ckpt_gui.desktop.resources import SAMPLE, resource
from ckpt_gui.gui import app as gui

def told():
    print(*(name for name in sys.modules if name.startswith("ckpt_gui.")))

app = gui.application()
window = gui.MainWindow(gui.Settings(keeps=False), gui.Theme(app, "light"))
window.show()
loop, look = QEventLoop(), QTimer(interval=5)
look.timeout.connect(lambda: loop.quit() if window.imports_ahead.done else None)
window.settled.connect(told)
window.open_path(str(resource(SAMPLE)))
look.start()
loop.exec()
told()
window.close()
"""


def test_all_is_imported_once_a_checkpoint_is_shown() -> None:
    done = subprocess.run([sys.executable, "-c", OPEN], capture_output=True, text=True, check=True, timeout=120)
    lines = [set(line.split()) for line in done.stdout.splitlines() if "ckpt_gui.gui.main_window" in line]
    shown, end = lines[0], lines[-1]
    panels = {f"ckpt_gui.gui.panels.{name}" for name in PANELS}
    assert not {"ckpt_gui.gui.panels.export_dialog", "ckpt_gui.gui.panels.scan_page"} & shown
    assert panels <= end
    assert {f"ckpt_gui.core.{name}" for name in CORE} <= end


@pytest.mark.parametrize("name", [*(f"gui.panels.{name}" for name in PANELS), *(f"core.{name}" for name in CORE)])
def test_each_is_there(name: str) -> None:
    assert find_spec(f"ckpt_gui.{name}") is not None
