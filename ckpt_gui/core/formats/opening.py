"""`open_checkpoint`: a file, a folder, or an index file becomes a `Source`."""

from __future__ import annotations

import os

from ckpt_gui.core.errors import Finding
from ckpt_gui.core.formats.folder_names import METADATA, find_slices, hf_part_rank, is_slice, slices_up_to
from ckpt_gui.core.formats.parts import Part
from ckpt_gui.core.formats.places import is_folder, list_all, look_beside, split
from ckpt_gui.core.formats.registry import IsCancelled, Progress, check_path, open_part
from ckpt_gui.core.formats.request import Config, Indexed, Request
from ckpt_gui.core.formats.source_of_parts import make_source
from ckpt_gui.core.garbage import collected_later
from ckpt_gui.core.remote.address import admit, is_url
from ckpt_gui.core.remote.watch import watching
from ckpt_gui.core.source import Source
from ckpt_gui.dataclasses import replace


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
    with watching(progress, cancelled), collected_later():  # cycles of hostile files are few, and freed afterwards
        return _open(where, Request(config, salvage, take, progress, cancelled, indexed))


def _open(where: str, request: Request) -> Source:
    check_path(where)
    if is_folder(where):
        return _open_folder(where, where.rstrip("/") if is_url(where) else where, None, request)
    home, name = split(where)
    folder = home or "."
    if name == METADATA:
        return _open_folder(folder, folder, None, replace(request, take=None))
    if name.endswith(".index.json"):
        return _open_folder(where, folder, name, replace(request, take=None))
    part = open_part(where, name, salvage=request.salvage)
    look_beside(where)
    source = make_source(where, folder, [part], request, [*_alone(part), *part.problems])
    if not is_slice(name):
        return source
    wanted = slices_up_to(max(find_slices([*list_all(folder), name])), name)
    return source.replace(ranks=tuple(each if each == name else "" for each in wanted))


def _alone(part: Part) -> list[Finding]:
    if hf_part_rank(part.name) is None:
        return []
    from ckpt_gui.core.formats.hf_parts import alone

    return alone(part)


def _open_folder(path: str, folder: str, index_name: str | None, request: Request) -> Source:
    from ckpt_gui.core.formats.folder_opening import open_folder  # a third of the imports of opening one file

    return open_folder(path, folder, index_name, request)
