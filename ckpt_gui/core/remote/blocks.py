"""Blocks of remote files that are kept for the next read, the least recently used thrown away first."""

from __future__ import annotations

import itertools
import threading
from collections import OrderedDict, deque
from collections.abc import Iterable

BLOCK = 256 << 10
MAX_BYTES = 48 << 20  # of all files together


class BlockCache:
    """Blocks by the number of their file and their place in it."""

    def __init__(self, limit: int = MAX_BYTES) -> None:
        """Begin empty; `limit` bytes are kept at most."""
        self._limit = limit
        self._numbers = itertools.count()
        self._lock = threading.RLock()
        self._dead: deque[int] = deque()
        self._kept: OrderedDict[tuple[int, int], bytes] = OrderedDict()
        self._bytes = 0

    @property
    def nbytes(self) -> int:
        """Bytes that are kept now."""
        return self._bytes

    def new_number(self) -> int:
        """Return a number for a file."""
        return next(self._numbers)

    def get(self, number: int, blocks: Iterable[int]) -> dict[int, bytes]:
        """Return those of some blocks that are kept."""
        found = {}
        with self._lock:
            self._bury()
            for block in blocks:
                data = self._kept.get((number, block))
                if data is not None:
                    self._kept.move_to_end((number, block))
                    found[block] = data
        return found

    def put_range(self, number: int, start: int, data: bytes | bytearray, size: int) -> dict[int, bytes]:
        """Keep the whole blocks in some bytes of a file, the last of the file included; return them.

        Args:
            number: The file's.
            start: Where the bytes begin, at the border of a block.
            data: The bytes.
            size: How large the file is.
        """
        made = {}
        for at in range(0, len(data), BLOCK):
            block = bytes(memoryview(data)[at : at + BLOCK])
            if len(block) == BLOCK or start + at + len(block) == size:
                made[(start + at) // BLOCK] = block
        with self._lock:
            self._bury()
            for index, block in made.items():
                old = self._kept.pop((number, index), b"")
                self._kept[number, index] = block
                self._bytes += len(block) - len(old)
            while self._bytes > self._limit:
                self._bytes -= len(self._kept.popitem(last=False)[1])
        return made

    def drop(self, number: int) -> None:
        """Forget the blocks of a file."""
        self._dead.append(number)
        with self._lock:
            self._bury()

    def leave(self, number: int) -> None:
        """Have the blocks of a file forgotten later: it may go in the middle of any statement, these ones included."""
        self._dead.append(number)

    def _bury(self) -> None:
        dead = set()
        while self._dead:
            dead.add(self._dead.popleft())
        if dead:
            for key in [key for key in self._kept if key[0] in dead]:
                self._bytes -= len(self._kept.pop(key))


CACHE = BlockCache()
