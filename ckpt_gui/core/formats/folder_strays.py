"""Files in a model's folder that are not the model, and would run something: a folder with one of them is not clean.

Trainers and loaders of other kinds unpickle what lies beside the weights (`training_args.bin`, `optimizer.pt`, a second
container of the model). Such a file is opened as any file is, for what it names and for nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable

from ckpt_gui.core.errors import CheckpointError, Finding
from ckpt_gui.core.formats.folder import SHARD
from ckpt_gui.core.formats.npy_header import MAGIC as NUMPY
from ckpt_gui.core.formats.pickle_files import is_pickle
from ckpt_gui.core.formats.places import is_file, join, list_all, open_file
from ckpt_gui.core.formats.registry import IsCancelled, open_part, stop_if
from ckpt_gui.core.formats.shard_index import check_link
from ckpt_gui.core.formats.sniff import HEAD
from ckpt_gui.core.formats.tar_archive import is_tar
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.remote.address import is_url

MAX_FILES = 256
UNSAFE = "unsafe-pickle"
# Opened whatever they begin with; of other names only those are that begin like a pickle or an archive.
_PICKLED = (".pkl", ".pickle", ".joblib", ".dill", ".pt", ".pth", ".bin", ".ckpt", ".npz")
# What no loader unpickles. Everything else is told by its content, whatever it is called.
_INERT = (
    *(".safetensors", ".gguf", ".json", ".jsonl", ".txt", ".md", ".model", ".jinja", ".yaml", ".yml", ".toml"),
    *(".py", ".csv", ".tsv", ".png", ".jpg", ".svg", ".pdf", ".log", ".distcp", ".onnx", ".h5", ".msgpack"),
)


def strays_beside(folder: str, used: Iterable[str], cancelled: IsCancelled | None = None) -> list[Finding]:
    """Return a finding for the files of a folder that hold a pickle which would run something.

    Args:
        folder: The folder.
        used: Names of the files that were opened as the model; what they hold is told of anyway.
        cancelled: Asked between files.

    Raises:
        Cancelled: `cancelled` said so.
    """
    taken = frozenset(used)
    others = [name for name in list_all(folder) if name not in taken and not name.endswith(_INERT)]
    if is_url(folder):  # each costs requests: of a second container's shards only the disk's are looked into
        others = [name for name in others if name.endswith(_PICKLED) and not SHARD.match(name)]
    others.sort(key=lambda name: SHARD.match(name) is not None)  # single files first: they are few
    found: list[tuple[str, Finding]] = []
    for name in others[:MAX_FILES]:
        stop_if(cancelled)
        found += [(name, finding) for finding in _unsafe_in(folder, name)]
    if not found:
        return []
    names = tuple(dict.fromkeys(name for name, _ in found))
    keys = tuple(dict.fromkeys(key for _, finding in found for key in finding.keys))
    shown = ", ".join(safe_text(name, 80) for name in names[:4]) + (", …" if names[4:] else "")
    would = "would each" if len(names) > 1 else "would"
    named = f": named {'are' if len(keys) > 1 else 'is'} {', '.join(safe_text(key, 80) for key in keys[:8])}"
    message = (
        f"{shown}, beside the weights, {would} run code in a permissive loader{named if keys else ''}. "
        "Nothing of it was run here."
    )
    fix = "Remove it from the folder; an export holds nothing of it. The weights that are shown do not need it."
    return [Finding(UNSAFE, "error", message, keys, fix)]


def _unsafe_in(folder: str, name: str) -> list[Finding]:
    path = join(folder, name)
    if not is_file(path):
        return []
    try:
        check_link(folder, name, name)
        if not name.endswith(_PICKLED) and not _begins_like_one(path):
            return []
        part = open_part(path, name)
    except CheckpointError as error:  # what else is wrong with it is no matter of the model's
        return [error.as_finding()] if error.code == UNSAFE else []
    part.reader.close()
    return [finding for finding in part.problems if finding.code == UNSAFE]


def _begins_like_one(path: str) -> bool:
    """True if a file begins like a pickle, an array or an archive: a film is not read for what it names."""
    file = open_file(path)
    try:
        head = file.read(0, min(file.size, HEAD))
    finally:
        file.close()
    return head.startswith((b"PK\3\4", NUMPY)) or is_pickle(head) or is_tar(head)
