"""An interrupt while the modules of a command are imported: silence and the right exit status."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from ckpt_gui.cli import entry
from ckpt_gui.cli.terminal import CANCELLED

# Sends itself an interrupt when a module is about to be imported.
START = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "WHEN":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Finder())
from ckpt_gui.cli.entry import PROGRAM
sys.exit(PROGRAM())
"""


@pytest.mark.parametrize("program", ["main", "window_main"])
@pytest.mark.parametrize("when", ["ckpt_gui.cli.main", "ckpt_gui.core.errors"])
def test_interrupted_while_importing(program: str, when: str) -> None:
    command = [sys.executable, "-c", START.replace("WHEN", when).replace("PROGRAM", program), "check", "x.pt"]
    done = subprocess.run(command, capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"")


@pytest.mark.parametrize("when", ["ckpt_gui.cli.check", "ckpt_gui.core.normalise"])
def test_interrupted_while_importing_the_command(when: str) -> None:
    command = [sys.executable, "-c", START.replace("WHEN", when).replace("PROGRAM", "main")]
    done = subprocess.run([*command, "check", "x.pt"], capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (130, b"")
    assert b"Traceback" not in done.stderr
    assert b"stopped." in done.stderr


def test_afterwards_interrupts_are_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    assert entry.STOPPED == CANCELLED
    monkeypatch.setattr(sys, "argv", ["ckpt-gui", "families"])
    before = signal.getsignal(signal.SIGINT)
    try:
        for handler in (signal.default_int_handler, signal.SIG_IGN):  # which shells ask for in the background
            signal.signal(signal.SIGINT, handler)
            assert entry.main() == 0
            assert signal.getsignal(signal.SIGINT) is handler
    finally:
        signal.signal(signal.SIGINT, before)
