"""CRC-32 as zip archives have it: of bytes, and of a whole whose pieces were read apart and in any order.

`isal` calculates it by the processor's own multiplication of polynomials, at 25 to 50 GB/s; zlib makes 1 to 4, and an
export sums everything up to three times. Where `isal` is not installed, zlib gives the same.
"""

from __future__ import annotations

import threading
from functools import lru_cache

try:
    from isal.isal_zlib import crc32
except ImportError:
    from zlib import crc32

__all__ = ["Sums", "crc32", "joined"]

_POLYNOMIAL = 0xEDB88320  # of zip, its highest power in the lowest bit
_ONE = 1 << 31


def joined(first: int, second: int, length: int) -> int:
    """Return the CRC-32 of two runs of bytes, one behind the other, from those of each.

    Args:
        first: Of the run before.
        second: Of the run behind it.
        length: Bytes of the run behind.

    >>> joined(crc32(b"Hello, "), crc32(b"world"), 5) == crc32(b"Hello, world")
    True
    """
    return _times(_shift(length), first) ^ second


@lru_cache(maxsize=256)  # all pieces but the last are of one length
def _shift(length: int) -> int:
    """Return x to the power of the bits of so many bytes, modulo the polynomial (crc32_combine of zlib)."""
    power, square = _ONE, _ONE >> 8
    while length:
        if length & 1:
            power = _times(square, power)
        square = _times(square, square)
        length >>= 1
    return power


def _times(a: int, b: int) -> int:
    """Multiply two polynomials modulo the one of zip."""
    product = 0
    while a:
        if a & _ONE:
            product ^= b
        a = a << 1 & 0xFFFFFFFF
        b = b >> 1 ^ (_POLYNOMIAL if b & 1 else 0)
    return product


class Sums:
    """CRC-32 of wholes whose pieces come from any worker, in any order."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._pieces: dict[str, list[tuple[int, int, int]]] = {}
        self._lock = threading.Lock()

    def add(self, name: str, start: int, nbytes: int, crc: int, total: int) -> int | None:
        """Take note of a piece.

        Args:
            name: Of the whole.
            start: Where in it the piece begins.
            nbytes: Bytes of the piece.
            crc: CRC-32 of the piece.
            total: Bytes of the whole.

        Returns:
            The CRC-32 of the whole once every piece is there, else None.
        """
        if nbytes == total:
            return crc
        with self._lock:
            pieces = self._pieces.setdefault(name, [])
            pieces.append((start, nbytes, crc))
            if sum(count for _, count, _ in pieces) < total:
                return None
            del self._pieces[name]
        whole = 0
        for _, count, piece in sorted(pieces):
            whole = joined(whole, piece, count)
        return whole
