"""Leaving the machine to others: low priority for processor and disk where the system has such, and pauses."""

from __future__ import annotations

import ctypes
import os
import platform
import sys
import threading
import time

NICE = 10
LONGEST = 0.05  # seconds of a pause: a cancel is still heard at once
_IOPRIO_SET = {"x86_64": 251, "aarch64": 30}  # numbers of the call in Linux
_BEST_EFFORT_LAST = (2 << 13) | 7  # class 2, the lowest of its 8 levels: as `ionice -c 2 -n 7`
_BELOW_NORMAL = 0x4000  # BELOW_NORMAL_PRIORITY_CLASS of Windows


def lower_priority() -> None:
    """Let this process, for good, come after others for the processor and the disk, where it can."""
    if sys.platform == "win32":
        kernel = ctypes.windll.kernel32
        kernel.SetPriorityClass(kernel.GetCurrentProcess(), _BELOW_NORMAL)
        return
    os.nice(NICE)
    number = _IOPRIO_SET.get(platform.machine())
    if sys.platform == "linux" and number is not None:
        ctypes.CDLL(None).syscall(number, 1, 0, _BEST_EFFORT_LAST)  # of this process; refused in some containers


class Rest:
    """Pauses of a worker, each as long as the work before it: half of the time is left to others."""

    def __init__(self) -> None:
        """Begin."""
        self._local = threading.local()

    def take(self) -> None:
        """Pause as long as this thread has worked since it paused last."""
        now = time.monotonic()
        worked = now - self._local.__dict__.get("since", now)
        time.sleep(min(worked, LONGEST))
        self._local.since = time.monotonic()
