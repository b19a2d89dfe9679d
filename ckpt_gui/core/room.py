"""How much room an export takes on its disk: none for the tensors whose blocks it can share with the source."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from ckpt_gui.core.fill import share
from ckpt_gui.core.out_files import OutFile
from ckpt_gui.core.source import Source
from ckpt_gui.core.target_folder import MARGIN, existing_parent, free_bytes


def room_for(files: Sequence[OutFile], source: Source, target: Path) -> int:
    """Return the bytes that files of tensors will take at a target.

    Only where there is too little for all of them it is tried, in a file without a name, what can be shared: nothing
    is copied for it, and nothing stays.

    Args:
        files: What shall be written.
        source: What it is made from.
        target: The folder that it shall be in.
    """
    total = sum(file.layout.nbytes for file in files)
    if free_bytes(target) >= total + MARGIN:
        return total
    return total - sum(_shared(file, source, existing_parent(target)) for file in files)


def _shared(file: OutFile, source: Source, folder: Path) -> int:
    try:
        with tempfile.TemporaryFile(dir=folder) as trial:
            return sum(share(trial.fileno(), file, source).values())
    except OSError:  # nothing can be made there, which is told when the folder is looked at
        return 0
