"""Files held open for reading, by `pread` and never through a memory map.

A mapped file that another program truncates kills the process with SIGBUS; a `pread` on a held descriptor comes up
short, and that can be told in a sentence. Descriptors are few on many systems, so they are kept in a small pool: a
model of a thousand shards opens with a limit of 64. A file that had to be closed in between is opened again only as
the very same file (device, inode, size, times), otherwise the reader says that it changed.
"""

from __future__ import annotations

import errno
import itertools
import os
import struct
import sys
import threading
from collections import OrderedDict, deque
from collections.abc import Iterator
from contextlib import contextmanager

from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.formats.file_errors import explain_os_error, show_path
from ckpt_gui.core.formats.regular_file import identity_of, open_regular

MAX_OPEN = 24
_KEYS = itertools.count()
CHUNK = 8 << 20
_CLONE_RANGE = 0x4020940D  # FICLONERANGE of linux/fs.h
_SEEK_DATA: int | None = getattr(os, "SEEK_DATA", None)


class HeldFile:
    """A regular file open for reading.

    Args:
        path: Where it is.

    Attributes:
        path: Where it is.
        name: Its base name.
        size: Bytes when it was opened.
        identity: Device, inode, size, mtime_ns and ctime_ns when it was opened.

    Raises:
        CheckpointError: It is missing, not a regular file, or may not be read.
    """

    __slots__ = ("_key", "_lock", "identity", "name", "path", "size")

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Open the file."""
        self.path = os.fspath(path)
        self.name = os.path.basename(self.path)
        self._lock = threading.Lock()
        self._key = next(_KEYS)
        fd, self.identity = open_regular(self.path)
        self.size = self.identity[2]
        _POOL.add(self, fd)

    def pread_into(self, offset: int, out: memoryview) -> None:
        """Fill `out` with the bytes from `offset` on.

        Raises:
            CheckpointError: The file ends before `out` is full, changed, or cannot be read.
        """
        out = out.cast("B") if out.format != "B" or out.ndim != 1 else out
        done = 0
        with self._descriptor() as fd:
            while done < len(out):
                got = self._read_some(fd, offset + done, out[done : done + CHUNK])
                if not got:
                    raise self._shrunk(offset + len(out))
                done += got

    def read(self, offset: int, length: int) -> bytes:
        """Return `length` bytes from `offset` on; nothing is reserved for bytes that the file has not.

        Raises:
            CheckpointError: As `pread_into`.
        """
        if length < 0 or offset < 0 or offset + length > self.size:
            raise CheckpointError(
                "truncated",
                f"{show_path(self.path)} ends at byte {self.size:,}, but bytes up to {offset + length:,} are needed.",
                path=self.path,
                offset=self.size,
            )
        out = bytearray(length)
        self.pread_into(offset, memoryview(out))
        return bytes(out)

    def next_data(self, offset: int, end: int) -> int:
        """Return the first place from `offset` on, up to `end`, that may hold anything but zeros.

        What lies before it is a hole that was never written. Where the system or the filesystem knows nothing of holes,
        `offset` itself comes back.

        Raises:
            CheckpointError: The file now ends before `end`.
        """
        if _SEEK_DATA is None:
            return offset
        with self._descriptor() as fd:
            try:
                found = os.lseek(fd, offset, _SEEK_DATA)
            except OSError as error:
                if error.errno != errno.ENXIO:
                    return offset
                found = end  # a hole up to the end of the file
            if found > offset and os.fstat(fd).st_size < end:
                raise self._shrunk(end)
        return min(found, end)

    def copy_to(self, offset: int, count: int, fd: int, place: int) -> int:
        """Have the system copy bytes to `place` of the file `fd`; return how many it has.

        Where it can not, or fails, 0 comes back: reading and writing then tells of what is wrong.
        """
        if not hasattr(os, "copy_file_range"):
            return 0
        done = 0
        with self._descriptor() as own:
            while done < count:
                try:
                    got = os.copy_file_range(own, fd, count - done, offset + done, place + done)
                except OSError:
                    return 0
                if not got:  # the file has become shorter
                    return 0
                done += got
        return done

    def clone_to(self, offset: int, count: int, fd: int, place: int) -> bool:
        """Let the file `fd` share whole blocks of the disk (FICLONERANGE); False where that is not possible."""
        if sys.platform != "linux":
            return False
        import fcntl

        with self._descriptor() as own:
            try:
                fcntl.ioctl(fd, _CLONE_RANGE, struct.pack("=qQQQ", own, offset, count, place))
            except OSError:
                return False
        return True

    def check_unchanged(self) -> None:
        """Raise if the file that is open, or the file now at its path, is not as it was when it was opened.

        Raises:
            CheckpointError: Somebody wrote, replaced or removed it.
        """
        with self._descriptor() as fd:
            held = identity_of(os.fstat(fd))
        try:
            there = identity_of(os.stat(self.path))
        except OSError as error:
            raise explain_os_error(error, self.path) from error
        if held != self.identity or there != self.identity:
            raise self._changed()

    def close(self) -> None:
        """Let go of the descriptor. Safe to call twice; reading opens it again."""
        _POOL.drop(self)

    def __del__(self) -> None:
        """Have the descriptor closed of a file that nobody holds any more."""
        _POOL.dead.append(self._key)

    @contextmanager
    def _descriptor(self) -> Iterator[int]:
        entry = _POOL.borrow(self)
        try:
            yield entry.fd
        except OSError as error:
            raise explain_os_error(error, self.path) from error
        finally:
            _POOL.give_back(entry)

    def _read_some(self, fd: int, offset: int, out: memoryview) -> int:
        if hasattr(os, "preadv"):
            return os.preadv(fd, [out], offset)
        if hasattr(os, "pread"):
            data = os.pread(fd, min(len(out), 1 << 20), offset)
        else:
            with self._lock:
                os.lseek(fd, offset, os.SEEK_SET)
                data = os.read(fd, min(len(out), 1 << 20))
        out[: len(data)] = data
        return len(data)

    def _shrunk(self, wanted: int) -> CheckpointError:
        return CheckpointError(
            "truncated",
            f"{show_path(self.path)} shrank while being read: it had {self.size:,} bytes when it was opened "
            f"and now ends before byte {wanted:,}.",
            fix="Wait until the program that writes the file has finished, then open it again.",
            path=self.path,
            offset=wanted,
        )

    def _changed(self) -> CheckpointError:
        return CheckpointError(
            "damaged",
            f"{show_path(self.path)} changed since it was opened; what was read before no longer holds.",
            fix="Open it again once no other program writes to it.",
            path=self.path,
        )


class _Pool:
    """The descriptors that are open, least recently used first; those in use are never closed.

    Files are known by number, not held. One that nobody holds any more is only noted, and closed at the next call: it
    may go in the middle of any statement, these ones included.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.dead: deque[int] = deque()
        self._lock = threading.RLock()
        self._open: OrderedDict[int, _Descriptor] = OrderedDict()

    def add(self, file: HeldFile, fd: int) -> None:
        with self._lock:
            self._open[file._key] = _Descriptor(fd)
            self._trim()

    def borrow(self, file: HeldFile) -> _Descriptor:
        with self._lock:
            entry = self._open.get(file._key)
            if entry is None:
                fd, identity = open_regular(file.path)
                if identity != file.identity:
                    os.close(fd)
                    raise file._changed()
                entry = self._open[file._key] = _Descriptor(fd)
            self._open.move_to_end(file._key)
            entry.users += 1  # before others are closed to make room: this one must not be among them
            self._trim()
            return entry

    def give_back(self, entry: _Descriptor) -> None:
        with self._lock:
            entry.users -= 1
            if entry.dropped and not entry.users:
                os.close(entry.fd)

    def drop(self, file: HeldFile) -> None:
        with self._lock:
            entry = self._open.pop(file._key, None)
            if entry is not None:
                self._close(entry)
            self._trim()

    def _trim(self) -> None:
        while self.dead:
            entry = self._open.pop(self.dead.popleft(), None)
            if entry is not None:
                self._close(entry)
        idle = [key for key, entry in self._open.items() if not entry.users]
        for key in idle[: max(0, len(self._open) - self.limit)]:
            self._close(self._open.pop(key))

    def _close(self, entry: _Descriptor) -> None:
        entry.dropped = True
        if not entry.users:
            os.close(entry.fd)


class _Descriptor:
    """An open descriptor and how many reads use it just now."""

    __slots__ = ("dropped", "fd", "users")

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.users = 0
        self.dropped = False


_POOL = _Pool(MAX_OPEN)
