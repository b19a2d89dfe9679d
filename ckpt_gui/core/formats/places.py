"""Paths and addresses alike: what lies where, and opening it.

Readers that open a file or look into a folder ask here. Servers are asked once for each folder while a checkpoint is
opened; where they list nothing (HTTP), the names that a model's folder usually has are tried.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from contextvars import copy_context
from typing import TypeVar

from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.formats.files import HeldFile
from ckpt_gui.core.formats.regular_file import identity_of
from ckpt_gui.core.formats.remote_file import RemoteFile
from ckpt_gui.core.remote import address
from ckpt_gui.core.remote.address import is_url
from ckpt_gui.core.remote.blob import HEAD, Blob, tried
from ckpt_gui.core.remote.pool import CONNECTIONS, POLL
from ckpt_gui.core.remote.store import store_for
from ckpt_gui.core.remote.watch import current

# What a folder on a server without lists may hold. The indexes and weights first: they say what it is.
_WEIGHTS = (
    "model.safetensors.index.json", "pytorch_model.bin.index.json", "model.safetensors", "pytorch_model.bin",
    "consolidated.safetensors", "consolidated.00.pth", "adapter_model.safetensors", "adapter_model.bin", ".metadata",
)  # fmt: skip
_TEXTS = (
    "config.json", "params.json", "generation_config.json", "adapter_config.json", "model_config.yaml", "modules.json",
    "EXPORT_REPORT.json",
)  # fmt: skip
_BESIDE = (
    "tokenizer.json", "tokenizer.model", "tokenizer.model.v3", "tekken.json", "vocab.json", "merges.txt", "vocab.txt",
    "spiece.model", "sentencepiece.bpe.model", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
    "chat_template.jinja", "chat_template.json", "preprocessor_config.json", "processor_config.json",
    "video_preprocessor_config.json",
)  # fmt: skip
T = TypeVar("T")
R = TypeVar("R")


def open_file(path: str) -> HeldFile:
    """Open a file on the disk or on a server.

    Raises:
        CheckpointError: It is not there, or cannot be read.
    """
    if not is_url(path):
        return HeldFile(path)
    ready = current().ready.pop(path, None)
    return RemoteFile(ready if ready is not None else Blob(path))


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
    return tried(path, lambda: store_for(path).is_folder(path)) if is_url(path) else os.path.isdir(path)


def exists(path: str) -> bool:
    """True if something is there that can be opened; on a server, if its folder lists it."""
    if not is_url(path):
        return os.path.exists(path)
    folder, name = address.split(path)
    return name in names_in(folder)


def is_file(path: str) -> bool:
    """True for a file."""
    return exists(path) if is_url(path) else os.path.isfile(path)


def names_in(folder: str) -> tuple[str, ...]:
    """Return the names in a folder on a server, of folders too, sorted.

    Raises:
        CheckpointError: The server fails.
    """
    listings = current().listings
    if folder not in listings:
        store = store_for(folder)
        if store.lists:
            found = sorted(tried(folder, lambda: store.names(folder)))
        else:
            found = _found(folder, (*_WEIGHTS, *_TEXTS, *_BESIDE))
        listings[folder] = tuple(found)
    return listings[folder]


def look_beside(path: str) -> None:
    """Find what usually lies beside a file on a server without lists, and no other weights."""
    if is_url(path) and not store_for(path).lists:
        folder, _ = address.split(path)
        current().listings[folder] = tuple(sorted(_found(folder, (*_TEXTS, *_BESIDE))))


def folders_in(folder: str) -> tuple[str, ...]:
    """Return the names of the folders in a folder on a server."""
    store = store_for(folder)
    return tuple(sorted(name for name, inner in tried(folder, lambda: store.names(folder)).items() if inner))


def with_named(folder: str, named: Sequence[str], names: Iterable[str]) -> list[str]:
    """Return the names in a folder with those that an index names, where they are there and could not be listed."""
    listed = list(names)
    if not is_url(folder) or store_for(folder).lists:
        return listed
    found = [*listed, *_found(folder, [name for name in named if name not in listed])]
    current().listings[folder] = tuple(sorted(found))
    return found


def identity_at(path: str) -> tuple[int, ...]:
    """Return what tells the state of the file that is at a path now.

    Raises:
        CheckpointError: A server fails.
        OSError: There is none on the disk.
    """
    return Blob(path, 1).identity if is_url(path) else identity_of(os.stat(path))


def side_by_side(work: Callable[[T], R], items: Sequence[T], *, remote: bool) -> Iterator[R]:
    """Yield what some work makes of each item, in order; several at once where servers are waited for.

    Raises:
        Cancelled: The user gave up.
    """
    if not remote or len(items) < 2:
        yield from map(work, items)
        return
    watch = current()
    pool = ThreadPoolExecutor(CONNECTIONS)
    try:
        futures = [pool.submit(copy_context().run, work, item) for item in items]
        for future in futures:
            while not future.done():
                watch.check()
                wait_for([future], timeout=POLL)
            yield future.result()
    except BaseException:
        watch.stopped = True
        raise
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _found(folder: str, names: Sequence[str]) -> list[str]:
    """Return those of some names that a server without lists has; what came with the answers is kept for who opens."""
    ready, first = current().ready, []

    def look(name: str) -> bool:
        where = join(folder, name)
        try:
            ready[where] = Blob(where, 1 if name in _BESIDE else HEAD)
        except CheckpointError as error:
            if error.code not in ("unreachable", "not-a-checkpoint"):
                raise
            first.append(error)
            return False
        return True

    looked = zip(names, side_by_side(look, names, remote=True), strict=True)
    found = [name for name, there in looked if there]
    refused = next((e for e in first if "(404)" not in e.message), None)
    if not found and refused is not None:
        raise refused
    return found
