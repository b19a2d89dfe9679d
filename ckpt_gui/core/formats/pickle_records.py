"""Pickles in records of an archive that no tensor needs: a loader of another kind may load them all the same.

Torch loads `data.pkl` alone. Other programs load every pickle of an archive, and look neither at checksums nor at what
local headers say; so these records are read here without a check, for what they name and for nothing else.
"""

from __future__ import annotations

import zlib

from ckpt_gui.core.errors import CheckpointError, Finding
from ckpt_gui.core.formats.file_errors import show_path
from ckpt_gui.core.formats.pickle_files import is_pickle, unsafe_in
from ckpt_gui.core.formats.zip_archive import LOCAL, STORED, Archive, Record
from ckpt_gui.core.keys import safe_text

MAX_STRAY = 8 << 20
MAX_RECORDS = 64
_HEAD = 64
_OWN = frozenset(("data.pkl", "version", "byteorder", ".format_version", ".storage_alignment"))
_FOLDERS = ("data/", ".data/", "code/")
_SUFFIXES = (".pkl", ".pickle")


def stray_pickles(archive: Archive) -> list[Finding]:
    """Return a finding for the records beside the weights that hold a pickle that would run something."""
    others = [r for key, r in archive.records.items() if key not in _OWN and not key.startswith(_FOLDERS)]
    found = [(record, names) for record in others[:MAX_RECORDS] if (names := _names_in(archive, record))]
    if not found:
        return []
    first, names = found[0]
    shown = ", ".join(safe_text(name, 80) for name in names[:8])
    message = (
        f"{show_path(archive.file.name)} would run code in a permissive loader: its record "
        f"`{safe_text(first.name, 80)}` names {shown}. Nothing of it was run here."
    )
    keys = tuple(dict.fromkeys(name for _, more in found for name in more))
    return [Finding("unsafe-pickle", "error", message, keys, "Do not load the file with anything that unpickles it.")]


def refuse_unsafe(archive: Archive) -> None:
    """Raise if an archive that is no checkpoint holds a pickle that would run something.

    Raises:
        CheckpointError: `unsafe-pickle`.
    """
    for found in stray_pickles(archive):
        raise CheckpointError(found.code, found.message, fix=found.fix, path=archive.file.path)


def _names_in(archive: Archive, record: Record) -> tuple[str, ...]:
    if record.packed > MAX_STRAY:
        return ()
    data = _unchecked(archive, record)
    return unsafe_in(data) if record.name.endswith(_SUFFIXES) or is_pickle(data[:_HEAD]) else ()


def _unchecked(archive: Archive, record: Record) -> bytes:
    """Return a record's bytes as a careless reader sees them; none if even that one would fail."""
    fields = LOCAL.unpack(archive.file.read(record.header, LOCAL.size))
    start = record.header + LOCAL.size + fields[-2] + fields[-1]
    data = archive.file.read(start, max(min(record.packed, archive.file.size - start), 0))
    if record.method == STORED:
        return data
    try:
        return zlib.decompressobj(-15).decompress(data, MAX_STRAY)
    except zlib.error:
        return b""
