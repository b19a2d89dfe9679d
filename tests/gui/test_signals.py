"""The window ends when the system asks it to, and goes on where whoever started it has it ignore that (nohup)."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there are no such signals")

ASKED = """
import os, signal, sys
from PySide6.QtCore import QTimer
from ckpt_gui.gui import app as gui
app = gui.application()
signal.signal(signal.SIGHUP, signal.SIG_IGN if sys.argv[1] == "ignored" else signal.SIG_DFL)
with gui._stopped_by_signals(app, app.quit):
    QTimer.singleShot(0, lambda: os.kill(os.getpid(), signal.SIGHUP))
    QTimer.singleShot(600, lambda: print("goes on", flush=True))
    QTimer.singleShot(700, lambda: os.kill(os.getpid(), signal.SIGTERM))
    app.exec()
print("ended")
"""


@pytest.mark.parametrize(("hangup", "told"), [("ignored", ["goes on", "ended"]), ("heard", ["ended"])])
def test_a_signal_that_is_ignored_stays_so(hangup: str, told: list[str]) -> None:
    done = subprocess.run([sys.executable, "-c", ASKED, hangup], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines() == told
