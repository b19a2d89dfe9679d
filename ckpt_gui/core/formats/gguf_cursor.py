"""The header of a GGUF file, read value by value; nothing is reserved for what it only claims to have."""

from __future__ import annotations

import struct
from typing import Any

from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.formats.file_errors import show_path
from ckpt_gui.core.formats.files import HeldFile

MAGIC = b"GGUF"
MAX_COUNT = 1 << 20
MAX_ITEMS = 1 << 24
MAX_TEXT = 1 << 24
CHUNK = 1 << 20
_SCALARS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
_TEXT, _ARRAY = 8, 9


class GgufCursor:
    """A place in the header of a file, which moves on with everything that is read.

    Attributes:
        file: The open file.
        at: The byte that is read next.
    """

    def __init__(self, file: HeldFile) -> None:
        """Begin behind the magic."""
        self.file = file
        self.at = len(MAGIC)
        self._start = 0
        self._data = b""

    def take(self, count: int) -> bytes:
        """Return the next bytes."""
        within = self.at - self._start
        if within + count > len(self._data):
            left = self.file.size - self.at
            if count > left:
                raise self.damaged("its header ends too early", "truncated")
            self._start, within = self.at, 0
            self._data = self.file.read(self.at, min(max(count, CHUNK), left))
        self.at += count
        return self._data[within : within + count]

    def number(self, layout: str) -> Any:
        """Return the next number, of a layout of `struct`."""
        return struct.unpack(layout, self.take(struct.calcsize(layout)))[0]

    def count(self) -> int:
        """Return the next number, of tensors or values."""
        count: int = self.number("<Q")
        if count > MAX_COUNT:
            raise self.damaged(f"it claims {count:,} tensors or values", "limit-exceeded")
        return count

    def text(self) -> str:
        """Return the next text."""
        length = self.number("<Q")
        if length > MAX_TEXT:
            raise self.damaged(f"it claims a text of {length:,} bytes", "limit-exceeded")
        return self.take(length).decode("utf-8", "backslashreplace")

    def value(self, kind: int) -> Any:
        """Return the next value, of a kind by its number; an array only in words."""
        if kind == _TEXT:
            return self.text()
        if kind == _ARRAY:
            return self._array()
        if kind not in _SCALARS:
            raise self.damaged(f"it holds a value of the unknown type {kind:,}")
        return self.number(_SCALARS[kind])

    def _array(self) -> str:
        """Pass over an array, which may be a vocabulary, and describe it."""
        kind, length = self.number("<I"), self.number("<Q")
        if length > MAX_ITEMS or kind == _ARRAY:
            raise self.damaged(f"it holds an array of {length:,} values or of arrays", "limit-exceeded")
        if kind == _TEXT:
            for _ in range(length):
                self.take(min(self.number("<Q"), MAX_TEXT))
        elif kind in _SCALARS:
            self._skip(length * struct.calcsize(_SCALARS[kind]))
        else:
            raise self.damaged(f"it holds values of the unknown type {kind:,}")
        return f"{length:,} values"

    def _skip(self, count: int) -> None:
        if count > self.file.size - self.at:
            raise self.damaged("its header ends too early", "truncated")
        self.at += count
        self._start, self._data = self.at, b""

    def damaged(self, what: str, code: str = "damaged") -> CheckpointError:
        """Return the error for what is wrong at this place."""
        text = f"{show_path(self.file.path)} is a damaged GGUF file: {what} (at byte {self.at:,})."
        return CheckpointError(code, text, fix="Download or copy it again.", path=self.file.path, offset=self.at)
