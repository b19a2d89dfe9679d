"""Where the programs start: Control-C ends them in silence from the first moment on.

The modules of a command take a part of a second to import, and an interrupt within it would end in a trace. So this
one imports next to nothing, and the rest once the interrupt is taken care of.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

STOPPED = 130  # what shells have for an interrupt, as `terminal.CANCELLED`, which is not imported yet


def main() -> int:
    """Run the command line; return the exit status."""
    with _quiet_interrupt():
        from ckpt_gui.cli.main import main as run
    return run()


def window_main() -> int:
    """Run the window; the script for systems where a console would pop up beside it."""
    with _quiet_interrupt():
        from ckpt_gui.cli.main import window_main as run
    return run()


@contextmanager
def _quiet_interrupt() -> Iterator[None]:
    """Let an interrupt end the program at once: nothing is open yet that would have to be closed."""
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.default_int_handler:  # ignored, as shells ask for in the background
        yield
        return
    signal.signal(signal.SIGINT, _quit)
    yield
    signal.signal(signal.SIGINT, before)


def _quit(number: int, frame: FrameType | None) -> None:
    os._exit(STOPPED)


if __name__ == "__main__":
    sys.exit(main())
