"""A file on a server that is open: its size, what tells whether it changed, and its bytes by ranges.

Small reads come in blocks that are kept for a while; reads that go on where the last one ended fetch ever more ahead;
large ones go straight to who asked, in pieces side by side. Each request is tried a few times.
"""

from __future__ import annotations

import hashlib
import random
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TypeVar

from ckpt_gui.core.remote.blocks import BLOCK, CACHE
from ckpt_gui.core.remote.faults import Fault
from ckpt_gui.core.remote.pool import POLL, submit, wait
from ckpt_gui.core.remote.store import Opened, Stat, Store, store_for
from ckpt_gui.core.remote.watch import Watch, current

HEAD = BLOCK  # bytes that come with the first answer: the header of a usual shard, or the pickle of one
PIECE = 8 << 20  # bytes of one request
LARGE = 4 << 20  # reads from this size on are not kept
TRIES = 4
FIRST_PAUSE = 0.25  # seconds before the second try; doubled each time
MAX_PAUSE = 20.0
LIMIT = 120.0  # seconds for one try
_STREAMS = 32
T = TypeVar("T")


class Blob:
    """A file on a server.

    Attributes:
        url: Its address, without secrets.
        stat: Its size, and what changes when it does.
    """

    __slots__ = ("_ends", "_lock", "_number", "_store", "stat", "url")

    def __init__(self, url: str, head: int = HEAD) -> None:
        """Ask for the file; its first bytes usually come along.

        Raises:
            CheckpointError: It is not there, or cannot be read.
            Cancelled: The user gave up.
        """
        self.url = url
        self._number = CACHE.new_number()
        self._store: Store = store_for(url)
        self._lock = threading.Lock()
        self._ends: OrderedDict[int, int] = OrderedDict()  # where streams of reads ended, and how much they fetched
        opened = tried(url, lambda: self._store.open(url, head))
        self.stat: Stat = opened.stat
        CACHE.put_range(self._number, 0, opened.head, self.stat.size)

    @property
    def identity(self) -> tuple[int, ...]:
        """What tells one state of the file from another: numbers, of which the first is no device's."""
        return identity_of(self.url, self.stat)

    def read_into(self, start: int, out: memoryview) -> None:
        """Fill `out` with the bytes from `start` on, which must lie in the file.

        Raises:
            CheckpointError: The file changed, or the server fails.
            Cancelled: The user gave up.
        """
        if len(out) >= LARGE:
            self._fetch_into(start, out)
            return
        first, last = start // BLOCK, (start + len(out) - 1) // BLOCK
        held = CACHE.get(self._number, range(first, last + 1))
        ahead = self._ahead(start, start + len(out))
        missing = [block for block in range(first, last + 1) if block not in held]
        if missing:
            begin = missing[0] * BLOCK
            end = min(max((missing[-1] + 1) * BLOCK, begin + ahead), self.stat.size)
            data = bytearray(end - begin)
            self._fetch_into(begin, memoryview(data))
            held |= CACHE.put_range(self._number, begin, data, self.stat.size)
            del data
        for block in range(first, last + 1):
            low, high = max(start, block * BLOCK), min(start + len(out), (block + 1) * BLOCK)
            out[low - start : high - start] = memoryview(held[block])[low - block * BLOCK : high - block * BLOCK]

    def now(self) -> Stat:
        """Return what the server says of the file now.

        Raises:
            CheckpointError: It is gone, or the server fails.
        """
        return tried(self.url, lambda: self._store.open(self.url, 1)).stat

    def close(self) -> None:
        """Let go of what is kept of it."""
        CACHE.drop(self._number)
        self._store.forget(self.url, self.stat)

    def __del__(self) -> None:
        """Have what is kept forgotten."""
        CACHE.leave(self._number)

    def _ahead(self, start: int, end: int) -> int:
        """Return how much to fetch: more and more where one read follows another."""
        with self._lock:
            fetched = self._ends.pop(start, 0)
            ahead = min(max(2 * fetched, BLOCK), PIECE) if fetched else 0
            self._ends[end] = max(ahead, BLOCK)
            while len(self._ends) > _STREAMS:
                self._ends.popitem(last=False)
        return ahead

    def _fetch_into(self, start: int, out: memoryview) -> None:
        """Fill `out` from the server, in pieces side by side."""
        places = [(at, min(at + PIECE, len(out))) for at in range(0, len(out), PIECE)]

        def fetch(low: int, high: int) -> Callable[[], bytes]:
            return lambda: self._store.read(self.url, self.stat, start + low, start + high)

        works = [fetch(low, high) for low, high in places]
        spans = [(start + low, start + high) for low, high in places]
        answers = tried_all(self.url, spans, works)
        for low, high in reversed(places):
            out[low:high] = answers.pop()  # each goes as soon as it is copied


def identity_of(url: str, stat: Stat) -> tuple[int, ...]:
    """Return the numbers that stand for one state of a file; none where the server tells nothing that changes."""
    if not stat.tag:
        return ()
    place, tag = (int.from_bytes(hashlib.sha256(t.encode()).digest()[:8], "big") for t in (url, stat.tag))
    return (-1, place, stat.size, tag, 0)


def tried(url: str, work: Callable[[], T]) -> T:
    """Do one request, with a few tries; see `tried_all`."""
    return tried_all(url, [None], [work])[0]


def tried_all(url: str, spans: Sequence[tuple[int, int] | None], works: Sequence[Callable[[], T]]) -> list[T]:
    """Do some requests side by side, each with a few tries.

    Raises:
        CheckpointError: One of them fails for good.
        Cancelled: The user gave up.
    """
    watch = current()
    futures = [submit(work) for work in works]
    results: list[T] = []
    for i, (span, work) in enumerate(zip(spans, works, strict=True)):
        future, pause = futures[i], FIRST_PAUSE
        for attempt in range(TRIES):
            try:
                result = wait(future, watch, LIMIT)
                break
            except Fault as fault:
                watch.count(1, 0)
                may_help = fault.retry or (fault.restart and span is not None)
                if not may_help or attempt == TRIES - 1 or fault.after > MAX_PAUSE:
                    raise fault.sentence(url, *(span or ())) from fault
                _pause(max(pause * random.uniform(1, 1.5), fault.after), watch)
                pause *= 2
                fault.__traceback__ = None  # its frames hold this one, and with it every byte that was fetched so far
                future = submit(work)
        watch.count(1, _size_of(result))
        results.append(result)
    return results


def _size_of(result: object) -> int:
    if isinstance(result, Opened):
        return len(result.head)
    return len(result) if isinstance(result, bytes) else 0


def _pause(seconds: float, watch: Watch) -> None:
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        watch.check()
        time.sleep(min(left, POLL))
