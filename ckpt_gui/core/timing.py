"""Seconds of the phases of a long job."""

from __future__ import annotations

import time


class Laps:
    """Seconds by phase.

    Attributes:
        seconds: What each phase took.
    """

    def __init__(self) -> None:
        """Start the first phase."""
        self.seconds: dict[str, float] = {}
        self._last = time.monotonic()

    def lap(self, name: str) -> None:
        """End a phase, and start the next."""
        now = time.monotonic()
        self.seconds[name], self._last = self.seconds.get(name, 0.0) + now - self._last, now
