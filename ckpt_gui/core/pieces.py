"""Cutting long work into pieces that workers share, and each piece into the blocks that are moved at once.

A tensor of half a gigabyte that was one job would be done by one worker while all others wait at the end of the line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Generic, TypeVar

from ckpt_gui.dataclasses import dataclass

BLOCK = 256 << 10  # fits a core's cache beside what is made of it: measured faster than 1 MiB
PIECE = 64 << 20

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Piece(Generic[T]):
    """A range of bytes of something.

    Attributes:
        of: Of what.
        start: The first byte.
        stop: The one behind the last.
    """

    of: T
    start: int
    stop: int

    @property
    def nbytes(self) -> int:
        """How many bytes it has."""
        return self.stop - self.start


def cut(of: T, total: int, unit: Callable[[], int] = lambda: 1) -> Iterator[Piece[T]]:
    """Yield the pieces of something, at least one.

    Args:
        of: What it is.
        total: Its bytes.
        unit: Returns of how many bytes pieces must be multiples; asked only where there is more than one.
    """
    step = PIECE if total <= PIECE else _step(PIECE, _step(BLOCK, unit()))
    for start in range(0, max(total, 1), step):
        yield Piece(of, start, min(start + step, total))


def big_first(pieces: Iterable[Piece[T]]) -> list[Piece[T]]:
    """Return pieces in the order in which workers end at about the same time."""
    return sorted(pieces, key=lambda piece: -piece.nbytes)


def blocks(start: int, stop: int, unit: int = 1) -> Iterator[tuple[int, int]]:
    """Yield where each block of a range begins, and its bytes."""
    step = _step(BLOCK, unit)
    for at in range(start, stop, step):
        yield at, min(step, stop - at)


def block_bytes(total: int, unit: int = 1) -> int:
    """Return the bytes of the largest block of a range of so many bytes."""
    return min(_step(BLOCK, unit), total)


def _step(size: int, unit: int) -> int:
    return max(size // unit, 1) * unit
