"""Paths and addresses alike: what lies where, and opening it.

Readers that open a file or look into a folder ask here. Paths are answered at once; for addresses there is
`remote_places`, which is imported when the first one is opened: clients of servers are a fifth of what opening a file
on the disk would import.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.formats.files import HeldFile
from ckpt_gui.core.formats.regular_file import identity_of
from ckpt_gui.core.remote import address
from ckpt_gui.core.remote.address import is_url

T = TypeVar("T")
R = TypeVar("R")


def open_file(path: str) -> HeldFile:
    """Open a file on the disk or on a server.

    Raises:
        CheckpointError: It is not there, or cannot be read.
    """
    if not is_url(path):
        return HeldFile(path)
    from ckpt_gui.core.formats import remote_places

    return remote_places.open_file(path)


def join(folder: str, name: str) -> str:
    """Return the path of a name in a folder."""
    return address.join(folder, name) if is_url(folder) else os.path.join(folder, name)


def split(path: str) -> tuple[str, str]:
    """Return the folder and the name of a path."""
    return address.split(path) if is_url(path) else os.path.split(path)


def is_folder(path: str) -> bool:
    """True for a folder.

    Raises:
        CheckpointError: The server that was asked fails.
    """
    if not is_url(path):
        return os.path.isdir(path)
    from ckpt_gui.core.formats import remote_places

    return remote_places.is_folder(path)


def exists(path: str) -> bool:
    """True if something is there that can be opened; on a server, if its folder lists it."""
    if not is_url(path):
        return os.path.exists(path)
    from ckpt_gui.core.formats import remote_places

    return remote_places.exists(path)


def is_file(path: str) -> bool:
    """True for a file."""
    return exists(path) if is_url(path) else os.path.isfile(path)


def names_in(folder: str) -> list[str]:
    """Return the names of files and folders in a folder, sorted.

    Raises:
        CheckpointError: The server fails.
        OSError: It cannot be listed.
    """
    if not is_url(folder):
        return sorted(os.listdir(folder))
    from ckpt_gui.core.formats import remote_places

    return list(remote_places.names_in(folder))


def list_all(folder: str) -> list[str]:
    """Return the names of files and folders in a folder; none if it cannot be listed."""
    try:
        return names_in(folder)
    except (OSError, CheckpointError):
        return []


def folders_in(folder: str) -> Sequence[str]:
    """Return the names in a folder that may be those of folders; on a server, those that are."""
    if not is_url(folder):
        return list_all(folder)
    from ckpt_gui.core.formats import remote_places

    return remote_places.folders_in(folder)


def look_beside(path: str) -> None:
    """Find what usually lies beside a file on a server without lists, and no other weights."""
    if is_url(path):
        from ckpt_gui.core.formats import remote_places

        remote_places.look_beside(path)


def with_named(folder: str, named: Sequence[str], names: Iterable[str]) -> list[str]:
    """Return the names in a folder with those that an index names, where they are there and could not be listed."""
    if not is_url(folder):
        return list(names)
    from ckpt_gui.core.formats import remote_places

    return remote_places.with_named(folder, named, names)


def identity_at(path: str) -> tuple[int, ...]:
    """Return what tells the state of the file that is at a path now.

    Raises:
        CheckpointError: A server fails.
        OSError: There is none on the disk.
    """
    if not is_url(path):
        return identity_of(os.stat(path))
    from ckpt_gui.core.formats import remote_places

    return remote_places.identity_at(path)


def side_by_side(work: Callable[[T], R], items: Sequence[T], *, remote: bool) -> Iterator[R]:
    """Yield what some work makes of each item, in order; several at once where servers are waited for.

    Raises:
        Cancelled: The user gave up.
    """
    if not remote or len(items) < 2:
        return map(work, items)
    from ckpt_gui.core.formats import remote_places

    return remote_places.side_by_side(work, items)
