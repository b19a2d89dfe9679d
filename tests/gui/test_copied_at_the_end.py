"""A program that leaves while very many copied rows are on the clipboard ends well."""

from __future__ import annotations

import os
import subprocess
import sys

COPY = """
from PySide6.QtGui import QGuiApplication
from ckpt_gui.gui.app import application
from ckpt_gui.gui.panels import tree_copy
app = application()
tree_copy._put("ä row".encode())
print(QGuiApplication.clipboard().text() == "ä row")
"""


def test_what_is_on_the_clipboard_outlives_python() -> None:
    env = {**os.environ, "QT_QPA_PLATFORM": "offscreen"}
    ended = subprocess.run([sys.executable, "-c", COPY], capture_output=True, text=True, env=env, timeout=60)
    assert (ended.returncode, ended.stdout) == (0, "True\n")
