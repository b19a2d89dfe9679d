"""The header of a safetensors file: eight bytes of length, then JSON (README of safetensors, `tensor.rs`).

It is parsed as strictly as by the reference reader 0.8, and more strictly where that one lets two readers see two
things: a key that stands twice is refused at every level.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, NoReturn

from ckpt_gui.core.dtypes import BY_SAFETENSORS
from ckpt_gui.core.errors import CheckpointError, Finding
from ckpt_gui.core.formats.bulk import make_refs
from ckpt_gui.core.formats.file_errors import SALVAGE_FIX, show_path
from ckpt_gui.core.formats.files import HeldFile
from ckpt_gui.core.formats.safetensors_scan import Columns, scan
from ckpt_gui.core.formats.sniff import MAX_HEADER
from ckpt_gui.core.formats.strict_json import BadJsonError, loads, refuse_negative_zero
from ckpt_gui.core.formats.trailing import find_trailing
from ckpt_gui.core.formats.windows import Text
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.tensors import TensorRef
from ckpt_gui.dataclasses import dataclass

METADATA = "__metadata__"
FORMATS = ("pt", "tf", "flax", "mlx")
_LIMIT = 1 << 63
_NEGATIVE_ZERO = re.compile(r"[\[,:]\s*-0")
_FIELDS = ("dtype", "shape", "data_offsets")


@dataclass(frozen=True, slots=True)
class Header:
    """A parsed header.

    Attributes:
        refs: The tensors in the order of the header.
        begins: Where each begins in the file, in the same order.
        metadata: The string metadata.
        problems: What the user should know.
    """

    refs: tuple[TensorRef, ...]
    begins: tuple[int, ...]
    metadata: Mapping[str, str]
    problems: tuple[Finding, ...]


def read_header(file: HeldFile, name: str) -> Header:
    """Parse the header of a safetensors file.

    Args:
        file: The open file.
        name: What the refs shall call it.

    Raises:
        CheckpointError: `truncated`, `damaged` or `limit-exceeded`.
    """
    text, start = read_text(file)
    columns, metadata, problems = parse(text, file)
    problems += [*_check_start(text, file), *_check_cover(columns, file, start)]
    refs = make_refs(columns.keys, columns.dtypes, columns.shapes, name)
    begins = tuple([start + begin for begin in columns.begins])
    return Header(tuple(refs), begins, metadata, tuple(problems))


def read_text(file: HeldFile) -> tuple[Text, int]:
    """Return the text of the header, as its bytes, and where the data begins."""
    if file.size < 8:
        held = "1 byte" if file.size == 1 else f"{file.size} bytes"
        _fail(file, f"has {held}; a safetensors file has at least 8", code="truncated")
    length = int.from_bytes(file.read(0, 8), "little")
    if length > MAX_HEADER:
        _fail(file, f"claims a header of {length:,} bytes; the format allows {MAX_HEADER:,}", offset=0)
    if length + 8 > file.size:
        missing = length + 8 - file.size
        _fail(
            file,
            f"ends inside its header: {length + 8:,} bytes are needed before the first tensor, "
            f"it has {file.size:,} ({missing:,} missing), and no tensor can be listed",
            code="truncated",
            fix="Download or copy it again.",
            offset=file.size,
        )
    data = bytearray(length)
    file.pread_into(8, memoryview(data))
    return data, 8 + length


def decoded(text: Text, file: HeldFile) -> str:
    """Return the text of a header."""
    try:
        return text.decode("utf-8")
    except UnicodeDecodeError as error:
        at = 8 + error.start
        raise _error(file, f"has a header that is not UTF-8 at byte {at:,}", offset=at) from error


def parse(text: Text, file: HeldFile) -> tuple[Columns, Mapping[str, str], list[Finding]]:
    """Return the tensors and the metadata of a header; that the tensors lie in the file is not checked."""
    scanned = scan(text)
    if scanned is not None:
        columns, metadata_text = scanned
        if metadata_text is None:
            return columns, {}, []
        metadata = _load(metadata_text, file, None)
        return columns, metadata, _check_metadata(metadata, file)
    return parse_strictly(decoded(text, file), file)


def parse_strictly(text: str, file: HeldFile) -> tuple[Columns, Mapping[str, str], list[Finding]]:
    """Return what `parse` does, of a header spelled in any way."""
    header = _load(text, file, 8)
    if type(header) is not dict:
        _fail(file, f"has a header that is a JSON {_json_kind(header)}, not an object", offset=8)
    metadata = header.pop(METADATA, None)
    problems = [] if metadata is None else _check_metadata(metadata, file)
    problems += _check_fields(header, file)
    return _to_columns(header, file), metadata or {}, problems


def _check_start(text: Text, file: HeldFile) -> list[Finding]:
    if text.startswith(b"{"):
        return []
    message = f"The header of {show_path(file.name)} begins with spaces, which older readers refuse."
    return [Finding("metadata-format", "info", message, fix="The export writes it without them.")]


def _load(text: str, file: HeldFile, start: int | None) -> Any:
    """Parse a text that begins at `start` of the file; None for a part whose place is not known."""
    try:
        value = loads(text)
        # Python reads -0 as the integer 0, the reference reader as a float, which it refuses.
        if "-" in text and _NEGATIVE_ZERO.search(text):
            refuse_negative_zero(text)
        return value
    except BadJsonError as error:
        at = None
        if start is not None and error.position is not None:
            at = start + len(text[: error.position].encode("utf-8"))
        place = "" if at is None else f" at byte {at:,}"
        fix = SALVAGE_FIX if without_padding(text) != text else None
        raise _error(file, f"has a damaged header{place}: {error}", offset=at, fix=fix) from error


def without_padding(text: str) -> str:
    """Return a header without what careless writers put around it: a byte order mark, NUL to fill it up."""
    return text.removeprefix("\ufeff").rstrip("\0")


def _check_metadata(metadata: Any, file: HeldFile) -> list[Finding]:
    if type(metadata) is not dict or any(type(value) is not str for value in metadata.values()):
        _fail(file, f"has {METADATA} that is not an object of strings", offset=8)
    if metadata.get("format") in FORMATS:
        return []
    has = f"'{safe_text(metadata['format'], 40)}'" if "format" in metadata else "none"
    message = (
        f"The metadata of {show_path(file.name)} names no known format ({has} instead of 'pt'): "
        "transformers 4 refuses the file."
    )
    return [Finding("metadata-format", "warning", message, fix="The export writes format 'pt'.")]


def _check_fields(entries: Mapping[str, Any], file: HeldFile) -> list[Finding]:
    odd = tuple(key for key, entry in entries.items() if type(entry) is dict and not entry.keys() <= set(_FIELDS))
    if not odd:
        return []
    message = f"{len(odd)} entries in the header of {show_path(file.name)} have fields that the format does not know."
    return [Finding("metadata-format", "warning", message, keys=odd, fix="The export leaves them out.")]


def _to_columns(entries: Mapping[str, Any], file: HeldFile) -> Columns:
    columns = Columns([], [], [], [], [])
    for key, entry in entries.items():
        _check_entry(key, entry, file)
        begin, end = entry["data_offsets"]
        columns.keys.append(key)
        columns.dtypes.append(BY_SAFETENSORS[entry["dtype"]].name)
        columns.shapes.append(tuple(entry["shape"]))
        columns.begins.append(begin)
        columns.ends.append(end)
    return columns


def _check_entry(key: str, entry: Any, file: HeldFile) -> None:
    """Raise with the reason why an entry is bad."""
    if type(entry) is not dict:
        _fail(file, "has an entry that is not an object", key=key)
    for field in _FIELDS:
        if field not in entry:
            _fail(file, f"has an entry without {field}", key=key)
    if type(entry["dtype"]) is not str or entry["dtype"] not in BY_SAFETENSORS:
        _fail(file, f"has the unknown type {_show_json(entry['dtype'])}", key=key)
    for field in _FIELDS[1:]:
        numbers = entry[field]
        if type(numbers) is not list or not all(type(n) is int and 0 <= n < _LIMIT for n in numbers):
            what = f"has {_show_json(numbers)} as {field}, which is not a list of whole numbers below 2^63"
            _fail(file, what, key=key)
    if len(entry["data_offsets"]) != 2:
        _fail(file, f"has {len(entry['data_offsets'])} data_offsets instead of 2", key=key)
    _check_size(key, entry, file)


def _check_size(key: str, entry: Mapping[str, Any], file: HeldFile) -> None:
    bits = 1
    for size in [*entry["shape"], BY_SAFETENSORS[entry["dtype"]].bits]:
        bits *= size
        if bits >= 1 << 64:  # an overflow on the way counts even if a later size is 0, as in the reference
            _fail(file, f"has a shape whose size overflows 64 bits: {_show_json(entry['shape'])}", key=key)
    begin, end = entry["data_offsets"]
    if end < begin:
        _fail(file, f"has data_offsets that run backwards ({begin:,} to {end:,})", key=key)
    if bits % 8:
        _fail(file, f"has {bits:,} bits of data, which is not a whole number of bytes", key=key)
    if bits // 8 != end - begin:
        _fail(file, f"has a shape of {bits // 8:,} bytes but data_offsets of {end - begin:,}", key=key)


def _check_cover(columns: Columns, file: HeldFile, start: int) -> list[Finding]:
    """Raise unless the tensors follow each other without hole or overlap to the end of the file."""
    begins, ends = columns.begins, columns.ends
    last = ends[-1] if ends else 0
    if begins[1:] != ends[:-1] or begins[:1] not in ([0], []):
        last = _check_sorted(columns, file)
    have = file.size - start
    if last > have:
        _fail_truncated(file, columns, start, last)
    return find_trailing(file, have - last, "its last tensor")


def _check_sorted(columns: Columns, file: HeldFile) -> int:
    last, before = 0, ""
    for begin, end, key in sorted(zip(columns.begins, columns.ends, columns.keys, strict=True)):
        if begin < last:
            what = f"has data that begins at {begin:,} and overlaps `{safe_text(before)}` up to {last:,}"
            _fail(file, what, key=key, fix=SALVAGE_FIX)
        if begin > last:
            what = f"has data that begins at {begin:,}, which leaves a hole of {begin - last:,} bytes"
            _fail(file, what, key=key, fix=SALVAGE_FIX)
        last, before = end, key
    return last


def _fail_truncated(file: HeldFile, columns: Columns, start: int, last: int) -> NoReturn:
    have = file.size - start
    cut = sorted((end, key) for end, key in zip(columns.ends, columns.keys, strict=True) if end > have)
    whole = len(columns.keys) - len(cut)
    _fail(
        file,
        f"is cut short: {start + last:,} bytes are expected, it has {file.size:,} ({last - have:,} missing). "
        f"{whole:,} of {len(columns.keys):,} tensors are whole; the first that is not is `{safe_text(cut[0][1])}`",
        code="truncated",
        fix=SALVAGE_FIX if whole else "Download or copy it again.",
        offset=file.size,
    )


def _json_kind(value: Any) -> str:
    names = {list: "array", str: "string", type(None): "null", bool: "truth value"}
    return names.get(type(value), "number")


def _show_json(value: Any) -> str:
    try:
        return safe_text(json.dumps(value), 80)
    except (ValueError, RecursionError):
        return "something that is too long to show"


def _error(file: HeldFile, what: str, *, code: str = "damaged", **more: Any) -> CheckpointError:
    key = more.get("key")
    subject = f"Tensor `{safe_text(key)}` in {show_path(file.name)}" if key is not None else show_path(file.path)
    return CheckpointError(code, f"{subject} {what}.", path=file.path, **more)


def _fail(file: HeldFile, what: str, **more: Any) -> NoReturn:
    raise _error(file, what, **more)
