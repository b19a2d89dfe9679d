"""Counting bit patterns, the one loop that all figures of 8- and 16-bit types wait for; numba does it where it pays.

Counts are whole numbers, so that both ways give the same figures bit for bit. numba takes half a second and 80 MiB to
be loaded, which only large work gives back: the worker that needs it loads it, never the start. numpy's own count holds
the interpreter's lock in part, numba's does not: with it, every further thread helps.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from ckpt_gui.core.stats.elements import Array, Counts

PIECE = 1 << 18  # elements that are counted at once: the best size for numpy's bincount
WORTH = 512 << 20  # bytes of one piece of work from which loading numba pays
_LOCK = threading.Lock()
_Count = Callable[[Any, Any], None]


def count_into(counts: Counts, patterns: Array) -> None:
    """Add to each of `counts` how often its number stands in `patterns`."""
    _CHOSEN[-1](counts, patterns)


def prepare(nbytes: int) -> bool:
    """Say how much is going to be counted; return True if it will be by numba, from now on."""
    if nbytes >= WORTH and len(_CHOSEN) == 1:
        with _LOCK:
            fast = accelerated()
            if fast is not None and len(_CHOSEN) == 1:
                _CHOSEN.append(fast)
    return len(_CHOSEN) > 1


def by_numpy(counts: Counts, patterns: Array) -> None:
    """Count with what is always there."""
    for start in range(0, patterns.size, PIECE):
        counts += np.bincount(patterns[start : start + PIECE], minlength=counts.size)


_CHOSEN: list[_Count] = [by_numpy]


@lru_cache(maxsize=1)
def accelerated() -> _Count | None:
    """Return numba's count; None where numba is not installed, or does not work with this Python or numpy."""
    try:
        import numba
    except Exception:  # noqa: BLE001 - it refuses unknown versions by errors of its own
        return None

    def loop(counts: Any, patterns: Any) -> None:  # pragma: no cover - compiled
        """Two tables: a pattern that repeats need not wait for itself."""
        size = counts.shape[0]
        odd = np.zeros(size, dtype=np.int64)
        for i in range(0, patterns.shape[0] - 1, 2):
            counts[patterns[i]] += 1
            odd[patterns[i + 1]] += 1
        if patterns.shape[0] % 2:
            counts[patterns[-1]] += 1
        for k in range(size):
            counts[k] += odd[k]

    try:
        compiled: _Count = numba.njit(nogil=True, cache=True)(loop)
    except RuntimeError:  # nowhere to keep what is compiled
        compiled = numba.njit(nogil=True)(loop)
    return compiled
