"""Who reads an address: HTTP by this program's own client, everything else by the filesystems of fsspec."""

from __future__ import annotations

import threading
from typing import NamedTuple, Protocol
from urllib.parse import urlsplit

from ckpt_gui.core.remote.address import HTTP, real_address


class Stat(NamedTuple):
    """What a server says of a file.

    Attributes:
        size: Bytes.
        tag: What changes when the file does: an ETag, a hash, a time; empty if the server tells nothing such.
    """

    size: int
    tag: str


class Opened(NamedTuple):
    """The first answer of a server about a file.

    Attributes:
        stat: What it says.
        head: The first bytes, if they came along.
    """

    stat: Stat
    head: bytes


class Store(Protocol):
    """Reads files of one kind of server. Every method is one try, and raises `Fault` when it fails."""

    lists: bool  # True if folders can be listed; otherwise names are tried one by one

    def open(self, url: str, head: int) -> Opened:
        """Return what there is to know of a file, perhaps with its first bytes; for a `head` of 1 as it is just now."""

    def read(self, url: str, stat: Stat, start: int, end: int) -> bytes:
        """Return the bytes [start, end) of a file that is still as `stat` says."""

    def forget(self, url: str, stat: Stat) -> None:
        """Let go of what is held of a file in that state."""

    def close(self) -> None:
        """Close what is open to the server."""

    def is_folder(self, url: str) -> bool:
        """True if the address is that of a folder."""

    def names(self, url: str) -> dict[str, bool]:
        """Return the names in a folder, and for each whether it is a folder."""


_STORES: dict[str, Store] = {}
_LOCK = threading.Lock()


def store_for(public: str) -> Store:
    """Return who reads an address; one for all of HTTP, and one for each server of other kinds.

    Raises:
        CheckpointError: Nobody here can; the sentence names what is to be installed.
    """
    parts = urlsplit(real_address(public))
    root = "http" if parts.scheme in HTTP else f"{parts.scheme}://{parts.netloc}"
    with _LOCK:
        if root not in _STORES:
            _STORES[root] = _made(root)
        return _STORES[root]


def _made(root: str) -> Store:
    if root == "http":
        from ckpt_gui.core.remote.http import HttpStore

        return HttpStore()
    from ckpt_gui.core.remote.filesystems import FsspecStore

    return FsspecStore(root)


def close_stores() -> None:
    """Close all connections that are kept; who reads on makes new ones."""
    with _LOCK:
        stores = list(_STORES.values())
        _STORES.clear()
    for store in stores:
        store.close()
