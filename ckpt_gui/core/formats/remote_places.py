"""Folders and files on servers, for `places`: imported when the first address is opened.

Servers are asked once for each folder while a checkpoint is opened; where they list nothing (HTTP), the names that a
model's folder usually has are tried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from contextvars import copy_context
from typing import TypeVar

from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.formats.remote_file import RemoteFile
from ckpt_gui.core.remote.address import join, split
from ckpt_gui.core.remote.blob import HEAD, Blob, tried
from ckpt_gui.core.remote.faults import is_kept_back
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


def open_file(url: str) -> RemoteFile:
    """Open a file on a server.

    Raises:
        CheckpointError: It is not there, or cannot be read.
    """
    ready = current().ready.pop(url, None)
    return RemoteFile(ready if ready is not None else Blob(url))


def is_folder(url: str) -> bool:
    """True for a folder on a server.

    Raises:
        CheckpointError: The server fails.
    """
    return tried(url, lambda: store_for(url).is_folder(url))


def exists(url: str) -> bool:
    """True if the folder of an address lists it."""
    folder, name = split(url)
    return name in names_in(folder)


def identity_at(url: str) -> tuple[int, ...]:
    """Return what tells the state of the file that is at an address now.

    Raises:
        CheckpointError: The server fails.
    """
    return Blob(url, 1).identity


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


def look_beside(url: str) -> None:
    """Find what usually lies beside a file on a server without lists, and no other weights."""
    if not store_for(url).lists:
        folder, _ = split(url)
        current().listings[folder] = tuple(sorted(_found(folder, (*_TEXTS, *_BESIDE))))


def folders_in(folder: str) -> tuple[str, ...]:
    """Return the names of the folders in a folder on a server."""
    store = store_for(folder)
    return tuple(sorted(name for name, inner in tried(folder, lambda: store.names(folder)).items() if inner))


def with_named(folder: str, named: Sequence[str], names: Iterable[str]) -> list[str]:
    """Return the names in a folder with those that an index names, where they are there and could not be listed."""
    listed = list(names)
    if store_for(folder).lists:
        return listed
    found = [*listed, *_found(folder, [name for name in named if name not in listed], all_wanted=True)]
    current().listings[folder] = tuple(sorted(found))
    return found


def side_by_side(work: Callable[[T], R], items: Sequence[T]) -> Iterator[R]:
    """Yield what some work that waits for servers makes of each item, in order; several at once.

    Raises:
        Cancelled: The user gave up.
    """
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


def _found(folder: str, names: Sequence[str], *, all_wanted: bool = False) -> list[str]:
    """Return those of some names that a server without lists has; what came with the answers is kept for who opens.

    Raises:
        CheckpointError: One of them is refused, where all are wanted; or nothing else is there.
    """
    ready, failed = current().ready, dict[str, CheckpointError]()

    def look(name: str) -> bool:
        where = join(folder, name)
        try:
            ready[where] = Blob(where, 1 if name in _BESIDE else HEAD)
        except CheckpointError as error:
            if error.code not in ("unreachable", "not-a-checkpoint"):
                raise
            failed[name] = error
            return False
        return True

    looked = zip(names, side_by_side(look, names), strict=True)
    found = [name for name, there in looked if there]
    refused = next((failed[name] for name in names if name in failed and is_kept_back(failed[name])), None)
    if refused is not None and (all_wanted or not found):
        raise refused
    return found
