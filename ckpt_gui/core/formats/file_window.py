"""A part of a file as a file of its own: distributed checkpoints lay one archive after another into a file."""

from __future__ import annotations

from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.formats.file_errors import show_path
from ckpt_gui.core.formats.files import HeldFile


class FileWindow(HeldFile):
    """A range of bytes of an open file.

    Args:
        file: The open file, which the window does not close.
        start: The first byte.
        length: How many there are.

    Raises:
        CheckpointError: The range lies outside the file.
    """

    __slots__ = ("_file", "_first")

    def __init__(self, file: HeldFile, start: int, length: int) -> None:  # nothing is opened here
        """Keep the range."""
        if start < 0 or length < 0 or start + length > file.size:
            text = (
                f"{show_path(file.path)} has {file.size:,} bytes, but bytes {start:,} to {start + length:,} are needed."
            )
            raise CheckpointError("truncated", text, path=file.path, offset=file.size)
        self._file, self._first = file, start
        self.path, self.name, self.size, self.identity = file.path, file.name, length, file.identity

    def pread_into(self, offset: int, out: memoryview) -> None:
        """Fill `out` with bytes from `offset` on, counted from the first of the window."""
        self._file.pread_into(self._first + offset, out)

    def copy_to(self, offset: int, count: int, fd: int, place: int) -> int:
        """Have the system copy bytes of the window; see `HeldFile`."""
        return self._file.copy_to(self._first + offset, count, fd, place)

    def clone_to(self, offset: int, count: int, fd: int, place: int) -> bool:
        """Share blocks of the window; see `HeldFile`."""
        return self._file.clone_to(self._first + offset, count, fd, place)

    def check_unchanged(self) -> None:
        """Raise if the file is not as it was when it was opened."""
        self._file.check_unchanged()

    def close(self) -> None:
        """Do nothing: the file is somebody else's."""

    def __del__(self) -> None:
        """Do nothing: no descriptor is held."""
