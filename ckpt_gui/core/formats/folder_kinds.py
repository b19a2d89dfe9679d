"""Folders that are one checkpoint as a whole, in a way of their own: distributed checkpoints and partitioned states."""

from __future__ import annotations

import os
import re
from collections.abc import Callable

from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.formats.file_errors import show_path
from ckpt_gui.core.formats.folder_names import Names, has_hf_parts, has_rank_files, is_dcp, is_deepspeed
from ckpt_gui.core.formats.parts import Part
from ckpt_gui.core.formats.places import list_all
from ckpt_gui.core.remote.address import is_url

_INNER = re.compile(r"(pytorch_model_fsdp_\d+|global_step\d+|checkpoint|dist_ckpt|model)\Z")
_LOCAL = "{folder} holds a state that many files make up together; such a one is read from a disk only."
_COPY = "Download the folder first, such as with `hf download` or `aws s3 sync`, and open the copy."


def _open_dcp(folder: str, _: Names) -> Part:
    from ckpt_gui.core.formats.dcp import open_dcp

    return open_dcp(folder)


def _open_deepspeed(folder: str, names: Names) -> Part:
    from ckpt_gui.core.formats.deepspeed import open_deepspeed

    return open_deepspeed(folder, names)


def _open_ranks(folder: str, names: Names) -> Part:
    from ckpt_gui.core.formats.rank_files import open_ranks

    return open_ranks(folder, names)


def _open_hf_parts(folder: str, names: Names) -> Part:
    from ckpt_gui.core.formats.hf_parts import open_hf_parts

    return open_hf_parts(folder, names)


# What a folder is, by the names in it; the first that fits.
FOLDERS: tuple[tuple[Callable[[Names], bool], Callable[[str, Names], Part]], ...] = (
    (is_dcp, _open_dcp),
    (is_deepspeed, _open_deepspeed),
    (has_rank_files, _open_ranks),
    (has_hf_parts, _open_hf_parts),
)


def open_special(folder: str) -> Part | None:
    """Open a folder that is one checkpoint as a whole; None for any other.

    Raises:
        CheckpointError: It is damaged, or parts of it are missing that nothing can be read without.
    """
    names = frozenset(list_all(folder))
    for fits, open_folder in FOLDERS:
        if fits(names):
            if is_url(folder) and open_folder is not _open_dcp:
                raise CheckpointError("not-a-checkpoint", _LOCAL.format(folder=show_path(folder)), fix=_COPY)
            return open_folder(folder, names)
    return None


def config_folder(folder: str) -> str:
    """Return where the config of a cut checkpoint lies: trainers keep it beside its folder, or in one inside."""
    if is_url(folder):
        return folder
    places = [folder, os.path.join(folder, "huggingface")]  # the latter is verl's
    if _INNER.match(os.path.basename(os.path.abspath(folder))):
        places.append(os.path.dirname(os.path.abspath(folder)))
    return next((place for place in places if "config.json" in list_all(place)), folder)
