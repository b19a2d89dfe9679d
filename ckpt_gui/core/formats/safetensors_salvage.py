"""The whole tensors of a damaged safetensors file: one that is cut short, has holes, or a header badly padded.

Tensors that overlap are not among them: nobody can say whose the bytes are.
"""

from __future__ import annotations

from collections.abc import Iterator

from ckpt_gui.core.errors import Finding
from ckpt_gui.core.formats.bulk import make_refs
from ckpt_gui.core.formats.file_errors import show_path
from ckpt_gui.core.formats.files import HeldFile
from ckpt_gui.core.formats.safetensors_header import Header, decoded, parse, read_text, without_padding
from ckpt_gui.core.formats.safetensors_scan import Columns
from ckpt_gui.core.keys import safe_text


def salvage_header(file: HeldFile, name: str) -> Header:
    """List the whole tensors of a file whose header is whole.

    Args:
        file: The open file.
        name: What the refs shall call it.

    Raises:
        CheckpointError: The header itself is damaged.
    """
    text, start = read_text(file)
    bare = without_padding(decoded(text, file)).encode()
    columns, metadata, problems = parse(bare, file)
    if bare != text:
        problems.append(_padded(file))
    good = sorted(_whole(columns, file.size - start))
    kept = frozenset(good)
    lost = tuple(key for i, key in enumerate(columns.keys) if i not in kept)
    refs = make_refs(
        [columns.keys[i] for i in good], [columns.dtypes[i] for i in good], [columns.shapes[i] for i in good], name
    )
    begins = tuple(start + columns.begins[i] for i in good)
    return Header(tuple(refs), begins, metadata, (*_lost(file, len(good), lost), *problems))


def _padded(file: HeldFile) -> Finding:
    message = f"The header of {show_path(file.name)} has a byte order mark before it or NUL bytes behind it."
    return Finding("metadata-format", "warning", message, fix="The export writes it without them.")


def _whole(columns: Columns, have: int) -> Iterator[int]:
    """Yield the numbers of tensors that lie in the file and share no byte with another."""
    order = sorted(range(len(columns.keys)), key=lambda i: (columns.begins[i], columns.ends[i]))
    reached = 0
    for at, i in enumerate(order):
        begin, end = columns.begins[i], columns.ends[i]
        following = columns.begins[order[at + 1]] if at + 1 < len(order) else end
        if end <= have and (begin == end or (begin >= reached and following >= end)):
            yield i
        reached = max(reached, end)


def _lost(file: HeldFile, whole: int, lost: tuple[str, ...]) -> list[Finding]:
    if not lost:
        return []
    total = whole + len(lost)
    message = (
        f"{show_path(file.path)} is damaged ({file.size:,} bytes): {whole:,} of {total:,} tensors are whole, "
        f"{len(lost):,} are lost, the first of them `{safe_text(lost[0], 120)}`."
    )
    return [Finding("truncated", "error", message, lost, "Download or copy it again.", blocking=True)]
