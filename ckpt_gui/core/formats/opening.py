"""`open_checkpoint`: a file, a folder, or an index file becomes a `Source`."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from ckpt_gui.core.errors import CheckpointError, Finding
from ckpt_gui.core.formats import folder as folders
from ckpt_gui.core.formats.dcp import METADATA
from ckpt_gui.core.formats.file_errors import show_path
from ckpt_gui.core.formats.folder_kinds import config_folder, open_special
from ckpt_gui.core.formats.folder_others import others_beside
from ckpt_gui.core.formats.folder_strays import strays_beside
from ckpt_gui.core.formats.hf_parts import alone
from ckpt_gui.core.formats.parts import Part
from ckpt_gui.core.formats.places import is_folder, join, look_beside, side_by_side, split
from ckpt_gui.core.formats.registry import IsCancelled, Progress, check_path, open_part, stop_if
from ckpt_gui.core.formats.shard_index import WITHOUT_INDEX, ShardIndex, compare
from ckpt_gui.core.formats.sidecars import read_sidecars
from ckpt_gui.core.formats.weights_kind import find_kinds
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.remote.address import admit, is_url
from ckpt_gui.core.remote.watch import watching
from ckpt_gui.core.tensors import Source, TensorRef

Indexed = Callable[[Mapping[str, str]], None]
Config = str | os.PathLike[str] | Mapping[str, Any] | None


def open_checkpoint(
    path: str | os.PathLike[str],
    *,
    config: Config = None,
    salvage: bool = False,
    take: str | None = None,
    progress: Progress | None = None,
    cancelled: IsCancelled | None = None,
    indexed: Indexed | None = None,
) -> Source:
    """Open a checkpoint: read headers, nothing else.

    Args:
        path: A file, a folder with a model, or the index file of one.
        config: A config to use instead of the one beside the weights: parsed, or the file that holds it.
        salvage: Open a file that is cut short or damaged for the tensors in it that are whole; a finding `truncated`
            lists those that are lost.
        take: Of several models in a folder, a file of the one to open: its index, a shard, or all of it.
        progress: Called with what is being done, how much is done, and how much there is to do.
        cancelled: Asked between files; True stops.
        indexed: Called with the shard of each key before any shard is opened, where an index names them and all of
            them are there.

    Returns:
        The source; close it, or use it in a `with` statement.

    Raises:
        CheckpointError: No tensor can be listed; the sentence says why.
        Cancelled: `cancelled` said so.
    """
    where = admit(os.fspath(path))
    with watching(progress, cancelled):
        return _open(where, config, salvage, take, progress, cancelled, indexed)


def _open(
    where: str,
    config: Config,
    salvage: bool,
    take: str | None,
    progress: Progress | None,
    cancelled: IsCancelled | None,
    indexed: Indexed | None,
) -> Source:
    check_path(where)
    if is_folder(where):
        folder = where.rstrip("/") if is_url(where) else where
        return _open_folder(where, folder, None, config, salvage, take, progress, cancelled, indexed)
    home, name = split(where)
    if name == METADATA:
        return _open_folder(home or ".", home or ".", None, config, salvage, None, progress, cancelled, indexed)
    if name.endswith(".index.json"):
        return _open_folder(where, home or ".", name, config, salvage, None, progress, cancelled, indexed)
    part = open_part(where, name, salvage=salvage)
    look_beside(where)
    ranks = folders.ranks_beside(home or ".", name)
    return _assemble(where, home or ".", [part], config, alone(part), ranks=ranks)


def _open_folder(
    path: str,
    folder: str,
    index_name: str | None,
    config: Config,
    salvage: bool,
    take: str | None,
    progress: Progress | None,
    cancelled: IsCancelled | None,
    indexed: Indexed | None,
) -> Source:
    special = open_special(folder) if index_name is None and take is None else None
    if special is not None:
        strays = strays_beside(folder, [file.name for file in special.files], cancelled)
        return _assemble(path, config_folder(folder), [special], config, strays)
    choice = folders.choose(folder, index_name, take)
    if indexed is not None and choice.index is not None and not choice.missing:
        indexed(choice.index.weight_map)
    parts: list[Part] = []
    failed: list[CheckpointError] = []
    try:
        open_one = partial(_open_shard, folder, salvage, cancelled)
        for i, found in enumerate(side_by_side(open_one, choice.files, remote=is_url(folder))):
            parts.append(found) if isinstance(found, Part) else failed.append(found)
            if progress is not None:
                progress("opening", i + 1, len(choice.files))
        problems = [*choice.problems, *others_beside(folder, choice), *_lost(folder, choice, failed)]
        if not parts:
            raise _nothing_left(folder, choice, failed)
        problems += strays_beside(folder, choice.files, cancelled)
        return _assemble(path, folder, parts, config, problems, choice.index, choice.ranks).replace(taken=take or "")
    except BaseException:
        for part in parts:
            part.reader.close()
        raise


def _open_shard(folder: str, salvage: bool, cancelled: IsCancelled | None, name: str) -> Part | CheckpointError:
    """Open one of several files; one that cannot be read is told of with the others that can."""
    stop_if(cancelled)
    try:
        return open_part(join(folder, name), name, salvage=salvage)
    except CheckpointError as error:
        return error


def _assemble(
    path: str,
    folder: str,
    parts: Sequence[Part],
    config: Config,
    problems: list[Finding],
    index: ShardIndex | None = None,
    ranks: tuple[str, ...] = (),
) -> Source:
    refs = tuple(ref for part in parts for ref in part.refs)
    problems += [finding for part in parts for finding in part.problems]
    problems += _duplicates(refs, index) if len(parts) > 1 and not ranks else []
    if index is not None:
        problems += compare(index, refs, [part.name for part in parts])
    sidecars, more = read_sidecars(folder, config)
    extras = tuple(extra for part in parts for extra in part.extras)
    kinds = find_kinds(refs, extras, folders.list_all(folder), sidecars.config)
    cut = any(problem.code == "partitioned-state" for problem in problems)  # empty parts are no placeholders then
    problems += [kind for kind in kinds if not cut or kind.code != "partitioned-state"]
    return Source(
        path=path,
        container=parts[0].container,
        refs=refs,
        files=tuple(file for part in parts for file in part.files),
        tree=parts[0].tree if len(parts) == 1 else _merge_trees(parts),
        metadata=parts[0].metadata,
        extras=extras,
        problems=(*_merge(problems), *more),
        sidecars=sidecars,
        readers={part.name: part.reader for part in parts},
        assigned=_assigned(index, refs) if index is not None else {},
        config=parts[0].config,
        blocks=parts[0].blocks,
        checksums={place: crc for part in parts for place, crc in part.checksums.items()},
        ranks=tuple(name if any(part.name == name for part in parts) else "" for name in ranks),
    )


def _assigned(index: ShardIndex, refs: Sequence[TensorRef]) -> Mapping[str, str]:
    """Return the shard of each key; where the index is right, in the strings of the refs: 500,000 keys are 50 MB."""
    own = {ref.full_key: ref.file for ref in refs}
    return own if own == index.weight_map else index.weight_map


def _merge_trees(parts: Sequence[Part]) -> Any:
    """The shards of a torch model are flat dicts of their own keys."""
    trees = [part.tree for part in parts if isinstance(part.tree, dict)]
    return {key: value for tree in trees for key, value in tree.items()} if trees else None


def _merge(problems: Sequence[Finding]) -> list[Finding]:
    """Say once what is the same in every one of many shards."""
    merged: dict[tuple[str, str, bool], list[Finding]] = {}
    for finding in problems:
        merged.setdefault((finding.code, finding.severity, finding.blocking), []).append(finding)
    result = []
    for same in merged.values():
        if len(same) <= 3:
            result += same
            continue
        message = f"{same[0].message} {len(same) - 1} more files have the same problem."
        keys = tuple(dict.fromkeys(key for finding in same for key in finding.keys))
        result.append(same[0].replace(message=message, keys=keys))
    return result


def _duplicates(refs: Sequence[TensorRef], index: ShardIndex | None) -> list[Finding]:
    if len({ref.full_key for ref in refs}) == len(refs):
        return []
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


def _lost(folder: str, choice: folders.Choice, failed: Sequence[CheckpointError]) -> list[Finding]:
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


def _nothing_left(folder: str, choice: folders.Choice, failed: Sequence[CheckpointError]) -> CheckpointError:
    if failed:
        return failed[0]
    if choice.missing:
        lost = _lost(folder, choice, ())[0]
        return CheckpointError("shard-missing", lost.message, fix=lost.fix, path=folder)
    message = f"The index in {show_path(folder)} names no shards."
    return CheckpointError("damaged", message, fix=WITHOUT_INDEX, path=folder)
