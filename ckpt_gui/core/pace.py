"""How long the rest of a job takes, told from its pace of late: a copy that gets slower says so, and says it soon."""

from __future__ import annotations

from collections import deque

SPAN = 20.0  # seconds that count as late
LEAST = 1.0  # seconds before anything is said


def left_words(seconds: float | None) -> str:
    """Return how long the rest takes, in words; empty as long as nobody can tell.

    >>> left_words(10), left_words(540), left_words(None)
    ('about 10 s left', 'about 9 min left', '')
    """
    if seconds is None:
        return ""
    return f"about {seconds:.0f} s left" if seconds < 100 else f"about {seconds / 60:.0f} min left"


class Pace:
    """The pace of one job. A new total is another part of it, and begins anew.

    >>> pace = Pace()
    >>> for second in range(5):
    ...     pace.note(second, 10 * second, 100)
    >>> pace.seconds_left()
    6.0
    """

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()
        self._total = 0

    def note(self, now: float, done: int, total: int) -> None:
        """Take note of how far it is.

        Args:
            now: Seconds on a clock that only goes forward.
            done: Bytes done.
            total: Bytes in all.
        """
        if total != self._total or (self._seen and done < self._seen[-1][1]):
            self._seen.clear()
            self._total = total
        self._seen.append((now, done))
        while len(self._seen) > 2 and now - self._seen[0][0] > SPAN:
            self._seen.popleft()

    def seconds_left(self) -> float | None:
        """Return the seconds that the rest takes; None while nobody can tell."""
        if not self._seen:
            return None
        (first, before), (last, done) = self._seen[0], self._seen[-1]
        if last - first < LEAST or done <= before or done >= self._total:
            return None
        return (last - first) * (self._total - done) / (done - before)
