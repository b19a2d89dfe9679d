"""Opening a folder, or the index file of one: shard by shard, or all of it as one checkpoint of a kind of its own."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import chain

from ckpt_gui.core.bulk import joined
from ckpt_gui.core.errors import CheckpointError, Finding
from ckpt_gui.core.formats.file_errors import show_path
from ckpt_gui.core.formats.folder import Choice, choose
from ckpt_gui.core.formats.folder_kinds import config_folder, open_special
from ckpt_gui.core.formats.folder_others import others_beside
from ckpt_gui.core.formats.folder_strays import strays_beside
from ckpt_gui.core.formats.parts import Part
from ckpt_gui.core.formats.places import join, side_by_side
from ckpt_gui.core.formats.registry import open_part, stop_if
from ckpt_gui.core.formats.request import Request
from ckpt_gui.core.formats.shard_index import WITHOUT_INDEX, ShardIndex, compare
from ckpt_gui.core.formats.source_of_parts import make_source
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.remote.address import is_url
from ckpt_gui.core.source import Source
from ckpt_gui.core.tensors import TensorRef, full_keys


def open_folder(path: str, folder: str, index_name: str | None, request: Request) -> Source:
    """Open the model in a folder.

    Args:
        path: What the user named: the folder, or a file in it.
        folder: The folder.
        index_name: The index to go by; None to look for one.
        request: What was asked for.

    Raises:
        CheckpointError: No tensor can be listed.
        Cancelled: The user gave up.
    """
    special = open_special(folder) if index_name is None and request.take is None else None
    if special is not None:
        strays = strays_beside(folder, [file.name for file in special.files], request.cancelled)
        return make_source(path, config_folder(folder), [special], request, [*strays, *special.problems])
    choice = choose(folder, index_name, request.take)
    if request.indexed is not None and choice.index is not None and not choice.missing:
        request.indexed(choice.index.weight_map)
    parts: list[Part] = []
    try:
        failed = _open_shards(folder, choice, request, parts)
        problems = [*choice.problems, *others_beside(folder, choice), *_lost(folder, choice, failed)]
        if not parts:
            raise _nothing_left(folder, choice, failed)
        problems += strays_beside(folder, choice.files, request.cancelled)
        return _made(path, folder, parts, choice, problems, request)
    except BaseException:
        for part in parts:
            part.reader.close()
        raise


def _open_shards(folder: str, choice: Choice, request: Request, parts: list[Part]) -> list[CheckpointError]:
    """Open the files that were chosen, and add them to `parts`; return why others can not be."""
    failed = []
    open_one = partial(_open_shard, folder, request)
    for i, found in enumerate(side_by_side(open_one, choice.files, remote=is_url(folder))):
        parts.append(found) if isinstance(found, Part) else failed.append(found)
        if request.progress is not None:
            request.progress("opening", i + 1, len(choice.files))
    return failed


def _open_shard(folder: str, request: Request, name: str) -> Part | CheckpointError:
    """Open one of several files; one that cannot be read is told of with the others that can."""
    stop_if(request.cancelled)
    try:
        return open_part(join(folder, name), name, salvage=request.salvage)
    except CheckpointError as error:
        if error.code == "unreachable":
            from ckpt_gui.core.remote.faults import is_kept_back  # nothing of that is needed on a disk

            if is_kept_back(error):
                raise  # what a server refuses is not lost
        return error


def _made(
    path: str, folder: str, parts: Sequence[Part], choice: Choice, problems: Sequence[Finding], request: Request
) -> Source:
    """Return the source that shards make up, compared with the index that names them."""
    refs = list(chain.from_iterable(part.refs for part in parts))
    places = joined(full_keys(refs), [ref.file for ref in refs])
    found = [*problems, *(finding for part in parts for finding in part.problems)]
    if len(parts) > 1 and not choice.ranks and len(places) < len(refs):
        found += _duplicates(refs, choice.index)
    index = choice.index
    assigned: Mapping[str, str] = {}
    if index is not None:
        right = index.tells(places)
        found += compare(index, refs, places, [part.name for part in parts], right=right)
        assigned = places if right else index.weight_map  # in the strings of the refs: 500,000 keys are 50 MB
    names = {part.name for part in parts}
    return make_source(path, folder, parts, request, found).replace(
        assigned=assigned,
        ranks=tuple(name if name in names else "" for name in choice.ranks),
        taken=request.take or "",
    )


def _duplicates(refs: Sequence[TensorRef], index: ShardIndex | None) -> list[Finding]:
    seen: dict[tuple[str, ...], str] = {}
    twice = [ref for ref in refs if seen.setdefault(ref.path, ref.file) != ref.file]
    if not twice:
        return []
    first = twice[0]
    message = (
        f"{len(twice):,} tensors stand in more than one shard, such as `{safe_text(first.full_key)}` "
        f"in {show_path(seen[first.path])} and {show_path(first.file)}."
    )
    fix = "Remove the shards that do not belong to the model."
    if index is not None:
        fix += " --assigned-only takes each tensor from the shard that the index names, and nothing else."
    keys = tuple(ref.full_key for ref in twice)
    return [Finding("duplicate-tensor", "error", message, keys=keys, fix=fix, blocking=True)]


def _lost(folder: str, choice: Choice, failed: Sequence[CheckpointError]) -> list[Finding]:
    """Return findings for shards that are missing or cannot be read; the others open."""
    findings = [error.as_finding().replace(blocking=True) for error in failed]
    if choice.missing:
        gone = frozenset(choice.missing)
        keys = tuple(k for k, shard in (choice.index.weight_map.items() if choice.index else ()) if shard in gone)
        shown = ", ".join(safe_text(n, 80) for n in choice.missing[:4]) + (", …" if len(gone) > 4 else "")
        count = f" with {len(keys):,} tensors" if keys else ""
        message = f"{len(gone)} of {len(choice.missing) + len(choice.files)} shards are missing{count}: {shown}."
        fix = "Download the missing files into the folder."
        links = [name for name in choice.missing if not is_url(folder) and os.path.islink(join(folder, name))]
        if links:
            message += f" {safe_text(links[0], 80)} is a link to a file that is not there."
            fix += " In a Hugging Face cache the download ended early: run it again."
        folded = [name for name in choice.missing if not is_url(folder) and os.path.isdir(join(folder, name))]
        if folded:
            message += f" {safe_text(folded[0], 80)} is a folder, not a file."
            fix = "Look into the folder: the file may lie there. Else download the missing files."
        findings.insert(0, Finding("shard-missing", "error", message, keys=keys, fix=fix, blocking=True))
    return findings


def _nothing_left(folder: str, choice: Choice, failed: Sequence[CheckpointError]) -> CheckpointError:
    if failed:
        return failed[0]
    if choice.missing:
        lost = _lost(folder, choice, ())[0]
        return CheckpointError("shard-missing", lost.message, fix=lost.fix, path=folder)
    message = f"The index in {show_path(folder)} names no shards."
    return CheckpointError("damaged", message, fix=WITHOUT_INDEX, path=folder)
