"""How long the thread of a window did nothing for the user, and whose fault that was.

A timer of 5 ms ticks on the thread of the window. Whatever keeps the thread from it keeps it from keys and the mouse as
well: the longest time between two ticks is the longest stall. Linux counts for each thread how long it was ready and no
processor was free (`schedstat`): what other processes took. The rest is this program's: the thread worked itself, or
waited for Python's lock while another thread held it.

With `blame` another thread looks, and writes to stderr what the thread of the window was doing in gaps over 50 ms, and
which thread had the lock when nobody else got it for as long.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PySide6.QtCore import QEventLoop, Qt, QTimer

from tests.bench.telling import peak_mib

TICK = 5  # milliseconds
PATIENCE = 900.0  # seconds for a phase
LIMIT = 0.05  # seconds that are nobody's fault
LOOK = 0.01  # seconds between two looks of the blaming thread


@dataclass
class Phase:
    """What was measured while something went on; times in seconds.

    Attributes:
        title: What went on.
        seconds: How long.
        answered: When it was done: a phase goes on for a while after that.
        stall: The longest time between two ticks, less the time that a tick waits for anyway.
        ours: The longest such time without what the thread waited for a processor in it.
        own: Time of the processor that the window's thread used in that gap; the rest of it is the lock.
        over: Gaps of ours over 50 ms.
        peak_mib: The most memory that the process has held by then.
    """

    title: str
    seconds: float = 0.0
    stall: float = 0.0
    ours: float = 0.0
    own: float = 0.0
    over: int = 0
    peak_mib: float = 0.0
    answered: float = 0.0


class Clock:
    """Runs the event loop until something is so, and measures the gaps."""

    def __init__(self, *, blame: bool) -> None:
        self.phases: list[Phase] = []
        self._delay = Delay()
        self._last = self._used = self._waited = 0.0
        self._timer = QTimer(interval=TICK, timerType=Qt.TimerType.PreciseTimer)
        self._timer.timeout.connect(self._tick)
        self._ticking = False
        if blame:
            threading.Thread(target=self._blame, args=(threading.get_ident(),), daemon=True).start()

    def run(self, title: str, act: Callable[[], Any], done: Callable[[], bool], least: float = 0.0) -> Phase:
        """Act, then let the window work until it is done, and for a while at least."""
        phase = Phase(title)
        self.phases.append(phase)
        loop = QEventLoop()
        begun = time.perf_counter()

        def look() -> None:
            taken = time.perf_counter() - begun
            if taken > PATIENCE:
                raise TimeoutError(f"{title} was not done after {PATIENCE:.0f} seconds")
            is_done = done()
            if is_done and not phase.answered:
                phase.answered = taken
            if taken > least and is_done:
                loop.quit()

        self._timer.timeout.connect(look)
        self._last, self._used, self._waited = time.perf_counter(), time.thread_time(), self._delay.seconds()
        self._ticking = True
        self._timer.start()
        act()
        loop.exec()
        self._timer.timeout.disconnect(look)
        self._timer.stop()
        self._ticking = False
        phase.seconds, phase.peak_mib = time.perf_counter() - begun, peak_mib()
        return phase

    def _tick(self) -> None:
        now, used, waited = time.perf_counter(), time.thread_time(), self._delay.seconds()
        gap, phase = now - self._last - TICK / 1000, self.phases[-1]
        ours = gap - (waited - self._waited)
        phase.stall = max(phase.stall, gap)
        if ours > phase.ours:
            phase.ours, phase.own = ours, min(ours, used - self._used)
        phase.over += ours > LIMIT
        self._last, self._used, self._waited = now, used, waited

    def _blame(self, window: int) -> None:
        """Write what the window does when it has not ticked for long, and who had the lock for as long."""
        delay = Delay()
        while True:
            begun, waited = time.perf_counter(), delay.seconds()
            time.sleep(LOOK)
            now, title = time.perf_counter(), self.phases[-1].title if self.phases else ""
            kept = now - begun - LOOK - (delay.seconds() - waited)
            frames = sys._current_frames()
            others = [_place(f) for n, f in frames.items() if n not in (window, threading.get_ident())]
            held = " | ".join(each for each in others if each)
            if self._ticking and now - self._last > LIMIT:
                sys.stderr.write(f"{title}: {1000 * (now - self._last):.0f} ms in {_place(frames[window])}; {held}\n")
            if self._ticking and kept > LIMIT:
                sys.stderr.write(f"{title}: the lock was kept for {1000 * kept:.0f} ms; {held}\n")
            del frames  # they would keep what the window let go of


class Delay:
    """How long the thread that made it was ready to work while no processor was free."""

    def __init__(self) -> None:
        self._file = -1
        with suppress(OSError):  # not Linux: all that keeps the thread counts as this program's
            self._file = os.open("/proc/thread-self/schedstat", os.O_RDONLY)

    def seconds(self) -> float:
        """Return it since the thread began; 0 where it is not known."""
        return int(os.pread(self._file, 64, 0).split()[1]) / 1e9 if self._file >= 0 else 0.0


def _place(frame: Any) -> str:
    """Return where a thread is, as far as it is in this program or in what draws its pictures."""
    places = []
    while frame is not None and len(places) < 7:
        code = frame.f_code
        if "ckpt_gui" in code.co_filename or "matplotlib" in code.co_filename:
            places.append(f"{Path(code.co_filename).name}:{frame.f_lineno} {code.co_name}")
        frame = frame.f_back
    return " < ".join(places)
