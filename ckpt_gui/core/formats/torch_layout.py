"""Laying out a torch file: the pickle that describes the tensors, and a record for each storage."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.formats.layout import FileLayout, StoredTensor
from ckpt_gui.core.formats.pickle_write import MAX_DEPTH, dump_pickle
from ckpt_gui.core.formats.zip_layout import Entry, layout_zip
from ckpt_gui.core.keys import safe_text


def layout(tree: Any, root: str = "archive") -> FileLayout:
    """Lay out a torch file.

    Args:
        tree: A nested value with `StoredTensor` leaves; two leaves with one record share a storage.
        root: Name of the folder inside the archive.

    Returns:
        The layout, with offsets by record.

    Raises:
        CheckpointError: A value cannot be written, or two leaves claim one record with different sizes.
    """
    if not root or not root.isprintable() or any(c in root for c in "/\\:") or root in (".", ".."):
        raise CheckpointError("damaged", f"`{safe_text(root)}` cannot be the name of a folder in an archive.")
    pickled = dump_pickle(tree)
    records = _records(tree)
    entries = [
        _small(root, "data.pkl", pickled),
        _small(root, ".format_version", b"1"),
        _small(root, ".storage_alignment", b"64"),
        _small(root, "byteorder", b"little"),
        *(Entry(f"{root}/data/{record}", size, None, record) for record, size in records.items()),
        _small(root, "version", b"3\n"),
    ]
    return layout_zip(entries)


def _small(root: str, name: str, content: bytes) -> Entry:
    return Entry(f"{root}/{name}", len(content), content)


def _records(tree: Any) -> dict[str, int]:
    """Return the bytes of each record in the order in which the tree mentions them."""
    sizes: dict[str, int] = {}
    for tensor in leaves(tree):
        record, nbytes = tensor.record, tensor.spec.nbytes
        if not record or not record.isprintable() or "/" in record or "\\" in record or record in (".", ".."):
            raise CheckpointError("damaged", f"`{safe_text(record)}` cannot be the name of a record.")
        if sizes.setdefault(record, nbytes) != nbytes:
            raise CheckpointError("damaged", f"Record `{record}` would have two sizes.", key=tensor.spec.key)
    return sizes


def leaves(tree: Any, depth: int = 0) -> Iterator[StoredTensor]:
    """Yield the tensors of a tree in order."""
    if isinstance(tree, StoredTensor):
        yield tree
    elif depth > MAX_DEPTH:
        raise CheckpointError("limit-exceeded", f"The values are nested more than {MAX_DEPTH} levels deep.")
    elif isinstance(tree, dict):
        for item in tree.values():
            yield from leaves(item, depth + 1)
    elif isinstance(tree, (list, tuple)):
        for item in tree:
            yield from leaves(item, depth + 1)
