"""Runs of bytes with a checksum, and readers that have some: containers offer them, `verify` compares them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, Protocol, runtime_checkable

BLOCK = 4 << 20  # bytes read at once where all of a file is looked at


class Checked(NamedTuple):
    """A run of bytes with a checksum.

    Attributes:
        file: Name of its file.
        name: What it is called in the file.
        storage: The storage name of the tensors that use it; None for others.
        nbytes: How long it is.
        crc: Its CRC-32.
        fill: Fills a buffer from a byte on.
    """

    file: str
    name: str
    storage: str | None
    nbytes: int
    crc: int
    fill: Callable[[int, memoryview], None]


@runtime_checkable
class HasChecksums(Protocol):
    """A reader of a container with checksums."""

    def checked(self) -> Iterator[Checked]:
        """Yield every run of bytes that has a checksum."""


@runtime_checkable
class HasRecords(Protocol):
    """A reader of an archive."""

    def unclaimed(self) -> int:
        """Return how many bytes belong to no record."""


@runtime_checkable
class HasParts(Protocol):
    """A reader whose tensors are put together from parts with checksums."""

    def used(self, storages: Iterable[str]) -> Iterator[Checked]:
        """Yield the checksums of the parts of some storages."""
