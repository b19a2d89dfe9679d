"""Random access to a deflated record, with bounded memory.

The offset of a deflated byte says nothing about where its content lies in the file: torch, told to map such a file,
returns garbage. Here the record is inflated from its start, and the state of the inflater is kept at regular places, so
that a later read goes on from the nearest one.
"""

from __future__ import annotations

import threading
import zlib
from collections import OrderedDict
from typing import Any

from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.formats.file_errors import show_path
from ckpt_gui.core.formats.files import HeldFile
from ckpt_gui.core.keys import safe_text

SPAN = 4 << 20
MAX_STATES = 512  # each keeps some 50 KB
MAX_CACHED = 4
_PACKED = 64 << 10


class InflatedRecord:
    """The content of one deflated record.

    Args:
        file: The archive.
        name: What to call the record in messages.
        start: Where its deflated bytes begin.
        packed: How many there are.
        size: Bytes that they inflate to.
        crc: Their CRC-32; 0 if none was kept. It is compared when the record has been inflated to its end.
    """

    def __init__(self, file: HeldFile, name: str, start: int, packed: int, size: int, crc: int = 0) -> None:
        """Keep the place; nothing is read."""
        self.size = size
        self._wanted = crc
        self._file, self._name, self._start, self._packed = file, name, start, packed
        self._span = max(SPAN, -(-size // MAX_STATES))
        self._states: dict[int, tuple[Any, int, int]] = {0: (zlib.decompressobj(-15), 0, 0)}  # with place and CRC-32
        self._cache: OrderedDict[int, bytes] = OrderedDict()
        self._lock = threading.Lock()

    def read_into(self, offset: int, out: memoryview) -> None:
        """Fill `out` with content from `offset` on.

        Raises:
            CheckpointError: The record does not inflate to the size that it claims.
        """
        done = 0
        while done < len(out):
            number, within = divmod(offset + done, self._span)
            piece = memoryview(self._get(number))[within : within + len(out) - done]
            out[done : done + len(piece)] = piece
            done += len(piece)

    def _get(self, number: int) -> bytes:
        with self._lock:
            if number not in self._cache:
                for i in range(max(n for n in self._states if n <= number), number + 1):
                    data = self._inflate(i)
                self._cache[number] = data
                while len(self._cache) > 1 and len(self._cache) > MAX_CACHED * SPAN // self._span:
                    self._cache.popitem(last=False)
            self._cache.move_to_end(number)
            return self._cache[number]

    def _inflate(self, number: int) -> bytes:
        """Return a span, going on from the state kept at its start; keep the state at its end."""
        state, at, crc = self._states[number]
        state = state.copy()
        wanted = min(self._span, self.size - number * self._span)
        out = bytearray()
        while len(out) < wanted and not state.eof:
            data = state.unconsumed_tail
            if not data:
                data = self._file.read(self._start + at, min(_PACKED, self._packed - at))
                at += len(data)
            try:
                out += state.decompress(data, wanted - len(out))
            except zlib.error as error:
                raise self._damaged(f"cannot be inflated ({error})") from error
            if not data:
                break
        if len(out) < wanted:
            raise self._damaged(f"does not inflate to {self.size:,} bytes")
        crc = zlib.crc32(out, crc)
        if (number + 1) * self._span >= self.size and self._wanted not in (0, crc):
            raise self._damaged("does not fit its checksum", "crc-mismatch")
        self._states.setdefault(number + 1, (state, at, crc))
        return bytes(out)

    def _damaged(self, what: str, code: str = "damaged") -> CheckpointError:
        path = self._file.path
        text = f"{show_path(path)} is damaged: record `{safe_text(self._name)}` {what}."
        return CheckpointError(code, text, fix="Download or copy it again.", path=path)
