"""Many checkpoints at once: which paths are one model, and a new folder for the export of each."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import PurePath
from urllib.parse import urlsplit

from ckpt_gui.core.remote.address import is_url

_SHARD = re.compile(r"(.+)-\d{5}-of-(\d{5})(\.\w+)")


def distinct(paths: Iterable[str]) -> tuple[str, ...]:
    """Return paths once each, in order; shards of one model that were all named stand as their folder's model.

    >>> distinct(["/m/a.pt", "/m/a.pt", "/m/model-00001-of-00002.safetensors", "/m/model-00002-of-00002.safetensors"])
    ('/m/a.pt', '/m')
    """
    found: dict[str, None] = {}
    shards: dict[tuple[str, str], set[str]] = {}
    each = list(dict.fromkeys(path if is_url(path) else os.path.abspath(path) for path in paths))
    for path in each:
        if match := _SHARD.fullmatch(os.path.basename(path)):
            shards.setdefault((os.path.dirname(path), "".join(match.groups())), set()).add(path)
    for path in each:
        match = _SHARD.fullmatch(os.path.basename(path))
        together = shards[os.path.dirname(path), "".join(match.groups())] if match else set()
        whole = match is not None and len(together) == int(match[2]) > 1
        found[os.path.dirname(path) if whole else path] = None
    return tuple(found)


def short_names(paths: Iterable[str]) -> dict[str, str]:
    """Return a name for each path: its last part, with as many folders before it as tell it from the others.

    >>> list(short_names(["/runs/a/last.pt", "/runs/b/last.pt", "/runs/b/first.pt"]).values())
    ['a/last.pt', 'b/last.pt', 'first.pt']
    """
    parts = {path: [part for part in path.replace(os.sep, "/").split("/") if part] or [path] for path in paths}
    found = {path: parts[path][-1] for path in parts}
    for length in range(2, max(map(len, parts.values()), default=0) + 1):
        often = Counter(found.values())
        found |= {path: "/".join(parts[path][-length:]) for path, name in found.items() if often[name] > 1}
    return found


def folder_stem(path: str) -> str:
    """Return the name of a checkpoint without its ending: what a folder for its export is called after.

    >>> folder_stem("/m/last.pt"), folder_stem("/m/model/model.safetensors.index.json")
    ('last', 'model')
    >>> folder_stem("https://host/m/last.pt?download=true")
    'last'
    """
    source = PurePath(urlsplit(path).path.rstrip("/") if is_url(path) else os.path.abspath(path))
    if source.name.endswith(".index.json"):
        source = source.parent
    return (source.name if os.path.isdir(source) or not source.suffix else source.stem) or "checkpoint"


def folder_ending(layout: str) -> str:
    """Return what is put behind the name of a checkpoint for its export.

    >>> folder_ending("hf"), folder_ending("same")
    ('-hf', '-fixed')
    """
    return f"-{'fixed' if layout == 'same' else layout}"


def free_folder(base: str, taken: Iterable[str] = ()) -> str:
    """Return a path that does not exist yet and is not among `taken`: the name itself, or with a number."""
    folder, number, others = base, 2, set(taken)
    while folder in others or os.path.lexists(folder):
        folder, number = f"{base}-{number}", number + 1
    return folder


def target_folders(paths: Sequence[str], layout: str, parent: str = "", taken: Iterable[str] = ()) -> dict[str, str]:
    """Return a new folder for each checkpoint; none of them exists, and no two are the same.

    Args:
        paths: The checkpoints.
        layout: What they become.
        parent: Where the folders go; empty for beside each checkpoint, and at home for those on servers.
        taken: Folders that are not free although they do not exist yet.
    """
    others = set(taken)
    found: dict[str, str] = {}
    for path in paths:
        place = parent or (os.path.expanduser("~") if is_url(path) else os.path.dirname(_whole(path)))
        base = os.path.join(place, folder_stem(path) + folder_ending(layout))
        found[path] = free_folder(base, others.union(found.values()))
    return found


def _whole(path: str) -> str:
    """Return the file or the folder of a model, whose index file may stand for it."""
    absolute = os.path.abspath(path)
    return os.path.dirname(absolute) if absolute.endswith(".index.json") else absolute
