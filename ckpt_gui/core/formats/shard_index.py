"""Index files of sharded models (`*.index.json`): which key lies in which shard.

A name in an index is text from a stranger that becomes a path. It must be one plain name in the folder itself; links
may lead into the `blobs` folder of a Hugging Face cache and nowhere else.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ckpt_gui.core.bulk import different
from ckpt_gui.core.errors import CheckpointError, Finding
from ckpt_gui.core.formats.file_errors import INDEX_FIX, explain_os_error, show_path
from ckpt_gui.core.formats.files import HeldFile
from ckpt_gui.core.formats.index_scan import scan
from ckpt_gui.core.formats.places import join, open_file
from ckpt_gui.core.formats.strict_json import BadJsonError, loads
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.remote.address import is_url
from ckpt_gui.core.tensors import TensorRef, all_bytes, unique_bytes
from ckpt_gui.dataclasses import dataclass

WITHOUT_INDEX = "Download it again, or move it away: shards open without one, and fix --to same writes a new one."
MAX_INDEX = 512 << 20
PIECE = 4 << 20  # bytes
_DEVICES = re.compile(r"(con|prn|aux|nul|com\d|lpt\d|conin\$|conout\$)(\.|$)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ShardIndex:
    """A parsed index.

    Attributes:
        name: Name of the index file.
        weight_map: Shard by key.
        total_size: Bytes it claims; None if it does not say.
    """

    name: str
    weight_map: Mapping[str, str]
    total_size: Any

    @property
    def shards(self) -> tuple[str, ...]:
        """The shards it names, in natural order."""
        return tuple(sorted(different(self.weight_map.values())))

    def tells(self, places: Mapping[str, str]) -> bool:
        """Return True if these are its keys, each in the shard that it names."""
        named = self.weight_map.get
        return len(places) == len(self.weight_map) and all(named(key) == shard for key, shard in places.items())


def read_index(folder: str, name: str) -> ShardIndex:
    """Parse an index file; every shard name in it is checked before any is opened.

    Raises:
        CheckpointError: `damaged`, `limit-exceeded` or `index-unsafe`.
    """
    path = join(folder, name)
    value = _read(path)
    weight_map = value.get("weight_map") if isinstance(value, dict) else None
    if not isinstance(weight_map, dict) or not set(map(type, weight_map.values())) <= {str}:
        raise CheckpointError(
            "damaged",
            f"{show_path(path)} is damaged: it has no weight_map from keys to file names.",
            fix=WITHOUT_INDEX,
            path=path,
        )
    for shard in dict.fromkeys(weight_map.values()):
        check_shard_name(shard, name)
    metadata = value.get("metadata")
    return ShardIndex(name, weight_map, metadata.get("total_size") if isinstance(metadata, dict) else None)


def _read(path: str) -> Any:
    file = open_file(path)
    try:
        if file.size > MAX_INDEX:
            message = f"{show_path(path)} has {file.size:,} bytes; {MAX_INDEX:,} are read at most."
            raise CheckpointError("limit-exceeded", message, path=path)
        text = _text(file)
        scanned = scan(text)
        return loads(text.decode()) if scanned is None else scanned
    except (BadJsonError, UnicodeDecodeError) as error:
        message = f"{show_path(path)} is damaged: {error}."
        raise CheckpointError("damaged", message, fix=WITHOUT_INDEX, path=path) from error
    finally:
        file.close()


def _text(file: HeldFile) -> bytearray:
    """Return the bytes of a file; read piece by piece, as each copy of 40 MB keeps other threads from running."""
    text = bytearray(file.size)
    view = memoryview(text)
    for start in range(0, file.size, PIECE):
        file.pread_into(start, view[start : start + PIECE])
    return text


def check_shard_name(shard: str, index: str) -> None:
    """Raise unless a shard name is one plain file name on every system.

    Raises:
        CheckpointError: `index-unsafe`.
    """
    bad = shard in ("", ".", "..") or any(c in shard for c in "/\\:\x00") or not shard.isprintable()
    if bad or _DEVICES.match(shard) or shard != shard.strip() or shard.endswith(".") or len(shard) > 255:
        raise CheckpointError(
            "index-unsafe",
            f"{show_path(index)} names `{safe_text(shard, 80)}` as a shard, which is not a plain file name; "
            "nothing was opened.",
            fix="Do not use this model folder; the index was tampered with or written by a broken tool.",
        )


def check_link(folder: str, shard: str, index: str) -> None:
    """Raise if a shard is a link that leads out of the folder (the cache's own `blobs` excepted).

    Raises:
        CheckpointError: `index-unsafe`.
    """
    path = join(folder, shard)
    if is_url(path) or not os.path.islink(path):
        return
    try:
        target = os.path.dirname(os.path.realpath(path, strict=True))
    except OSError as error:
        raise explain_os_error(error, path) from error
    home = os.path.realpath(folder)
    blobs = os.path.join(os.path.dirname(os.path.dirname(home)), "blobs")
    if target not in (home, blobs):
        raise CheckpointError(
            "index-unsafe",
            f"`{safe_text(shard, 80)}`, named by {show_path(index)}, is a link that leads out of the folder.",
            fix="Put the file itself into the folder, or open it directly.",
        )


def compare(
    index: ShardIndex, refs: Sequence[TensorRef], found: Mapping[str, str], opened: Sequence[str], *, right: bool
) -> list[Finding]:
    """Compare an index with the shards that were opened, both ways.

    Args:
        index: The index.
        refs: The tensors of the shards.
        found: The shard of each, by its full key.
        opened: Names of the shards.
        right: Whether the index says of each tensor where it is, and of no others.
    """
    here, shards = frozenset(opened), index.shards
    absent, moved, extra = ([], [], []) if right else _differences(index, refs, found, here)
    findings = _check_case(index.name, shards)
    if absent or moved:
        findings.append(_stale(index, absent, moved))
    if extra:
        what = f"{len(extra):,} tensors in the shards are not in {show_path(index.name)}"
        message = f"{what}, such as `{safe_text(extra[0])}`."
        fix = "fix writes them too, with a complete index; --assigned-only leaves them out."
        findings.append(Finding("shard-unindexed", "warning", message, keys=tuple(extra), fix=fix))
    if len(here) == len(shards) and not absent and not extra:
        findings += _check_total(index, refs)
    return findings


def _differences(
    index: ShardIndex, refs: Sequence[TensorRef], found: Mapping[str, str], here: frozenset[str]
) -> tuple[list[str], list[str], list[str]]:
    """Return the keys that the shards do not hold, those in another shard, and those that the index does not name."""
    others = {(ref.full_key, ref.file) for ref in refs} if len(found) < len(refs) else frozenset()
    odd = [pair for pair in index.weight_map.items() if pair[1] in here and found.get(pair[0]) != pair[1]]
    absent = [key for key, _ in odd if key not in found]
    moved = [key for key, shard in odd if key in found and (key, shard) not in others]
    return absent, moved, [key for key in found if key not in index.weight_map]


def _check_case(name: str, shards: Sequence[str]) -> list[Finding]:
    """Find shards whose names differ in case only: on some systems they are one and the same file."""
    seen: dict[str, str] = {}
    twins = [(seen[n.casefold()], n) for n in shards if seen.setdefault(n.casefold(), n) != n]
    if not twins:
        return []
    first, second = (safe_text(name, 80) for name in twins[0])
    message = f"{show_path(name)} names {first} and {second}, which are one file on systems that ignore case."
    return [Finding("index-stale", "warning", message, fix="The export writes shards with names of their own.")]


def _stale(index: ShardIndex, absent: list[str], moved: list[str]) -> Finding:
    parts = []
    if absent:
        parts.append(f"{len(absent):,} keys that its shards do not hold, such as `{safe_text(absent[0])}`")
    if moved:
        parts.append(f"{len(moved):,} keys in the wrong shard, such as `{safe_text(moved[0])}`")
    message = f"{show_path(index.name)} is stale: it lists {' and '.join(parts)}."
    return Finding(
        "index-stale",
        "warning",
        message,
        keys=(*absent, *moved),
        fix=INDEX_FIX,
    )


def _check_total(index: ShardIndex, refs: Sequence[TensorRef]) -> list[Finding]:
    """Compare the claimed bytes; writers count an alias once or twice, so either is right."""
    claimed, every = index.total_size, all_bytes(refs)
    if claimed is None or claimed == every:
        return []
    sums = {every, unique_bytes(refs)}
    is_number = type(claimed) in (int, float)
    if is_number and claimed in sums:
        return []
    shown = safe_text(str(claimed), 40) if is_number else "no number of"
    message = f"{show_path(index.name)} claims a total size of {shown} bytes; it is {max(sums):,}."
    return [Finding("index-stale", "warning", message, fix=INDEX_FIX)]
